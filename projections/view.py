"""A session as users see it, at one version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ..events.approvals import Approval
from ..events.messages import Content, Message, ToolCall
from ..events.session import Status
from .open_turn import (
    Settled,
)
from .state import (
    SessionState,
)
from .usage import SessionUsage


class Pending(Struct, frozen=True, eq=False):
    """What is unfinished in a session: the open turn's messages so far, the calls that lack a
    result, and the inputs that wait. ``code`` and ``error`` say why a failed turn does not go
    on, ``approvals`` which decisions a paused one waits for, ``run_id`` what
    its caller named it."""

    turn_id: str
    messages: Sequence[Message]
    calls: tuple[ToolCall, ...]
    queued: tuple[Content, ...]
    code: str = ""
    error: str = ""
    approvals: tuple[Approval, ...] = ()
    run_id: str = ""


class View(Struct, frozen=True, eq=False):
    """A session as it was at one version."""

    session_id: str
    version: int
    folded: SessionState
    usage: SessionUsage

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the turns that ended."""
        return self.folded.conversation

    @property
    def state(self) -> Any:
        """The application's own state."""
        return self.folded.application

    @property
    def active_agent(self) -> str:
        """The agent that goes on: with the open turn, or with the next one."""
        return self.folded.active

    @property
    def status(self) -> Status:
        """Idle, running, failed, aborted or awaiting approval."""
        return self.folded.status

    @property
    def pending(self) -> Pending | None:
        """What is unfinished; None where nothing is."""
        turn, queued = self.folded.turn, tuple(each.content for each in self.folded.queued)
        if turn is None:
            return Pending("", (), (), queued) if queued else None
        return Pending(
            turn.turn_id,
            (*self.folded.transcript[turn.base :], *turn.results),
            tuple(each.call for each in turn.calls if not isinstance(each.stage, Settled)),
            queued,
            turn.halt.code if turn.halt else "",
            turn.halt.error if turn.halt else "",
            self.folded.approvals(self.session_id),
            turn.run_id,
        )
