"""A session's state: what is needed to decide what happens next.

``evolve`` is total: it never raises and never looks outside. An event it can't fold makes the
state read-only, so that nobody continues a conversation half understood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..events.messages import (
    AssistantMessage,
    Content,
    Policy,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..events.session import (
    AgentConfigured,
    AgentDriftDetected,
    AnyEvent,
    Budget,
    Event,
    FinishReason,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    ModelCallDiscarded,
    ModelTurnRecorded,
    Owner,
    SessionStarted,
    StateChanged,
    Status,
    ToolCallStarted,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    UnknownEvent,
)
from ..events.rendering import render
from .phases import Phase
from .transcript import Transcript


class Requested(Struct, frozen=True, gc=False, tag=True):
    """The model asked for the call; nothing was done yet."""


class Running(Struct, frozen=True, gc=False, tag=True):
    """The call runs, for the ``attempt``-th time."""

    attempt: int


class InDoubt(Struct, frozen=True, gc=False, tag=True):
    """The call ran when its node was lost: nobody knows how far it came."""

    attempt: int


class Settled(Struct, frozen=True, gc=False, tag=True):
    """The call has its result."""

    message: ToolMessage


Stage: TypeAlias = Requested | Running | InDoubt | Settled


class OpenCall(Struct, frozen=True, gc=False):
    """A call of the model turn that is being answered."""

    call: ToolCall
    stage: Stage


class QueuedInput(Struct, frozen=True, gc=False):
    """An accepted input."""

    input_id: str
    content: Content
    policy: Policy


class Halt(Struct, frozen=True, gc=False):
    """Why a turn that is kept does not go on."""

    code: str
    error: str


class OpenTurn(Struct, frozen=True, gc=False):
    """The turn that has not ended yet. ``base`` is the length of the transcript before it;
    ``discarded`` counts the model calls of the current step that came to nothing."""

    turn_id: str
    agent: str
    budget: Budget
    owner: Owner
    base: int
    inputs: tuple[QueuedInput, ...]
    run_id: str = ""
    steps: int = 0
    discarded: int = 0
    calls: tuple[OpenCall, ...] = ()
    tool_calls: int = 0
    usage: Usage = Usage()
    halt: Halt | None = None


class EndedTurn(Struct, frozen=True, gc=False):
    """The last turn that joined the conversation: its messages are those from ``base`` up to
    ``length``."""

    turn_id: str
    finish_reason: FinishReason
    base: int
    length: int
    steps: int
    usage: Usage


class SessionState(Struct, frozen=True, gc=False):
    """The fold of a session's stream. ``transcript`` includes the open turn's messages;
    ``unfolded`` is the topic of the first event this version can't fold."""

    agent: str = ""
    tenant: str = ""
    configured: AgentConfigured | None = None
    transcript: Transcript = Transcript()
    queued: tuple[QueuedInput, ...] = ()
    turn: OpenTurn | None = None
    turns: int = 0
    ended: EndedTurn | None = None
    usage: Usage = Usage()
    discarded_usage: Usage = Usage()
    application: Any = None
    unfolded: str = ""

    @property
    def phase(self) -> Phase:
        """What the session waits for."""
        turn = self.turn
        if turn is None:
            return Phase.IDLE
        if turn.halt is not None:
            return Phase.HALTED
        if turn.calls:
            return Phase.TOOLS
        answered = len(self.transcript) > turn.base and isinstance(
            self.transcript[-1], AssistantMessage
        )
        return Phase.ANSWERED if answered else Phase.MODEL

    @property
    def status(self) -> Status:
        """The phase as listings show it."""
        match self.phase:
            case Phase.IDLE:
                return "idle"
            case Phase.HALTED:
                return "failed"
            case _:
                return "running"

    @property
    def conversation(self) -> Transcript:
        """The messages of the turns that ended."""
        return self.transcript if self.turn is None else self.transcript.first(self.turn.base)


INITIAL = SessionState()


def evolve(state: SessionState, event: AnyEvent) -> SessionState:
    """The state after ``event``."""
    rule = _RULES.get(type(event))
    return rule(state, event) if rule is not None else _unfolded(state, event)


def fold(events: Iterable[AnyEvent], state: SessionState = INITIAL) -> SessionState:
    """The state after all of ``events``."""
    rules = _RULES
    for event in events:
        rule = rules.get(type(event), _unfolded)
        state = rule(state, event)
    return state


E_ = TypeVar("E_", bound=Event)
_RULES: dict[type[Any], Callable[[SessionState, Any], SessionState]] = {}


def _on(
    kind: type[E_],
) -> Callable[[Callable[[SessionState, E_], SessionState]], Callable[[SessionState, E_], SessionState]]:
    def register(
        rule: Callable[[SessionState, E_], SessionState],
    ) -> Callable[[SessionState, E_], SessionState]:
        _RULES[kind] = rule
        return rule

    return register


def _unfolded(state: SessionState, event: AnyEvent) -> SessionState:
    topic = event.topic if isinstance(event, UnknownEvent) else str(event.__struct_config__.tag)
    return replace(state, unfolded=state.unfolded or topic)


@_on(SessionStarted)
def _started(state: SessionState, event: SessionStarted) -> SessionState:
    return replace(state, agent=event.agent, tenant=event.tenant)


@_on(AgentConfigured)
def _configured(state: SessionState, event: AgentConfigured) -> SessionState:
    return replace(state, configured=replace(event, prev=""))


