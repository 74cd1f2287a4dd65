"""Names of files for session ids: no two ids share one, on any file system.

Small letters, digits, ``-`` and ``_`` stand for themselves; each other byte of the id in UTF-8 is
``=`` and two digits: ``User 1`` is ``=55ser=201``. There are no capitals, so it is no matter
whether the file system knows them apart, nor how it would write an accent. Names that are too
long, or that mean a device on Windows, are told apart in the same way.
"""

from __future__ import annotations

import re
from hashlib import sha256

from ...events.errors import InvalidSessionId
from ...events.identifiers import check_session_id

SUFFIX = ".jsonl"
LONGEST = 120
"""The most characters of a name without its suffix; some encrypted file systems take 143."""

_BEGINNING = 50
_DEVICES = {
    *("aux", "con", "nul", "prn"),
    *(f"{port}{number}" for port in ("com", "lpt") for number in range(10)),
}
_OTHER = re.compile(rb"[^a-z0-9_-]")


def file_name(session_id: str) -> str:
    """The name of the session's file. Raises ``InvalidSessionId``."""
    encoded = check_session_id(session_id).encode()
    name = _OTHER.sub(lambda found: b"=%02x" % found[0][0], encoded).decode()
    if name in _DEVICES:
        name = f"={encoded[0]:02x}{name[1:]}"
    if len(name) > LONGEST:
        # Two of these never follow one another in a name that is not cut.
        name = f"{name[:_BEGINNING]}=={sha256(encoded).hexdigest()}"
    return name + SUFFIX


def session_of(name: str) -> str | None:
    """The session id that the name of a file stands for; None where the name is too short for
    it, or is none of ours."""
    stem = name.removesuffix(SUFFIX)
    raw = re.sub(r"=([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), stem)
    try:
        session_id = raw.encode("latin-1").decode()
        return session_id if file_name(session_id) == name else None
    except (InvalidSessionId, UnicodeError):
        return None
