"""What no store accepts, checked before anything is written."""

from __future__ import annotations

from ..events.errors import InvalidSessionId
from .port import Append

MAX_ID_LENGTH = 512


def check_session_id(session_id: str) -> None:
    """Raise ``InvalidSessionId`` unless the id is 1 to 512 printable Unicode characters."""
    if not (session_id and len(session_id) <= MAX_ID_LENGTH and session_id.isprintable()):
        raise InvalidSessionId(
            f"{session_id[:40]!a} can't name a session: an id is 1 to {MAX_ID_LENGTH} "
            "printable characters"
        )


def check_append(append: Append) -> None:
    """Raise ``InvalidSessionId``, or ``ValueError`` for an append that says nothing sensible."""
    check_session_id(append.session_id)
    if append.expected_version < 0 or not append.events:
        raise ValueError("an append has at least one event and an expected version from 0 on")
    if append.row.at.tzinfo is None:
        raise ValueError("the time of an append needs a time zone; use UTC")