@_on(StateChanged)
def _state_changed(state: SessionState, event: StateChanged) -> SessionState:
    return replace(state, application=event.value)


@_on(InputQueued)
def _queued(state: SessionState, event: InputQueued) -> SessionState:
    accepted = QueuedInput(event.input_id, event.content, event.policy)
    return replace(state, queued=(*state.queued, accepted))


@_on(InputWithdrawn)
def _withdrawn(state: SessionState, event: InputWithdrawn) -> SessionState:
    return replace(state, queued=_without(state.queued, (event.input_id,)))


@_on(TurnStarted)
def _turn_started(state: SessionState, event: TurnStarted) -> SessionState:
    inputs = tuple(each for each in state.queued if each.input_id in event.input_ids)
    turn = OpenTurn(
        event.turn_id,
        event.agent,
        event.budget,
        event.owner,
        len(state.transcript),
        inputs,
        event.run_id,
    )
    return replace(
        state,
        turn=turn,
        turns=state.turns + 1,
        queued=_without(state.queued, event.input_ids),
        transcript=state.transcript.extended([UserMessage(each.content) for each in inputs]),
    )


@_on(InputApplied)
def _applied(state: SessionState, event: InputApplied) -> SessionState:
    joined = [each for each in state.queued if each.input_id == event.input_id]
    return replace(
        state,
        queued=_without(state.queued, (event.input_id,)),
        transcript=state.transcript.extended([UserMessage(each.content) for each in joined]),
    )


@_on(TurnResumed)
def _turn_resumed(state: SessionState, event: TurnResumed) -> SessionState:
    turn = state.turn
    if turn is None:
        return state
    calls = tuple(
        OpenCall(each.call, InDoubt(each.stage.attempt)) if isinstance(each.stage, Running) else each
        for each in turn.calls
    )
    return replace(state, turn=replace(turn, owner=event.owner, halt=None, discarded=0, calls=calls))


@_on(ModelTurnRecorded)
def _model_turn(state: SessionState, event: ModelTurnRecorded) -> SessionState:
    turn = state.turn
    if turn is None:
        return state
    message = AssistantMessage(event.text, event.tool_calls, event.parts)
    return replace(
        state,
        transcript=state.transcript.extended((message,)),
        usage=state.usage + event.usage,
        turn=replace(
            turn,
            steps=event.step,
            discarded=0,
            calls=tuple(OpenCall(call, Requested()) for call in event.tool_calls),
            tool_calls=turn.tool_calls + len(event.tool_calls),
            usage=turn.usage + event.usage,
        ),
    )


@_on(ModelCallDiscarded)
def _discarded(state: SessionState, event: ModelCallDiscarded) -> SessionState:
    turn = state.turn
    if turn is None:
        return state
    wasted = event.usage or Usage()
    return replace(
        state,
        discarded_usage=state.discarded_usage + wasted,
        turn=replace(turn, discarded=turn.discarded + 1),
    )


@_on(ToolCallStarted)
def _call_started(state: SessionState, event: ToolCallStarted) -> SessionState:
    turn = state.turn
    if turn is None:
        return state
    calls = _staged(turn.calls, event.call_id, Running(event.attempt))
    return replace(state, turn=replace(turn, calls=calls))


@_on(ToolResultRecorded)
def _call_settled(state: SessionState, event: ToolResultRecorded) -> SessionState:
    turn = state.turn
    if turn is None:
        return state
    name = next((each.call.name for each in turn.calls if each.call.id == event.call_id), "")
    message = ToolMessage(event.call_id, name, render(event.content), event.outcome)
    calls = _staged(turn.calls, event.call_id, Settled(message))
    results = [each.stage.message for each in calls if isinstance(each.stage, Settled)]
    if len(results) < len(calls):
        return replace(state, turn=replace(turn, calls=calls))
    return replace(
        state,
        transcript=state.transcript.extended(results),
        turn=replace(turn, calls=()),
    )


@_on(AgentDriftDetected)
def _drifted(state: SessionState, event: AgentDriftDetected) -> SessionState:
    return state


@_on(TurnFinished)
def _turn_finished(state: SessionState, event: TurnFinished) -> SessionState:
    turn = state.turn
    if turn is None:
        return state
    ended = EndedTurn(
        turn.turn_id,
        event.finish_reason,
        turn.base,
        len(state.transcript),
        turn.steps,
        turn.usage,
    )
    return replace(state, turn=None, ended=ended)


@_on(TurnFailed)
def _turn_failed(state: SessionState, event: TurnFailed) -> SessionState:
    if not event.kept or state.turn is None:
        return replace(state, transcript=state.conversation, turn=None)
    return replace(state, turn=replace(state.turn, halt=Halt(event.code, event.error)))


@_on(TurnAborted)
def _turn_aborted(state: SessionState, event: TurnAborted) -> SessionState:
    if not event.kept or state.turn is None:
        return replace(state, transcript=state.conversation, turn=None)
    return replace(state, turn=replace(state.turn, halt=Halt("aborted", "the turn was aborted")))


def _without(queued: tuple[QueuedInput, ...], ids: tuple[str, ...]) -> tuple[QueuedInput, ...]:
    return tuple(each for each in queued if each.input_id not in ids)


def _staged(calls: tuple[OpenCall, ...], call_id: str, stage: Stage) -> tuple[OpenCall, ...]:
    return tuple(OpenCall(each.call, stage) if each.call.id == call_id else each for each in calls)
