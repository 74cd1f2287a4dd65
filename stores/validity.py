"""What no store accepts, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

from ..events.envelope import EncodedEvent
from ..events.identifiers import check_session_id
from .port import Append


def check_append(append: Append) -> None:
    """Raise ``InvalidSessionId``, or ``ValueError`` for an append that says nothing sensible."""
    check_session_id(append.session_id)
    if append.expected_version < 0 or not append.events:
        raise ValueError("an append has at least one event and an expected version from 0 on")
    if append.copied is not None:
        check_session_id(append.copied.session_id)
        if not 0 < append.copied.version == append.expected_version:
            raise ValueError("what is copied ends at the expected version, which is 1 or more")
    if append.row.at.tzinfo is None:
        raise ValueError("the time of an append needs a time zone; use UTC")


def check_erasure(append: Append, payloads: Mapping[int, EncodedEvent]) -> None:
    """The same, for an append that puts events in the place of others."""
    check_append(append)
    if append.copied is not None:
        raise ValueError("an erasure copies nothing")
    if not all(0 < version <= append.expected_version for version in payloads):
        raise ValueError("what is erased stands in the stream: its versions are known")
