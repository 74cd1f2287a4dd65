"""Every error turnstream raises.

    TurnstreamError
    ├── InvalidSessionId          the id can't name a session
    ├── Unstorable                a value can't be stored, with the path to the piece at fault
    ├── NotSupported              asked for something this version does not do
    ├── StoreError
    │   ├── WrongExpectedVersion  the stream is not where the writer took it to be
    │   ├── SessionDeleted        the stream was deleted; its id is not used again
    │   ├── StoreBusy             another writer held the store for too long
    │   ├── StoreUnavailable      the disk is full, the file is read-only, the server is away
    │   ├── StoreClosed           used after close
    │   ├── NotAStore             the address holds something else
    │   ├── StoreTooNew           written by a newer turnstream
    │   └── CorruptEvent          a stored event can't be read, or the chain is broken
    ├── SessionError
    │   ├── SessionNotFound       no such session
    │   ├── SessionExists         the id is taken
    │   ├── CheckpointNotFound    the session was never at this step, version or time
    │   ├── UnknownAgent          the session's agent is not among the system's
    │   ├── NothingUnfinished     there is no turn to go on with
    │   ├── SessionReadOnly       the stream holds events this version does not know
    │   ├── SessionAwaitingApproval  a decision comes first
    │   ├── ApprovalNotFound      no such approval
    │   ├── ApprovalDecided       the decision was taken before
    │   ├── ArgumentsRefused      edited arguments do not fit the tool
    │   ├── AgentDrifted          the agent is not what began the turn
    │   ├── SessionCrashed        its actor failed; the stream is as it was
    │   ├── ErasureRefused        the content can't be erased now
    │   ├── IllegalTransition     the event can't happen in this state
    │   └── InputConflict         a key was used before, with another input
    ├── TurnError
    │   ├── ModelFailed           the model raised
    │   ├── ModelStreamEnded      the model's stream ended without its closing turn
    │   ├── ModelTimedOut         the model took longer than it may
    │   ├── InvalidModelTurn      what the model answered is no turn
    │   ├── TurnWithdrawn         the input was taken back before it was used
    │   ├── TurnTakenOver         a younger node runs the turn
    │   └── ToolError             for tools to raise: its text is what the model reads
    ├── ActorError
    │   ├── MailboxFull           nothing was accepted; try again
    │   ├── SystemClosed          the system no longer accepts
    │   └── WouldDeadlock         the wait could never end
    ├── InvalidAgent              an agent or tool is declared wrongly
    ├── InvalidTranscript         a conversation that no provider would accept
    ├── DamagedFile               an exported file is not as it was written
    └── ScriptExhausted           a scripted model was asked more often than its script is long

``code`` is stable and fit for programs; the text says what happened, to what, and what to do
next. Payloads and secrets are never part of it.
"""

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


class StoreError(TurnstreamError):
    """The store could not do what was asked. Nothing was written."""

    code = "store"


class WrongExpectedVersion(StoreError):
    """The stream is at version ``actual``, not at ``expected``. Nothing was written."""

    code = "wrong-expected-version"

    def __init__(self, session_id: str, *, expected: int, actual: int) -> None:
        super().__init__(
            f"session {session_id!r} is at version {actual}, not {expected}: somebody else wrote "
            "to it; read it again and decide anew",
            session_id=session_id,
        )
        self.expected = expected
        self.actual = actual


class SessionDeleted(StoreError):
    """The session was deleted. Its id is not used again."""

    code = "session-deleted"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id!r} was deleted; choose another id", session_id=session_id
        )


class StoreBusy(StoreError):
    """Another writer held the store for longer than the busy timeout."""

    code = "store-busy"


class StoreUnavailable(StoreError):
    """The store can't be written or read now: full disk, read-only file, server away."""

    code = "store-unavailable"


class StoreClosed(StoreError):
    """The store was used after it was closed."""

    code = "store-closed"


class NotAStore(StoreError):
    """The address holds something that is no turnstream store, or is no address at all."""

    code = "not-a-store"


class StoreTooNew(StoreError):
    """The store was written by a newer turnstream."""

    code = "store-too-new"


class CorruptEvent(StoreError):
    """A stored event can't be read, or does not follow the one before it."""

    code = "corrupt-event"

    def __init__(self, message: str, *, session_id: str = "", version: int = 0) -> None:
        super().__init__(message, session_id=session_id)
        self.version = version


