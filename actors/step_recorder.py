"""Where the steps of a tool's call are recorded: in its session's stream, by the actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ..events.errors import StepRefused
from ..events.session import ToolCallStarted
from ..projections import TakenStep
from .commands import OfACall, RecordStep
from .gate import Gate
from .waiting import Promise

AskSession: TypeAlias = Callable[[OfACall, Promise[Any]], None]


class CallRecorder:
    """Asks the actor to record the steps of one attempt of a call, which the ``gate`` says is
    still wanted."""

    def __init__(
        self, session_id: str, event: ToolCallStarted, gate: Gate, ask: AskSession
    ) -> None:
        self._session_id, self._event, self._gate, self._ask = session_id, event, gate, ask

    @property
    def where(self) -> str:
        event = self._event
        return f"call {event.call_id!r} of {event.turn_id} in session {self._session_id!r}"

    def check(self) -> None:
        if self._gate.cancelled:
            raise StepRefused(
                f"{self.where} is no longer wanted, so the step was not taken: leave the tool",
                session_id=self._session_id,
                turn_id=self._event.turn_id,
                call_id=self._event.call_id,
            )

    def record(self, step: TakenStep) -> None:
        self._asked(step).result()

    async def record_async(self, step: TakenStep) -> None:
        await self._asked(step)

    def _asked(self, step: TakenStep) -> Promise[bool]:
        promise: Promise[bool] = Promise(self._session_id)
        self._ask(RecordStep(self._event.turn_id, self._event.attempt, step), promise)
        return promise
