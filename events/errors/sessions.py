"""What a session can't do now."""

from __future__ import annotations

from .root import TurnstreamError


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
    """The key or the run id was used before, with another input. Nothing was accepted. ``run_id``
    is empty where it is about a key."""

    code = "input-conflict"

    def __init__(self, message: str, *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class RunExists(SessionError):
    """The session has a run of this id, where there was to be none, or none that runs. Nothing was
    accepted."""

    code = "run-exists"

    def __init__(self, run_id: str, now: str, instead: str) -> None:
        super().__init__(f"the session has a run {run_id!r}, which {now}: {instead}")
        self.run_id = run_id


class RunNotFound(SessionError):
    """The session has no run of this id. Nothing was accepted."""

    code = "run-not-found"

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"the session has no run {run_id!r}: check the id, or send the input that it is to "
            "begin with, with if_run_exists='resume'"
        )
        self.run_id = run_id
