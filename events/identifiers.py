"""Names of sessions.

An id is a value, not a path: whoever stores sessions escapes it, nobody takes it apart.
"""

from __future__ import annotations

from .errors import InvalidSessionId

MAX_LENGTH = 512
JOURNAL = "turnstream/journal"
"""What stands in the place of an agent's name where a stream is that of a journal's run. No agent
can be named so."""
_SHOWN = 40


def check_session_id(session_id: str) -> str:
    """Return the id, if it can name a session: any printable text of 1 to 512 characters.

    What is printable is what ``str.isprintable`` says: letters, digits, punctuation and symbols
    of any script, and the space. Raises ``InvalidSessionId``, which names what is wrong.
    """
    if isinstance(session_id, str) and session_id.isprintable():
        if 0 < len(session_id) <= MAX_LENGTH:
            return str.__str__(session_id)
    raise InvalidSessionId(f"{_fault(session_id)}; choose 1 to {MAX_LENGTH} printable characters")


def _fault(session_id: object) -> str:
    match session_id:
        case "":
            return "a session id can't be empty"
        case str() if len(session_id) > MAX_LENGTH:
            return f"session id {_shortened(session_id)} has {len(session_id)} characters"
        case str():
            return f"session id {_shortened(session_id)} contains {_first_unprintable(session_id)}"
        case _:
            return f"a session id is text, not {type(session_id).__name__}"


def _first_unprintable(text: str) -> str:
    index, char = next((i, c) for i, c in enumerate(text) if not c.isprintable())
    return f"U+{ord(char):04X}, which can't be printed, at index {index}"


def _shortened(text: str) -> str:
    return ascii(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")
