"""A decision, and one in the making: events recorded one by one, each on the state before it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..events.errors import AgentDrifted, TurnTakenOver, UnknownAgent
from ..events.messages import NO_USAGE, AssistantMessage, Outcome, Usage
from ..events.session import (
    AgentDriftDetected,
    Discarded,
    InputQueued,
    ModelCallDiscarded,
    ModelTurnRecorded,
    SessionEvent,
    SessionStarted,
    ToolResultRecorded,
    TurnResumed,
    TurnStarted,
)
from ..events.terms import ParentCall
from ..projections import OpenTurn, QueuedInput, SessionState, evolve
from ..projections.phases import Phase, check_transition
from .commands import Rules, Stamp
from .drift import changes


class Decision(Struct, frozen=True, gc=False):
    """The events that follow a command. ``states`` are the states before, between and after
    them; ``adopted`` says whether the turn left open is this activation's to run."""

    events: tuple[SessionEvent, ...]
    states: tuple[SessionState, ...]
    adopted: bool

    @property
    def state(self) -> SessionState:
        """The state after all events."""
        return self.states[-1]

    @property
    def accepted(self) -> list[InputQueued | QueuedInput]:
        """The inputs that waited before, and those accepted now."""
        now = [event for event in self.events if isinstance(event, InputQueued)]
        return [*self.states[0].queued, *now]


class Draft:
    """A decision in the making. ``asking`` says that a model call is under way, which what is
    recorded may bring to an end."""

    def __init__(self, state: SessionState, rules: Rules, stamp: Stamp) -> None:
        self.state: SessionState = state
        self.rules: Rules = rules
        self.stamp: Stamp = stamp
        self.adopted: bool = stamp.adopted
        self.events: list[SessionEvent] = []
        self.states: list[SessionState] = [state]
        self.asking: bool = stamp.asking and state.phase is Phase.MODEL and self.owned

    def record(self, event: SessionEvent) -> None:
        check_transition(self.state.phase, event)
        self.state = evolve(self.state, event)
        self.events.append(event)
        self.states.append(self.state)
        match event:
            case TurnStarted() | TurnResumed():
                self.adopted, self.asking = True, False
            case ModelTurnRecorded() | ModelCallDiscarded():
                self.asking = False
            case _:
                pass

    def choose(self, turn_id: str, agent: str = "") -> None:
        """Take the rules of the turn that begins or goes on: with the active agent, or with
        another one, which has to go on."""
        if self.rules.for_turn is not None:
            name = agent or self.state.active or self.rules.configured.name
            self.rules = self.rules.for_turn(self.state, turn_id, name)

    def finds(self, agent: str) -> bool:
        """Whether an agent of that name is there."""
        try:
            return self.rules.find is None or bool(self.rules.find(agent))
        except UnknownAgent:
            return False

    def settle(self, call_id: str, outcome: Outcome, content: Any, usage: Usage = NO_USAGE) -> None:
        """Give a call of the open turn its result."""
        self.record(
            ToolResultRecorded(
                at=self.stamp.at,
                turn_id=self.turn.turn_id,
                call_id=call_id,
                outcome=outcome,
                content=content,
                usage=usage,
            )
        )

    def discard_call(self, reason: Discarded, usage: Usage | None = None) -> None:
        """Record that the model call of the open turn's next step came to nothing."""
        turn = self.turn
        self.record(
            ModelCallDiscarded(
                at=self.stamp.at,
                turn_id=turn.turn_id,
                step=turn.steps + 1,
                reason=reason,
                usage=usage,
            )
        )

    @property
    def turn(self) -> OpenTurn:
        assert self.state.turn is not None
        return self.state.turn

    @property
    def answer(self) -> str:
        """The text of the last model turn, where that is the last message."""
        last = self.state.transcript.last
        return last.text if isinstance(last, AssistantMessage) else ""

    @property
    def owned(self) -> bool:
        """Whether there is an open turn for this activation to go on with."""
        return is_owned(self.state, self.stamp, adopted=self.adopted)

    def decided(self) -> Decision:
        return Decision(tuple(self.events), tuple(self.states), self.adopted)


def is_owned(state: SessionState, stamp: Stamp, *, adopted: bool) -> bool:
    turn = state.turn
    if turn is None or turn.halt is not None:
        return False
    return adopted and turn.owner.node == stamp.owner.node


def begin(draft: Draft, parent: ParentCall | None = None) -> None:
    """Begin a session, as a sub-agent's where it has a ``parent``."""
    draft.record(
        SessionStarted(
            at=draft.stamp.at,
            agent=draft.rules.configured.name,
            tenant=draft.stamp.tenant,
            parent=parent,
        )
    )


def configure(draft: Draft) -> None:
    """Record what the agent is, where that is not what the stream says."""
    recorded, current = draft.state.configured, draft.rules.configured
    known = ("", "") if recorded is None else (recorded.name, recorded.fingerprint)
    if known != (current.name, current.fingerprint):
        draft.record(replace(current, at=draft.stamp.at))


def note_drift(draft: Draft) -> None:
    """Record that the agent is not the one that began the turn, or refuse to go on."""
    turn, current, recorded = draft.turn, draft.rules.configured, draft.state.configured
    drifted = turn.fingerprint and turn.fingerprint != current.fingerprint
    if not drifted or recorded is None or draft.rules.on_drift == "ignore":
        return
    found = changes(recorded, current, draft.rules.renamed)
    if not found:  # they only go by other names
        return
    names = tuple([each.name for each in found])
    if draft.rules.on_drift == "error" and any(each.is_breaking for each in found):
        raise AgentDrifted(turn.turn_id, names)
    draft.record(
        AgentDriftDetected(
            at=draft.stamp.at,
            turn_id=turn.turn_id,
            recorded=turn.fingerprint,
            current=current.fingerprint,
            changes=names,
        )
    )


def resume(draft: Draft) -> None:
    """Make the unfinished turn, if there is one, this activation's own."""
    turn = draft.state.turn
    if turn is None or draft.owned or draft.stamp.elsewhere:
        return
    goes_on = turn.halt is None and not turn.is_paused
    if goes_on and turn.owner.generation > draft.stamp.owner.generation:
        raise TurnTakenOver(
            f"{turn.turn_id} goes on at node {turn.owner.node!r}, which is younger than this one: "
            "wait for its result in the stream, or resume from a process started later",
            turn_id=turn.turn_id,
        )
    if turn.handoff is not None and draft.rules.find is not None:
        draft.rules.find(turn.handoff.agent)
    draft.choose(turn.turn_id)
    note_drift(draft)
    configure(draft)
    draft.record(
        TurnResumed(
            at=draft.stamp.at,
            turn_id=turn.turn_id,
            owner=draft.stamp.owner,
            fingerprint=draft.rules.configured.fingerprint,
        )
    )
