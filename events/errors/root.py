"""The root of all errors, and those that belong to no part of the runtime."""

from __future__ import annotations

from typing import ClassVar


class TurnstreamError(Exception):
    """The root of all errors. ``session_id``, ``turn_id`` and ``call_id`` are empty where they
    do not apply."""

    code: ClassVar[str] = "turnstream"

    def __init__(
        self, message: str, *, session_id: str = "", turn_id: str = "", call_id: str = ""
    ) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.turn_id = turn_id
        self.call_id = call_id


class InvalidSessionId(TurnstreamError):
    """The id can't name a session."""

    code = "invalid-session-id"


class Unstorable(TurnstreamError):
    """A value can't be stored. ``path`` leads to the piece at fault (``result.rows[3]``)."""

    code = "unstorable"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class NotSupported(TurnstreamError):
    """Asked for something this version does not do."""

    code = "not-supported"


class InvalidAgent(TurnstreamError):
    """An agent or a tool is declared in a way that can't work."""

    code = "invalid-agent"


class InvalidTranscript(TurnstreamError):
    """A conversation that no provider would accept: a call without its result, or the reverse."""

    code = "invalid-transcript"


class DamagedFile(TurnstreamError):
    """An exported file is not as it was written: ``line`` is the first at fault, and ``reason``
    says what is wrong with it."""

    code = "damaged-file"

    def __init__(self, message: str, *, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.reason = message


class ScriptExhausted(TurnstreamError):
    """A scripted model was asked more often than its script is long."""

    code = "script-exhausted"
