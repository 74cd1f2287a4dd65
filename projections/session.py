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
    ABORTED,
    INITIAL,
    EndedTurn,
    Halt,
    InDoubt,
    KeyedInput,
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
        "keyed",
        "queued",
        "rekeyed",
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
        self.unfolded, self.keyed = state.unfolded, state.keyed
        self.rekeyed: dict[str, KeyedInput] | None = None
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
            self.keyed if self.rekeyed is None else self.rekeyed,
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

    def rekey(self, inputs: Iterable[QueuedInput], ended: EndedTurn | None) -> None:
        """Note of the inputs that have a key how their turn ended; None: their keys are free."""
        for each in inputs:
            if each.key and ended is None:
                self.own_keys().pop(each.key, None)
            elif each.key:
                self.own_keys()[each.key] = KeyedInput(each.input_id, each.content, ended)

    def own_keys(self) -> dict[str, KeyedInput]:
        """The keys as a dictionary that no state holds yet."""
        if self.rekeyed is None:
            self.rekeyed = dict(self.keyed)
        return self.rekeyed

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
    turn_id = folding.turn.turn_id if folding.turn is not None else ""
    accepted = QueuedInput(event.input_id, event.content, event.policy, event.key, turn_id)
    folding.queued = (*folding.queued, accepted)
    if event.key:
        folding.own_keys()[event.key] = KeyedInput(event.input_id, event.content)


@_on(InputWithdrawn)
def _withdrawn(folding: _Folding, event: InputWithdrawn) -> None:
    folding.rekey(folding.take((event.input_id,)), None)


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
    inputs = folding.take((event.input_id,))
    folding.said += [UserMessage(each.content) for each in inputs]
    if (turn := folding.turn) is not None:
        folding.turn = replace(turn, inputs=turn.inputs + inputs)


@_on(TurnResumed)
def _turn_resumed(folding: _Folding, event: TurnResumed) -> None:
    if (turn := folding.turn) is None:
        return
    calls = tuple([OpenCall(each.call, _doubted(each.stage)) for each in turn.calls])
    folding.turn = replace(
        turn,
        owner=event.owner,
        halt=None,
        discarded=0,
        broken=0,
        recoveries=turn.recoveries + (turn.halt is None),
        calls=calls,
    )


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
        broken=0,
        recoveries=0,
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
        broken = turn.broken + (event.reason == "stream-ended")
        folding.turn = replace(turn, discarded=turn.discarded + 1, broken=broken)
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
        folding.turn = replace(turn, calls=(), recoveries=0)
        return
    calls = _staged(calls, call_id, Settled(message))
    results = [each.stage.message for each in calls if isinstance(each.stage, Settled)]
    if len(results) == len(calls):
        folding.said += results
        calls = ()
    folding.turn = replace(turn, calls=calls, recoveries=0)


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
    folding.rekey(turn.inputs, folding.ended)


@_on(TurnFailed)
def _turn_failed(folding: _Folding, event: TurnFailed) -> None:
    if (turn := folding.turn) is None:
        return
    if event.kept:
        folding.turn = replace(turn, halt=Halt(event.code, event.error))
    else:
        _drop(folding, turn)
        folding.rekey(turn.inputs, None)


@_on(TurnAborted)
def _turn_aborted(folding: _Folding, event: TurnAborted) -> None:
    if (turn := folding.turn) is None:
        return
    if event.kept:
        folding.turn = replace(turn, halt=Halt(ABORTED, "the turn was stopped"))
    else:
        _drop(folding, turn)
        length = folding.length
        ended = EndedTurn(turn.turn_id, "aborted", length, length, turn.steps, turn.usage)
        folding.rekey(turn.inputs, ended)


def _drop(folding: _Folding, turn: OpenTurn) -> None:
    folding.turn = None
    folding.take_back(turn.base)


def _staged(calls: tuple[OpenCall, ...], call_id: str, stage: Stage) -> tuple[OpenCall, ...]:
    return tuple(
        [OpenCall(each.call, stage) if each.call.id == call_id else each for each in calls]
    )


_REQUESTED = Requested()