class SessionError(TurnstreamError):
    """The session can't do this now."""

    code = "session"


class SessionNotFound(SessionError):
    """No session has this id."""

    code = "session-not-found"


class SessionExists(SessionError):
    """A session with this id exists already."""

    code = "session-exists"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} exists: choose another id", session_id=session_id)


class CheckpointNotFound(SessionError):
    """The session was never at this step, version or time."""

    code = "checkpoint-not-found"


class UnknownAgent(SessionError):
    """The session belongs to an agent that the system does not have."""

    code = "unknown-agent"


class NothingUnfinished(SessionError):
    """There is no turn to go on with, and there never was one."""

    code = "nothing-unfinished"


class SessionReadOnly(SessionError):
    """The stream holds events this version does not know, or out of their place: it can be read,
    not continued."""

    code = "session-read-only"


class SessionAwaitingApproval(SessionError):
    """A tool call waits for a decision; nothing else happens before it."""

    code = "session-awaiting-approval"

    def __init__(self, session_id: str, approval_ids: tuple[str, ...]) -> None:
        super().__init__(
            f"session {session_id!r} awaits a decision on {', '.join(approval_ids)}: approve or "
            "reject it first",
            session_id=session_id,
        )
        self.approval_ids = approval_ids


class ApprovalNotFound(SessionError):
    """No approval has this id, or its session is gone."""

    code = "approval-not-found"


class ApprovalDecided(SessionError):
    """The decision was taken before, or the question withdrawn: ``decision`` says how it ended."""

    code = "approval-decided"

    def __init__(self, approval_id: str, decision: str, by: str = "") -> None:
        how = decision if decision in ("approved", "rejected") else f"withdrawn ({decision})"
        whom = f" by {by!r}" if by else ""
        super().__init__(
            f"approval {approval_id!r} was {how}{whom} before: nothing was changed; see what "
            "waits now with approvals()"
        )
        self.approval_id = approval_id
        self.decision = decision
        self.by = by


class ArgumentsRefused(SessionError):
    """The edited arguments do not fit the tool. Nothing was decided."""

    code = "arguments-refused"


class AgentDrifted(SessionError):
    """The agent differs from the one that began the turn; ``changes`` names what. Nothing was
    appended."""

    code = "agent-drifted"

    def __init__(self, turn_id: str, changes: tuple[str, ...]) -> None:
        super().__init__(
            f"{turn_id} was begun by an agent that differs ({', '.join(changes)}): go on with that "
            "one, choose on_agent_drift='warn', or drop the turn with discard_pending()",
            turn_id=turn_id,
        )
        self.changes = changes


class SessionCrashed(SessionError):
    """The session's actor failed. Its stream is as it was; resume goes on from there."""

    code = "session-crashed"


class ErasureRefused(SessionError):
    """The content can't be erased, or not yet. Nothing was changed."""

    code = "erasure-refused"


class IllegalTransition(SessionError):
    """The event can't happen in the state the session is in."""

    code = "illegal-transition"


class InputConflict(SessionError):
    """The key was used before, with another input."""

    code = "input-conflict"


class TurnError(TurnstreamError):
    """The turn could not go on."""

    code = "turn"


class ModelFailed(TurnError):
    """The model raised. The cause is chained."""

    code = "model-failed"


class ModelStreamEnded(TurnError):
    """The model's stream ended without its closing turn."""

    code = "model-stream-ended"


class ModelTimedOut(TurnError):
    """The model took longer than the agent's ``model_timeout``."""

    code = "model-timed-out"


class TurnWithdrawn(TurnError):
    """The input was taken back before it was used: there is no turn."""

    code = "turn-withdrawn"


class InvalidModelTurn(TurnError):
    """What the model answered is no turn."""

    code = "invalid-model-turn"


class TurnTakenOver(TurnError):
    """A younger node runs the turn; its result will be in the stream."""

    code = "turn-taken-over"


class ToolError(TurnError):
    """For tools to raise: the model reads its text as it is, without the name of a class."""

    code = "tool-error"


class ActorError(TurnstreamError):
    """The runtime refused."""

    code = "actor"


class MailboxFull(ActorError):
    """The session's mailbox is full. Nothing was accepted."""

    code = "mailbox-full"


class SystemClosed(ActorError):
    """The system was closed and accepts nothing more."""

    code = "system-closed"


class WouldDeadlock(ActorError):
    """The wait could never end, so it was refused when it began."""

    code = "would-deadlock"


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
