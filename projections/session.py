"""The fold of a session's stream.

``evolve`` is total: it never raises and never looks outside. An event it can't fold makes the
state read-only, so that nobody continues a conversation half understood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from ..events.frozen import frozen
from ..events.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..events.rendering import render
from ..events.session import (
    AgentConfigured,
    AgentDriftDetected,
    AnyEvent,
    Event,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    ModelCallDiscarded,
    ModelTurnRecorded,
    SessionStarted,
    StateChanged,
    ToolCallStarted,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    UnknownEvent,
)
from .state import (
    INITIAL,
    EndedTurn,
    Halt,
    InDoubt,
    OpenCall,
    OpenTurn,
    QueuedInput,
    Requested,
    Running,
    SessionState,
    Settled,
    Stage,
)


def evolve(state: SessionState, event: AnyEvent) -> SessionState:
    """The state after ``event``."""
    return fold((event,), state)


def fold(events: Iterable[AnyEvent], state: SessionState = INITIAL) -> SessionState:
    """The state after all of ``events``."""
    folding, rules = _Folding(state), _RULES
    for event in events:
        rules.get(type(event), _unfolded)(folding, event)
    return folding.folded()


class _Folding:
    """A state in the making, so that a long fold does not copy it at each event. ``said`` are
    the messages to come after the ``spoken`` ones of the transcript."""

    __slots__ = (
        "agent",
        "application",
        "configured",
        "discarded_usage",
        "ended",
        "queued",
        "said",
        "spoken",
        "tenant",
        "transcript",
        "turn",
        "turns",
        "unfolded",
        "usage",
    )

    def __init__(self, state: SessionState) -> None:
        self.agent, self.tenant, self.configured = state.agent, state.tenant, state.configured
        self.transcript, self.queued, self.turn = state.transcript, state.queued, state.turn
        self.turns, self.ended, self.usage = state.turns, state.ended, state.usage
        self.discarded_usage, self.application = state.discarded_usage, state.application
        self.unfolded = state.unfolded
        self.said: list[Message] = []
        self.spoken = len(state.transcript)

    def folded(self) -> SessionState:
        if self.said:
            self.transcript = self.transcript.extended(self.said)
        return SessionState(
            self.agent,
            self.tenant,
            self.configured,
            self.transcript,
            self.queued,
            self.turn,
            self.turns,
            self.ended,
            self.usage,
            self.discarded_usage,
            self.application,
            self.unfolded,
        )

    @property
    def length(self) -> int:
        return self.spoken + len(self.said)

    def take_back(self, base: int) -> None:
        """Go back to the first ``base`` messages."""
        self.transcript = self.transcript.extended(self.said).first(base)
        self.said, self.spoken = [], len(self.transcript)

    def take(self, ids: tuple[str, ...]) -> tuple[QueuedInput, ...]:
        """Take these inputs out of the queue."""
        queued = self.queued
        if len(queued) == 1 and queued[0].input_id in ids:  # as nearly always
            self.queued = ()
            return queued
        self.queued = tuple([each for each in queued if each.input_id not in ids])
        return tuple([each for each in queued if each.input_id in ids])

    @property
    def owes_results(self) -> bool:
        """Whether calls lack results: then nothing may come between."""
        return self.turn is not None and bool(self.turn.calls)


E_ = TypeVar("E_", bound=Event)
Rule: TypeAlias = Callable[[_Folding, E_], None]
_RULES: dict[type[Any], Callable[[_Folding, Any], None]] = {}


def _on(kind: type[E_]) -> Callable[[Rule[E_]], Rule[E_]]:
    def register(rule: Rule[E_]) -> Rule[E_]:
        _RULES[kind] = rule
        return rule

    return register


def _unfolded(folding: _Folding, event: AnyEvent) -> None:
    topic = event.topic if isinstance(event, UnknownEvent) else str(event.__struct_config__.tag)
    folding.unfolded = folding.unfolded or topic


@_on(SessionStarted)
def _started(folding: _Folding, event: SessionStarted) -> None:
    folding.agent, folding.tenant = event.agent, event.tenant


@_on(AgentConfigured)
def _configured(folding: _Folding, event: AgentConfigured) -> None:
    folding.configured = replace(event, prev="")


@_on(StateChanged)
def _state_changed(folding: _Folding, event: StateChanged) -> None:
    folding.application = event.value


@_on(InputQueued)
def _queued(folding: _Folding, event: InputQueued) -> None:
    accepted = QueuedInput(event.input_id, event.content, event.policy)
    folding.queued = (*folding.queued, accepted)


@_on(InputWithdrawn)
def _withdrawn(folding: _Folding, event: InputWithdrawn) -> None:
    folding.take((event.input_id,))


@_on(TurnStarted)
def _turn_started(folding: _Folding, event: TurnStarted) -> None:
    if folding.owes_results:
        _unfolded(folding, event)
        return
    base, inputs = folding.length, folding.take(event.input_ids)
    folding.turn = OpenTurn(
        event.turn_id, event.agent, event.budget, event.owner, base, inputs, event.run_id
    )
    folding.turns += 1
    folding.said += [UserMessage(each.content) for each in inputs]


@_on(InputApplied)
def _applied(folding: _Folding, event: InputApplied) -> None:
    if folding.owes_results:
        _unfolded(folding, event)
        return
    folding.said += [UserMessage(each.content) for each in folding.take((event.input_id,))]


@_on(TurnResumed)
def _turn_resumed(folding: _Folding, event: TurnResumed) -> None:
    if (turn := folding.turn) is None:
        return
    calls = tuple([OpenCall(each.call, _doubted(each.stage)) for each in turn.calls])
    folding.turn = replace(turn, owner=event.owner, halt=None, discarded=0, calls=calls)


def _doubted(stage: Stage) -> Stage:
    return InDoubt(stage.attempt) if isinstance(stage, Running) else stage


@_on(ModelTurnRecorded)
def _model_turn(folding: _Folding, event: ModelTurnRecorded) -> None:
    if (turn := folding.turn) is None:
        return
    if turn.calls:
        _unfolded(folding, event)
        return
    calls, parts, used = event.tool_calls, event.parts, event.usage
    if calls:
        calls = tuple([_frozen_call(call) for call in calls])
    folding.said.append(AssistantMessage(event.text, calls, frozen(parts) if parts else ()))
    folding.usage = folding.usage + used
    folding.turn = replace(
        turn,
        steps=event.step,
        discarded=0,
        calls=tuple([OpenCall(call, _REQUESTED) for call in calls]) if calls else (),
        tool_calls=turn.tool_calls + len(calls),
        usage=turn.usage + used,
    )


def _frozen_call(call: ToolCall) -> ToolCall:
    if not call.arguments:
        return call
    return ToolCall(call.id, call.name, frozen(call.arguments), call.malformed)


@_on(ModelCallDiscarded)
def _discarded(folding: _Folding, event: ModelCallDiscarded) -> None:
    if (turn := folding.turn) is not None:
        folding.turn = replace(turn, discarded=turn.discarded + 1)
        folding.discarded_usage = folding.discarded_usage + (event.usage or Usage())


@_on(ToolCallStarted)
def _call_started(folding: _Folding, event: ToolCallStarted) -> None:
    if (turn := folding.turn) is not None:
        calls = _staged(turn.calls, event.call_id, Running(event.attempt))
        folding.turn = replace(turn, calls=calls)


@_on(ToolResultRecorded)
def _call_settled(folding: _Folding, event: ToolResultRecorded) -> None:
    if (turn := folding.turn) is None:
        return
    calls, call_id, name = turn.calls, event.call_id, ""
    for each in calls:
        if each.call.id == call_id:
            name = each.call.name
    message = ToolMessage(call_id, name, render(event.content), event.outcome)
    if len(calls) == 1 and calls[0].call.id == call_id:  # as mostly
        folding.said.append(message)
        folding.turn = replace(turn, calls=())
        return
    calls = _staged(calls, call_id, Settled(message))
    results = [each.stage.message for each in calls if isinstance(each.stage, Settled)]
    if len(results) == len(calls):
        folding.said += results
        calls = ()
    folding.turn = replace(turn, calls=calls)


@_on(AgentDriftDetected)
def _drifted(folding: _Folding, event: AgentDriftDetected) -> None:
    pass


@_on(TurnFinished)
def _turn_finished(folding: _Folding, event: TurnFinished) -> None:
    if (turn := folding.turn) is None:
        return
    if turn.calls:
        _unfolded(folding, event)
        return
    folding.turn = None
    folding.ended = EndedTurn(
        turn.turn_id, event.finish_reason, turn.base, folding.length, turn.steps, turn.usage
    )


@_on(TurnFailed)
def _turn_failed(folding: _Folding, event: TurnFailed) -> None:
    _stop(folding, Halt(event.code, event.error), kept=event.kept)


@_on(TurnAborted)
def _turn_aborted(folding: _Folding, event: TurnAborted) -> None:
    _stop(folding, Halt("aborted", "the turn was aborted"), kept=event.kept)


def _stop(folding: _Folding, halt: Halt, *, kept: bool) -> None:
    if (turn := folding.turn) is None:
        return
    if kept:
        folding.turn = replace(turn, halt=halt)
    else:
        folding.turn = None
        folding.take_back(turn.base)


def _staged(calls: tuple[OpenCall, ...], call_id: str, stage: Stage) -> tuple[OpenCall, ...]:
    return tuple(
        [OpenCall(each.call, stage) if each.call.id == call_id else each for each in calls]
    )


_REQUESTED = Requested()
