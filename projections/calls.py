"""The calls of a turn that is open: how far each has come."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

from msgspec import Struct

from ..events.approvals import OnExpiry, is_over
from ..events.messages import ToolCall, ToolMessage


class Requested(Struct, frozen=True, gc=False, tag=True):
    """The model asked for the call; nothing was done yet."""


class Running(Struct, frozen=True, gc=False, tag=True):
    """The call runs, for the ``attempt``-th time."""

    attempt: int


class InDoubt(Struct, frozen=True, gc=False, tag=True):
    """The call ran when its node was lost: nobody knows how far it came."""

    attempt: int


class Gated(Struct, frozen=True, gc=False, tag=True):
    """The call waits for a decision. ``attempts`` is how often it ran before: 0, or it is in
    doubt."""

    approval_id: str
    attempts: int
    requested_at: datetime
    expires_at: datetime | None = None
    on_expiry: OnExpiry = "reject"
    path: tuple[str, ...] = ()

    def is_over(self, at: datetime) -> bool:
        """Whether the call is to be rejected by that time, as no decision came."""
        return is_over(self.expires_at, self.on_expiry, at)


class Approved(Struct, frozen=True, gc=False, tag=True):
    """The call may run now. ``attempts`` is how often it ran before."""

    attempts: int


class Settled(Struct, frozen=True, gc=False, tag=True):
    """The call has its result."""

    message: ToolMessage


Stage: TypeAlias = Requested | Gated | Approved | Running | InDoubt | Settled


class OpenCall(Struct, frozen=True, gc=False):
    """A call of the model turn that is being answered."""

    call: ToolCall
    stage: Stage


class TakenStep(Struct, frozen=True, gc=False):
    """A durable step that was recorded, of a call that is open, or of a journal's run."""

    call_id: str
    name: str
    arguments_digest: str
    value: Any = None
    position: int = 0
    key: str = ""
    scope: str = ""
