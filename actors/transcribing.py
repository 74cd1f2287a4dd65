"""Conversations from elsewhere, written as the events that would have been recorded here."""

from __future__ import annotations

from datetime import datetime

from ..events.messages import NO_USAGE, AssistantMessage, Content, Outcome, ToolSpec, Usage
from ..events.session import (
    AgentConfigured,
    InputApplied,
    InputQueued,
    ModelTurnRecorded,
    SessionEvent,
    SessionStarted,
    ToolCallStarted,
    ToolResultRecorded,
    TurnFinished,
    TurnStarted,
)
from ..events.terms import Budget, Owner
from ..projections import INITIAL, SessionState, evolve
from ..projections.phases import Phase, check_transition
from .team import fingerprint

IMPORTED = "imported"


class Transcriber:
    """Writes one message after the other as events. ``now`` is when they happened, where nothing
    else is said. Each call raises ``IllegalTransition`` for what can't come next."""

    def __init__(self, now: datetime, agent: str) -> None:
        self.now: datetime = now
        self._agent = agent
        self._fingerprint = ""
        self.state: SessionState = INITIAL
        self.events: list[SessionEvent] = []

    def begin(self, instructions: str, tools: tuple[ToolSpec, ...], model: str = IMPORTED) -> None:
        """The session, and what its agent is."""
        self._fingerprint = fingerprint(model, instructions, tools)
        self._record(SessionStarted(at=self.now, agent=self._agent))
        self._record(
            AgentConfigured(
                at=self.now,
                name=self._agent,
                model=model,
                instructions=instructions,
                tools=tools,
                fingerprint=self._fingerprint,
            )
        )

    def user(self, content: Content) -> None:
        """An input, which starts a turn or joins the open one."""
        input_id = f"input-{len(self.events)}"
        self._record(InputQueued(at=self.now, input_id=input_id, content=content))
        if self.state.turn is None:
            self._start((input_id,))
        else:
            self._record(InputApplied(at=self.now, turn_id=self._turn_id, input_id=input_id))

    def answer(
        self, message: AssistantMessage, usage: Usage = NO_USAGE, model: str = IMPORTED
    ) -> None:
        """A model turn; without calls it ends the turn."""
        if self.state.turn is None:
            self._start(())
        assert self.state.turn is not None
        self._record(
            ModelTurnRecorded(
                at=self.now,
                turn_id=self._turn_id,
                step=self.state.turn.steps + 1,
                text=message.text,
                tool_calls=message.tool_calls,
                parts=message.parts,
                usage=usage,
                model=model,
                finish_reason="tool_calls" if message.tool_calls else "stop",
            )
        )
        if not message.tool_calls:
            self._record(TurnFinished(at=self.now, turn_id=self._turn_id))

    def result(self, call_id: str, content: Content, outcome: Outcome = "ok") -> None:
        """A call's start and its result. Raises ``ValueError`` where no such call is open."""
        turn = self.state.turn
        if self.state.phase is not Phase.TOOLS or turn is None:
            raise ValueError(f"no call waits for a result, and this is one of {call_id!r}")
        if call_id not in [each.call.id for each in turn.calls]:
            raise ValueError(f"no open call has the id {call_id!r}")
        self._record(ToolCallStarted(at=self.now, turn_id=turn.turn_id, call_id=call_id))
        self._record(
            ToolResultRecorded(
                at=self.now,
                turn_id=turn.turn_id,
                call_id=call_id,
                outcome=outcome,
                content=content,
            )
        )

    def _record(self, event: SessionEvent) -> None:
        check_transition(self.state.phase, event)
        self.state = evolve(self.state, event)
        self.events.append(event)

    def _start(self, input_ids: tuple[str, ...]) -> None:
        self._record(
            TurnStarted(
                at=self.now,
                turn_id=f"turn-{self.state.turns + 1}",
                input_ids=input_ids,
                agent=self._agent,
                budget=Budget(max_steps=32),
                owner=Owner(0, "import"),
                fingerprint=self._fingerprint,
            )
        )

    @property
    def _turn_id(self) -> str:
        assert self.state.turn is not None
        return self.state.turn.turn_id
