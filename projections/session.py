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
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..events.rendering import render
from ..events.session import (
    AgentConfigured,
    AgentDriftDetected,
    AgentHandedOff,
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    ContentErased,
    ContextCarried,
    Event,
    ForkPatched,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    ModelCallDiscarded,
    ModelTurnRecorded,
    OutputRefused,
    SessionCleared,
    SessionRewound,
    SessionStarted,
    StateChanged,
    StepRecorded,
    ToolCallStarted,
    ToolResultRecorded,
    ToolResultsTrimmed,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    UnknownEvent,
)
from . import deciding, editing, ending
from .folding import Folding
from .open_turn import (
    InDoubt,
    OpenCall,
    OpenTurn,
    QueuedInput,
    Requested,
    Running,
    Settled,
    Stage,
    TakenStep,
    Transfer,
)
from .state import (
    INITIAL,
    Carried,
    KeyedInput,
    SessionState,
)


def evolve(state: SessionState, event: AnyEvent) -> SessionState:
    """The state after ``event``."""
    return fold((event,), state)


def fold(events: Iterable[AnyEvent], state: SessionState = INITIAL) -> SessionState:
    """The state after all of ``events``."""
    folding, rules = Folding(state), _RULES
    for event in events:
        rules.get(type(event), _unfolded)(folding, event)
    return folding.folded()


E_ = TypeVar("E_", bound=Event)
Rule: TypeAlias = Callable[[Folding, E_], None]
_RULES: dict[type[Any], Callable[[Folding, Any], None]] = {}


def _on(kind: type[E_]) -> Callable[[Rule[E_]], Rule[E_]]:
    def register(rule: Rule[E_]) -> Rule[E_]:
        _RULES[kind] = rule
        return rule

    return register


def _unfolded(folding: Folding, event: AnyEvent) -> None:
    topic = event.topic if isinstance(event, UnknownEvent) else str(event.__struct_config__.tag)
    folding.unfolded = folding.unfolded or topic


def _edited(edit: Callable[[Folding, E_], bool]) -> Callable[[Folding, E_], None]:
    """The rule of an event that changes the conversation, unless it has no place there."""

    def rule(folding: Folding, event: E_) -> None:
        if not edit(folding, event):
            _unfolded(folding, event)  # type: ignore[arg-type]

    return rule


@_on(SessionStarted)
def _started(folding: Folding, event: SessionStarted) -> None:
    folding.agent, folding.tenant = event.agent, event.tenant
    if event.forked_from is not None:
        editing.forked(folding)


_on(TurnFinished)(_edited(ending.finished))
_on(TurnFailed)(ending.failed)
_on(TurnAborted)(ending.aborted)
_on(ForkPatched)(_edited(editing.patched))
_on(SessionRewound)(_edited(editing.rewound))
_on(SessionCleared)(_edited(editing.cleared))
_on(ToolResultsTrimmed)(_edited(editing.trimmed))


@_on(AgentConfigured)
def _configured(folding: Folding, event: AgentConfigured) -> None:
    folding.configured = replace(event, prev="")


@_on(StateChanged)
def _state_changed(folding: Folding, event: StateChanged) -> None:
    folding.application = frozen(event.value)


@_on(InputQueued)
def _queued(folding: Folding, event: InputQueued) -> None:
    turn_id = folding.turn.turn_id if folding.turn is not None else ""
    accepted = QueuedInput(
        event.input_id, event.content, event.policy, event.key, turn_id, event.run_id
    )
    folding.queued = (*folding.queued, accepted)
    if event.key:
        folding.own_keys()[event.key] = KeyedInput(event.input_id, event.content)
    if event.run_id:
        folding.forget_run(event.run_id)


@_on(InputWithdrawn)
def _withdrawn(folding: Folding, event: InputWithdrawn) -> None:
    folding.rekey(folding.take((event.input_id,)), None)


@_on(TurnStarted)
def _turn_started(folding: Folding, event: TurnStarted) -> None:
    if folding.owes_results:
        _unfolded(folding, event)
        return
    if event.agent != folding.active:  # it goes by another name by now
        folding.switch(event.agent)
    base, inputs = folding.length, folding.take(event.input_ids)
    folding.turn = OpenTurn(
        event.turn_id,
        event.agent,
        event.budget,
        event.owner,
        base,
        inputs,
        event.run_id,
        fingerprint=event.fingerprint,
    ).at_work(event.at)
    folding.turns += 1
    folding.began.append(base)
    folding.said += [UserMessage(each.content) for each in inputs]


@_on(InputApplied)
def _applied(folding: Folding, event: InputApplied) -> None:
    if folding.owes_results:
        _unfolded(folding, event)
        return
    inputs = folding.take((event.input_id,))
    folding.said += [UserMessage(each.content) for each in inputs]
    if (turn := folding.turn) is not None:
        folding.turn = replace(turn, inputs=turn.inputs + inputs)


