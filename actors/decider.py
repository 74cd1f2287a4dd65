"""What happens next in a session: pure.

``decide`` takes the state, a command, the agent's rules and a stamp (time and node) and returns
the events that follow, all of which go into one append. After the command itself it goes on
until the session has to wait for the world: for a model, for a tool, or for an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..events.errors import SessionReadOnly, TurnTakenOver
from ..events.messages import AssistantMessage, Outcome, ToolCall
from ..events.session import (
    FinishReason,
    InputQueued,
    ModelCallDiscarded,
    ModelTurnRecorded,
    SessionEvent,
    SessionStarted,
    ToolCallStarted,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
)
from ..projections import (
    INITIAL,
    InDoubt,
    OpenTurn,
    Requested,
    Running,
    SessionState,
    evolve,
)
from ..projections.phases import Phase, check_transition
from .commands import (
    Command,
    Discard,
    ModelAnswered,
    ModelBroke,
    Resume,
    Rules,
    Stamp,
    Submit,
    ToolReturned,
)

STREAM_RETRIES = 1


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


def decide(state: SessionState, command: Command, rules: Rules, stamp: Stamp) -> Decision:
    """The events that follow ``command``; none where it changes nothing or comes too late.

    Raises ``SessionReadOnly`` where the stream holds events this version does not know, and
    ``TurnTakenOver`` where a younger node runs the turn.
    """
    if state.unfolded:
        raise SessionReadOnly(
            f"the stream holds {state.unfolded!r} where this version can't make sense of it: it "
            "can be read but not continued; upgrade turnstream, or mend what wrote it"
        )
    draft = _Draft(state, rules, stamp)
    match command:
        case Submit():
            _submit(draft, command)
        case Resume():
            _resume(draft)
        case Discard():
            _discard(draft)
        case ModelAnswered():
            _model_answered(draft, command)
        case ModelBroke():
            _model_broke(draft, command)
        case ToolReturned():
            _tool_returned(draft, command)
    _go_on(draft)
    return Decision(tuple(draft.events), tuple(draft.states), draft.adopted)


class _Draft:
    """A decision in the making."""

    def __init__(self, state: SessionState, rules: Rules, stamp: Stamp) -> None:
        self.state, self.rules, self.stamp = state, rules, stamp
        self.adopted = stamp.adopted
        self.events: list[SessionEvent] = []
        self.states = [state]

    def record(self, event: SessionEvent) -> None:
        check_transition(self.state.phase, event)
        self.state = evolve(self.state, event)
        self.events.append(event)
        self.states.append(self.state)
        if isinstance(event, (TurnStarted, TurnResumed)):
            self.adopted = True

    @property
    def turn(self) -> OpenTurn:
        assert self.state.turn is not None
        return self.state.turn

    @property
    def owned(self) -> bool:
        """Whether there is an open turn for this activation to go on with."""
        return _owned(self.state, self.stamp, adopted=self.adopted)


def _owned(state: SessionState, stamp: Stamp, *, adopted: bool) -> bool:
    turn = state.turn
    return adopted and turn is not None and turn.halt is None and turn.owner == stamp.owner


def is_retry(state: SessionState, command: Submit, stamp: Stamp) -> bool:
    """Whether the input is the one an interrupted turn began with, sent again."""
    turn = state.turn
    if turn is None or state.queued or _owned(state, stamp, adopted=stamp.adopted):
        return False
    return [each.content for each in turn.inputs] == [command.content]


def _submit(draft: _Draft, command: Submit) -> None:
    if draft.state == INITIAL:
        _begin_session(draft)
    if not is_retry(draft.state, command, draft.stamp):
        draft.record(
            InputQueued(
                at=draft.stamp.at,
                input_id=command.input_id,
                content=command.content,
                policy=command.policy,
            )
        )
    _resume(draft)


def _begin_session(draft: _Draft) -> None:
    draft.record(
        SessionStarted(
            at=draft.stamp.at, agent=draft.rules.configured.name, tenant=draft.stamp.tenant
        )
    )


def _resume(draft: _Draft) -> None:
    turn = draft.state.turn
    if turn is None or draft.owned:
        return
    if turn.halt is None and turn.owner.generation > draft.stamp.owner.generation:
        raise TurnTakenOver(
            f"{turn.turn_id} goes on at node {turn.owner.node!r}, which is younger than this one: "
            "wait for its result in the stream, or resume from a process started later",
            turn_id=turn.turn_id,
        )
    _configure(draft)
    draft.record(
        TurnResumed(
            at=draft.stamp.at,
            turn_id=draft.turn.turn_id,
            owner=draft.stamp.owner,
            fingerprint=draft.rules.configured.fingerprint,
        )
    )


def _discard(draft: _Draft) -> None:
    if draft.state.turn is not None:
        draft.record(TurnAborted(at=draft.stamp.at, turn_id=draft.turn.turn_id))


def _configure(draft: _Draft) -> None:
    recorded, current = draft.state.configured, draft.rules.configured
    if recorded is None or recorded.fingerprint != current.fingerprint:
        draft.record(replace(current, at=draft.stamp.at))


def _model_answered(draft: _Draft, command: ModelAnswered) -> None:
    if not _awaits_model(draft, command):
        return
    answer = command.answer
    draft.record(
        ModelTurnRecorded(
            at=draft.stamp.at,
            turn_id=command.turn_id,
            step=command.step,
            text=answer.text,
            tool_calls=_distinct(answer.tool_calls, command.step, _used_ids(draft.state)),
            parts=answer.parts,
            usage=answer.usage,
            model=command.model,
            finish_reason=answer.finish_reason,
        )
    )


def _model_broke(draft: _Draft, command: ModelBroke) -> None:
    if not _awaits_model(draft, command):
        return
    at, turn_id = draft.stamp.at, command.turn_id
    if command.transient and draft.turn.discarded < STREAM_RETRIES:
        draft.record(
            ModelCallDiscarded(at=at, turn_id=turn_id, step=command.step, reason="stream-ended")
        )
        return
    draft.record(
        TurnFailed(
            at=at,
            turn_id=turn_id,
            code=command.code,
            error=command.error,
            kept=draft.rules.keep_failed,
        )
    )


def _awaits_model(draft: _Draft, command: ModelAnswered | ModelBroke) -> bool:
    if draft.state.phase is not Phase.MODEL or not draft.owned:
        return False
    turn = draft.turn
    due = (turn.turn_id, turn.steps + 1, turn.discarded + 1)
    return due == (command.turn_id, command.step, command.attempt)


def _tool_returned(draft: _Draft, command: ToolReturned) -> None:
    turn = draft.state.turn
    if turn is None or turn.turn_id != command.turn_id or not draft.owned:
        return
    current = Running(command.attempt)
    if any(each.call.id == command.call_id and each.stage == current for each in turn.calls):
        _settle(draft, command.call_id, command.outcome, command.content)


def _settle(draft: _Draft, call_id: str, outcome: Outcome, content: Any) -> None:
    draft.record(
        ToolResultRecorded(
            at=draft.stamp.at,
            turn_id=draft.turn.turn_id,
            call_id=call_id,
            outcome=outcome,
            content=content,
        )
    )


def _go_on(draft: _Draft) -> None:
    while True:
        match draft.state.phase:
            case Phase.IDLE if draft.state.queued and not draft.stamp.draining:
                _start_turn(draft)
            case Phase.TOOLS if draft.owned and not draft.stamp.draining:
                if not _start_calls(draft):
                    return
            case Phase.ANSWERED if draft.owned:
                _finish(draft, "stop")
            case Phase.MODEL if draft.owned and (limit := _limit_reached(draft.turn)):
                _finish(draft, limit)
            case _:
                return


def _finish(draft: _Draft, reason: FinishReason) -> None:
    draft.record(TurnFinished(at=draft.stamp.at, turn_id=draft.turn.turn_id, finish_reason=reason))


def _start_turn(draft: _Draft) -> None:
    _configure(draft)
    configured = draft.rules.configured
    draft.record(
        TurnStarted(
            at=draft.stamp.at,
            turn_id=f"turn-{draft.state.turns + 1}",
            input_ids=(draft.state.queued[0].input_id,),
            agent=configured.name,
            budget=draft.rules.budget,
            owner=draft.stamp.owner,
            fingerprint=configured.fingerprint,
        )
    )


def _limit_reached(turn: OpenTurn) -> FinishReason | None:
    if turn.steps >= turn.budget.max_steps:
        return "max-steps"
    if turn.budget.tokens and turn.usage.total_tokens >= turn.budget.tokens:
        return "budget"
    return None


def _start_calls(draft: _Draft) -> bool:
    """Start what may start; true if every call has its result by now."""
    for each in draft.turn.calls:
        running = sum(isinstance(other.stage, Running) for other in draft.turn.calls)
        match each.stage:
            case Requested() if refusal := draft.rules.refusal(each.call):
                _settle(draft, each.call.id, "error", refusal)
            case InDoubt() if refusal := draft.rules.refusal(each.call):
                _settle(draft, each.call.id, "error", f"{refusal} {MAY_HAVE_RUN}")
            case InDoubt() if draft.rules.on_crash[each.call.name] == "fail":
                _settle(draft, each.call.id, "error", MAY_HAVE_RUN)
            case Requested() if running < draft.rules.tool_concurrency:
                _start_call(draft, each.call.id, 1)
            case InDoubt(attempt=attempt) if running < draft.rules.tool_concurrency:
                _start_call(draft, each.call.id, attempt + 1)
            case _:
                pass
    return not draft.turn.calls


MAY_HAVE_RUN = (
    "The process was lost while this call ran. It may or may not have taken effect, and it is "
    "not run again. Find out before you repeat it."
)


def _start_call(draft: _Draft, call_id: str, attempt: int) -> None:
    draft.record(
        ToolCallStarted(
            at=draft.stamp.at, turn_id=draft.turn.turn_id, call_id=call_id, attempt=attempt
        )
    )


def _used_ids(state: SessionState) -> set[str]:
    turn = state.turn
    if turn is None or not turn.tool_calls:
        return set()
    messages = state.transcript[turn.base :]
    return {
        call.id
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }


def _distinct(calls: Sequence[ToolCall], step: int, used: set[str]) -> tuple[ToolCall, ...]:
    """The calls with ids that are their own within the turn."""
    distinct = []
    for slot, call in enumerate(calls, 1):
        call_id = call.id or f"call-{step}-{slot}"
        while call_id in used:
            call_id = f"{call_id}.{step}-{slot}"
        used.add(call_id)
        distinct.append(ToolCall(call_id, call.name, call.arguments, call.malformed))
    return tuple(distinct)
