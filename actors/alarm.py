"""A look at the clock when the next decision is no longer waited for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..projections import OpenTurn
from .commands import LookAtTheClock
from .letters import Asked
from .waiting import Promise

if TYPE_CHECKING:
    from .runtime import Runtime


class Alarm:
    """Sees to it that the actor of one session is told when a question expires."""

    def __init__(self, session_id: str, runtime: Runtime) -> None:
        self._id, self._runtime = session_id, runtime
        self._due: datetime | None = None

    def set(self, turn: OpenTurn | None, agent: str, tenant: str) -> None:
        """Go off when the next decision of the open turn is due, where one is."""
        due = turn.next_expiry if turn is not None and turn.calls else None
        if due is None or due == self._due:
            return
        self._due = due
        look: Promise[bool] = Promise(self._id)
        asked = Asked(LookAtTheClock(), look, agent, tenant)
        self._runtime.tell_later(self._id, asked, (due - datetime.now(UTC)).total_seconds())
