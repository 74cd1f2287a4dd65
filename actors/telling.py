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

    def tell(self, ready: ReadyAgent | None, decision: Decision, first: int) -> None:
        """Tell what was just appended; ``first`` is the first event's version, ``ready`` the agent
        that goes on after it, if it is there. What comes before it took over is told to the hooks
        of the agent before it."""
        hooking = None if ready is None else ready.hooking
        listening = () if hooking is None else hooking.listening
        if self._stretch is None:
            if hooking is None:
                self._hooks = ()
                return
            self._hooks = () if any(map(_hands_over, decision.events)) else listening
        for version, event in enumerate(decision.events, first):
            before, after = decision.states[version - first : version - first + 2]
            if _hands_over(event):
                self._hand_over(event, version, before)
                self._hooks = listening
            begins = self._stretch is None and _goes_on(after, decision)
            if begins and ready is not None and hooking is not None:
                resumed = not isinstance(event, TurnStarted)
                self._begin(ready, after.turn, version, event.at, resumed=resumed)
            if not _hands_over(event):
                self._listeners.tell(self._hooks, Happened(self._session_id, version, event))
                self._end(event, before)
        self._turn, self._version = decision.state.turn, first + len(decision.events) - 1
        if self._stretch is not None and decision.state.phase is Phase.PAUSED:
            self._rest("awaiting-approval", decision.events[-1].at)

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

    def _hand_over(self, event: SessionEvent, version: int, before: SessionState) -> None:
        """Tell those of the agent that goes on no longer, as the last thing."""
        self._listeners.tell(self._hooks, Happened(self._session_id, version, event))
        if self._stretch is not None:
            self._turn = before.turn
            self._rest("handed-over", event.at)

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


def _hands_over(event: SessionEvent) -> bool:
    return isinstance(event, AgentHandedOff) and event.applied


def _goes_on(state: SessionState, decision: Decision) -> bool:
    """Whether the turn is at work there, with the agent that has it after the decision."""
    if not decision.adopted or state.turn is None or state.phase not in _AT_WORK:
        return False
    return decision.state.turn is None or decision.state.turn.agent == state.turn.agent
