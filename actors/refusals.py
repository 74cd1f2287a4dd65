"""What those are told whom a session does not serve, and what to do about it."""

from __future__ import annotations

from ..events.errors import MailboxFull, SessionCrashed, SystemClosed


def full(session_id: str, limit: int) -> MailboxFull:
    """Too many inputs wait in the session."""
    return MailboxFull(
        f"{limit} inputs wait in session {session_id!r}, its limit: nothing was accepted; "
        "send again when some of them were used",
        session_id=session_id,
    )


def crashed(session_id: str, error: BaseException | None) -> SessionCrashed:
    """The session's actor failed, with this error."""
    crash = SessionCrashed(
        f"the actor of session {session_id!r} failed ({type(error).__name__}); its stream is as "
        "it was: resume goes on from there",
        session_id=session_id,
    )
    crash.__cause__ = error
    return crash


def stopped(session_id: str) -> SessionCrashed:
    """The session's actor ended before it came to the request."""
    return SessionCrashed(
        f"session {session_id!r} stopped before it looked at the request: send it again",
        session_id=session_id,
    )


def closing(session_id: str) -> SystemClosed:
    """The system accepts nothing more."""
    return SystemClosed("the system is closing", session_id=session_id)


def closed(session_id: str) -> SystemClosed:
    """The system was closed."""
    return SystemClosed("the system is closed: open another one", session_id=session_id)


def interrupted(session_id: str) -> SystemClosed:
    """The system was closed while somebody waited."""
    return SystemClosed(
        f"the system was closed; session {session_id!r} can be resumed", session_id=session_id
    )
