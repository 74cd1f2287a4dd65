"""What happens next in a session: pure.

``decide`` takes the state, a command, the agent's rules and a stamp (time and node) and returns
the events that follow, all of which go into one append. After the command itself it goes on
until the session has to wait for the world: for a model, for a tool, or for an input.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..events.errors import SessionReadOnly
from ..events.messages import AssistantMessage, ToolCall
from ..events.session import (
    FinishReason,
    ModelCallDiscarded,
    ModelTurnRecorded,
    ToolCallStarted,
    TurnAborted,
    TurnFinished,
    TurnStarted,
)
from ..projections import InDoubt, OpenTurn, Requested, Running, SessionState
from ..projections.phases import Phase
from .commands import (
    Abort,
    Command,
    Continue,
    Discard,
    ModelAnswered,
    ModelBroke,
    Resume,
    Rules,
    Stamp,
    Submit,
    ToolReturned,
    Withdraw,
)
from .draft import Decision, Draft, configure, resume
from .inputs import apply_joinable, discard_silent_call, go_on_from, submit, withdraw
from .stopping import abort, discard, fail

STREAM_RETRIES = 1


def decide(state: SessionState, command: Command, rules: Rules, stamp: Stamp) -> Decision:
    """The events that follow ``command``; none where it changes nothing or comes too late.

    Raises ``SessionReadOnly`` where the stream holds events this version does not know,
    ``TurnTakenOver`` where a younger node runs the turn, ``InputConflict`` and
    ``InvalidTranscript`` where an input is not what it claims to be.
    """
    if state.unfolded:
        raise SessionReadOnly(
            f"the stream holds {state.unfolded!r} where this version can't make sense of it: it "
            "can be read but not continued; upgrade turnstream, or mend what wrote it"
        )
    draft = Draft(state, rules, stamp)
    _carry_out(draft, command)
    if stamp.silenced:
        discard_silent_call(draft)
    if not _only_takes_back(draft, command):
        _go_on(draft)
    return draft.decided()


def _carry_out(draft: Draft, command: Command) -> None:
    match command:
        case Submit():
            submit(draft, command)
        case Continue():
            go_on_from(draft, command)
        case Resume():
            resume(draft)
        case Withdraw(input_id=input_id):
            withdraw(draft, input_id)
        case Abort(input_id=input_id, keep=keep):
            abort(draft, input_id, keep=keep)
        case Discard():
            discard(draft)
        case ModelAnswered():
            _model_answered(draft, command)
        case ModelBroke():
            _model_broke(draft, command)
        case ToolReturned():
            _tool_returned(draft, command)


def _only_takes_back(draft: Draft, command: Command) -> bool:
    """Whether the command left the turn alone: then it is no reason to start what waits."""
    if not isinstance(command, (Withdraw, Abort, Discard)):
        return False
    return not any(isinstance(event, TurnAborted) for event in draft.events)


def _model_answered(draft: Draft, command: ModelAnswered) -> None:
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


def _model_broke(draft: Draft, command: ModelBroke) -> None:
    if not _awaits_model(draft, command):
        return
    if command.transient and draft.turn.broken < STREAM_RETRIES:
        at, turn_id = draft.stamp.at, command.turn_id
        draft.record(
            ModelCallDiscarded(at=at, turn_id=turn_id, step=command.step, reason="stream-ended")
        )
        return
    fail(draft, command.code, command.error)


def _awaits_model(draft: Draft, command: ModelAnswered | ModelBroke) -> bool:
    if draft.state.phase is not Phase.MODEL or not draft.owned:
        return False
    turn = draft.turn
    due = (turn.turn_id, turn.steps + 1, turn.discarded + 1)
    return due == (command.turn_id, command.step, command.attempt)


def _tool_returned(draft: Draft, command: ToolReturned) -> None:
    turn = draft.state.turn
    if turn is None or turn.turn_id != command.turn_id or not draft.owned:
        return
    current = Running(command.attempt)
    if any(each.call.id == command.call_id and each.stage == current for each in turn.calls):
        draft.settle(command.call_id, command.outcome, command.content)


def _go_on(draft: Draft) -> None:
    while True:
        match draft.state.phase:
            case Phase.IDLE if draft.state.queued and not draft.stamp.draining:
                _start_turn(draft)
            case Phase.TOOLS if draft.owned and not draft.stamp.draining:
                if not _start_calls(draft):
                    return
            case Phase.ANSWERED if draft.owned:
                _finish(draft, "stop")
            case Phase.MODEL if draft.owned and not draft.asking:
                limit = _limit_reached(draft.turn)
                if limit is None:
                    apply_joinable(draft)
                    return
                _finish(draft, limit)
            case _:
                return


def _finish(draft: Draft, reason: FinishReason) -> None:
    draft.record(TurnFinished(at=draft.stamp.at, turn_id=draft.turn.turn_id, finish_reason=reason))


def _start_turn(draft: Draft) -> None:
    configure(draft)
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


def _start_calls(draft: Draft) -> bool:
    """Start what may start; true if every call has its result by now."""
    steered = any(each.policy == "steer" for each in draft.state.joining)
    for each in draft.turn.calls:
        running = sum(isinstance(other.stage, Running) for other in draft.turn.calls)
        match each.stage:
            case Requested() if steered:
                draft.settle(each.call.id, "skipped", STEERED)
            case Requested() if refusal := draft.rules.refusal(each.call):
                draft.settle(each.call.id, "error", refusal)
            case InDoubt() if refusal := draft.rules.refusal(each.call):
                draft.settle(each.call.id, "error", f"{refusal} {MAY_HAVE_RUN}")
            case InDoubt() if draft.rules.on_crash[each.call.name] == "fail":
                draft.settle(each.call.id, "error", MAY_HAVE_RUN)
            case Requested() if running < draft.rules.tool_concurrency:
                _start_call(draft, each.call.id, 1)
            case InDoubt(attempt=attempt) if running < draft.rules.tool_concurrency:
                _start_call(draft, each.call.id, attempt + 1)
            case _:
                pass
    return not draft.turn.calls


STEERED = "Not run: a new message came first."
MAY_HAVE_RUN = (
    "The process was lost while this call ran. It may or may not have taken effect, and it is "
    "not run again. Find out before you repeat it."
)


def _start_call(draft: Draft, call_id: str, attempt: int) -> None:
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
