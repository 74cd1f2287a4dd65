"""What the hooks of one session are told: its events, and the stretches of its turns."""

from __future__ import annotations

from datetime import UTC, datetime

from ..events.session import (
    AgentHandedOff,
    SessionEvent,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from ..projections import OpenTurn, SessionState
from ..projections.phases import Phase
from .draft import Decision
from .hooks import Hooks, Rest, Stretch, WhyRest
from .listening import Happened, Listeners, Rested
from .ready import ReadyAgent
from .recording import Known

_AT_WORK = (Phase.MODEL, Phase.TOOLS, Phase.ANSWERED)


class Teller:
    """Tells them, in order, and knows the stretch that is under way. Without hooks it does
    nothing."""

    def __init__(self, session_id: str, listeners: Listeners) -> None:
        self._session_id, self._listeners = session_id, listeners
        self._hooks: tuple[Hooks, ...] = ()
        self._turn: OpenTurn | None = None
        self._version = 0
        self._stretch: Stretch | None = None

    def tell(self, ready: ReadyAgent, decision: Decision, first: int) -> None:
        """Tell what was just appended; ``first`` is the first event's version."""
        hooking = ready.hooking
        if hooking is None and self._stretch is None:
            return
        hooks = () if hooking is None else hooking.listening
        if self._stretch is None:
            self._hooks = hooks
        begins = decision.adopted and not any(map(_is_switch, decision.events))
        for version, event in enumerate(decision.events, first):
            before, after = decision.states[version - first : version - first + 2]
            if self._stretch is None and begins and after.phase in _AT_WORK:
                resumed = not isinstance(event, TurnStarted)
                self._begin(ready, after.turn, version, event.at, resumed=resumed)
            self._listeners.tell(self._hooks, Happened(self._session_id, version, event))
            self._end(event, before)
            if _is_switch(event):
                self._hand_over(ready, hooks, after.turn, version, event.at)
        self._turn, self._version = decision.state.turn, first + len(decision.events) - 1
        if self._stretch is not None and decision.state.phase is Phase.PAUSED:
            self._rest("awaiting-approval", decision.events[-1].at)

    def _hand_over(
        self,
        ready: ReadyAgent,
        hooks: tuple[Hooks, ...],
        turn: OpenTurn | None,
        version: int,
        at: datetime,
    ) -> None:
        """End the stretch of the agent before, and begin one of the agent that goes on."""
        resumed = self._stretch is None or self._stretch.resumed
        if self._stretch is not None:
            self._rest("handed-off", at)
        self._hooks = hooks
        if ready.hooking is not None:
            self._begin(ready, turn, version, at, resumed=resumed)

    def interrupt(self) -> None:
        """Tell that nothing of the stretch under way, if there is one, runs here any more."""
        if self._stretch is not None:
            self._rest("interrupted", datetime.now(UTC))

    def caught_up(self, known: Known, *, adopted: bool) -> None:
        """Note what the stream says that others wrote to, and whether the turn is still ours."""
        self._version = known.version
        if not adopted or known.state.phase is Phase.HALTED:
            self.interrupt()

    def stretch(self, ready: ReadyAgent, turn: OpenTurn) -> Stretch:
        """The stretch under way. What others wrote, such as a decision, may have set it going."""
        if self._stretch is not None:
            return self._stretch
        return self._begin(ready, turn, self._version, datetime.now(UTC), resumed=True)

    def _begin(
        self,
        ready: ReadyAgent,
        turn: OpenTurn | None,
        version: int,
        at: datetime,
        *,
        resumed: bool,
    ) -> Stretch:
        assert turn is not None
        agent, model = ready.configured.name, ready.configured.model
        first = turn.inputs[0] if turn.inputs else None
        stretch = Stretch(
            self._session_id,
            turn.turn_id,
            agent,
            model,
            first.input_id if first is not None else "",
            version,
            at,
            resumed,
            first.trace if first is not None else "",
        )
        self._turn, self._stretch = turn, stretch
        return stretch

    def _end(self, event: SessionEvent, before: SessionState) -> None:
        if self._stretch is None:
            return
        self._turn = before.turn
        match event:
            case TurnFinished():
                self._rest("finished", event.at, finish_reason=event.finish_reason)
            case TurnFailed():
                self._rest("failed", event.at, code=event.code)
            case TurnAborted():
                self._rest("aborted", event.at)
            case _:
                pass

    def _rest(self, why: WhyRest, at: datetime, *, finish_reason: str = "", code: str = "") -> None:
        stretch, self._stretch = self._stretch, None
        assert stretch is not None and self._turn is not None
        rest = Rest(why, at, self._turn.usage, finish_reason, code)
        self._listeners.tell(self._hooks, Rested(stretch, rest))


def _is_switch(event: SessionEvent) -> bool:
    return isinstance(event, AgentHandedOff) and event.applied