@_on(TurnResumed)
def _turn_resumed(folding: Folding, event: TurnResumed) -> None:
    if (turn := folding.turn) is None:
        return
    calls = tuple([OpenCall(each.call, _doubted(each.stage)) for each in turn.calls])
    folding.turn = replace(
        turn,
        owner=event.owner,
        halt=None,
        discarded=0,
        broken=0 if turn.halt is not None else turn.broken,
        refused=0,
        recoveries=turn.recoveries + (turn.halt is None and not turn.is_paused),
        fingerprint=event.fingerprint or turn.fingerprint,
        clock=None,
        calls=calls,
    ).at_work(event.at)


def _doubted(stage: Stage) -> Stage:
    return InDoubt(stage.attempt) if isinstance(stage, Running) else stage


@_on(ModelTurnRecorded)
def _model_turn(folding: Folding, event: ModelTurnRecorded) -> None:
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
    ).at_work(event.at)


def _frozen_call(call: ToolCall) -> ToolCall:
    if not call.arguments:
        return call
    return ToolCall(call.id, call.name, frozen(call.arguments), call.malformed)


_BROKEN = ("stream-ended", "retried")


@_on(ModelCallDiscarded)
def _discarded(folding: Folding, event: ModelCallDiscarded) -> None:
    if (turn := folding.turn) is not None:
        broken = turn.broken + (event.reason in _BROKEN)
        turn = replace(turn, discarded=turn.discarded + 1, broken=broken)
        folding.turn = turn.ticked(event.at)
        folding.discarded_usage = folding.discarded_usage + (event.usage or Usage())


@_on(ToolCallStarted)
def _call_started(folding: Folding, event: ToolCallStarted) -> None:
    if (turn := folding.turn) is not None:
        calls = _staged(turn.calls, event.call_id, Running(event.attempt))
        folding.turn = replace(turn, calls=calls).at_work(event.at)


@_on(StepRecorded)
def _step_taken(folding: Folding, event: StepRecorded) -> None:
    if (turn := folding.turn) is not None:
        step = TakenStep(
            event.call_id,
            event.name,
            event.arguments_digest,
            frozen(event.value),
            event.position,
            event.key,
            event.scope,
        )
        folding.turn = replace(turn, taken=(*turn.taken, step), recoveries=0).ticked(event.at)


@_on(ToolResultRecorded)
def _call_settled(folding: Folding, event: ToolResultRecorded) -> None:
    if (turn := folding.turn) is None:
        return
    calls, call_id, name = turn.calls, event.call_id, ""
    if turn.taken:
        turn = turn.without_taken(call_id)
    for each in calls:
        if each.call.id == call_id:
            name = each.call.name
    message = ToolMessage(call_id, name, render(event.content), event.outcome)
    if len(calls) == 1 and calls[0].call.id == call_id:  # as mostly
        folding.said.append(message)
        folding.turn = replace(turn, calls=(), recoveries=0).ticked(event.at)
        return
    calls = _staged(calls, call_id, Settled(message))
    results = [each.stage.message for each in calls if isinstance(each.stage, Settled)]
    if len(results) == len(calls):
        folding.said += results
        calls = ()
    turn = replace(turn, calls=calls, recoveries=0)
    folding.turn = turn.at_rest(event.at) if turn.is_paused else turn.ticked(event.at)


_on(ApprovalRequested)(deciding.requested)
_on(ApprovalResolved)(deciding.resolved)
_on(ApprovalWithdrawn)(deciding.withdrawn)


@_on(AgentHandedOff)
def _handed_off(folding: Folding, event: AgentHandedOff) -> None:
    turn = folding.turn
    if turn is None or (event.applied and turn.calls):
        _unfolded(folding, event)
    elif event.applied:
        folding.turn = turn.handed_over(event.target, event.fingerprint, event.budget, event.at)
        folding.switch(event.target)
    else:
        folding.turn = replace(turn, handoff=Transfer(event.target, event.call_id))


@_on(AgentDriftDetected)
def _drifted(folding: Folding, event: AgentDriftDetected) -> None:
    pass


@_on(ContentErased)
def _erased(folding: Folding, event: ContentErased) -> None:
    pass


@_on(ContextCarried)
def _context_carried(folding: Folding, event: ContextCarried) -> None:
    folding.carried = Carried(
        frozen(event.value), event.covers, folding.turn.agent if folding.turn else ""
    )


@_on(OutputRefused)
def _output_refused(folding: Folding, event: OutputRefused) -> None:
    if (turn := folding.turn) is None:
        return
    if turn.calls:
        _unfolded(folding, event)
        return
    folding.said.append(UserMessage(event.text))
    folding.turn = replace(turn, refused=turn.refused + 1).at_work(event.at)


def _staged(calls: tuple[OpenCall, ...], call_id: str, stage: Stage) -> tuple[OpenCall, ...]:
    return tuple(
        [OpenCall(each.call, stage) if each.call.id == call_id else each for each in calls]
    )


_REQUESTED = Requested()
