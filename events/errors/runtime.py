"""What the runtime refuses."""

from __future__ import annotations

from .root import TurnstreamError


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
