"""What happens next in a session: pure.

``decide`` takes the state, a command, the agent's rules and a stamp (time and node) and returns
the events that follow, all of which go into one append. After the command itself it goes on
until the session has to wait for the world: for a model, for a tool, or for an input.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..events.errors import InvalidAgent, ModelStreamEnded, SessionReadOnly
from ..events.messages import AssistantMessage, ToolCall
from ..events.session import (
    ContextCarried,
    Discarded,
    FinishReason,
    ModelTurnRecorded,
    ToolCallStarted,
    TurnAborted,
    TurnStarted,
)
from ..projections import (
    Approved,
    Gated,
    InDoubt,
    OpenCall,
    Requested,
    Running,
    SessionState,
    Settled,
)
from ..projections.phases import Phase
from .approving import ask, expire, look_at_the_clock, refuse_while_paused, resolve
from .changing import change_state
from .commands import (
    Abort,
    ChangeState,
    Clear,
    Command,
    Continue,
    Discard,
    Look,
    LookAtTheClock,
    ModelAnswered,
    ModelBroke,
    RecordStep,
    Resolve,
    Resume,
    Rewind,
    Rules,
    Stamp,
    Submit,
    ToolReturned,
    Trim,
    Withdraw,
)
from .concluding import conclude, finish
from .draft import Decision, Draft, configure, resume
from .editing import edit
from .handing_off import ask_to_go_on, switch
from .inputs import apply_joinable, go_on_from, submit, withdraw
from .runs import goes_on, submit_run
from .stepping import record_step
from .stopping import abort, discard, fail


def decide(state: SessionState, command: Command, rules: Rules, stamp: Stamp) -> Decision:
    """The events that follow ``command``; none where it changes nothing or comes too late.

    Raises ``SessionReadOnly`` where the stream holds events this version does not know,
    ``TurnTakenOver`` where a younger node runs the turn, ``InputConflict`` and
    ``InvalidTranscript`` where an input is not what it claims to be, ``RunExists`` and
    ``RunNotFound`` where a run id does not name what it is to name,
    ``SessionAwaitingApproval`` where a decision comes first, and what ``resolve`` and
    ``record_step`` raise.
    """
    if state.unfolded:
        raise SessionReadOnly(
            f"the stream holds {state.unfolded!r} where this version can't make sense of it: it "
            "can be read but not continued; upgrade turnstream, or mend what wrote it"
        )
    draft = Draft(state, rules, stamp)
    if isinstance(command, Submit) and command.run_id:
        if not goes_on(state, command, stamp):
            return draft.decided()
    elif isinstance(command, (Submit, Continue, Resume)):
        refuse_while_paused(state, stamp)
    _carry_out(draft, command)
    if stamp.silenced and draft.asking:
        draft.discard_call("steered")
    if not _only_takes_back(draft, command):
        _go_on(draft)
    return draft.decided()


def _carry_out(draft: Draft, command: Command) -> None:
    match command:
        case Submit():
            (submit_run if command.run_id else submit)(draft, command)
        case Continue():
            go_on_from(draft, command)
        case Resume():
            resume(draft)
        case Resolve():
            resolve(draft, command)
        case LookAtTheClock() | Look():
            look_at_the_clock(draft)
        case Withdraw(input_id=input_id):
            withdraw(draft, input_id)
        case Abort(input_id=input_id, keep=keep):
            abort(draft, input_id, keep=keep)
        case Discard():
            discard(draft)
        case Rewind() | Trim() | Clear():
            edit(draft, command)
        case ModelAnswered() | ModelBroke() | ToolReturned() | RecordStep() | ChangeState():
            _come_back(draft, command)


def _come_back(
    draft: Draft, command: ModelAnswered | ModelBroke | ToolReturned | RecordStep | ChangeState
) -> None:
    match command:
        case ModelAnswered():
            _model_answered(draft, command)
        case ModelBroke():
            _model_broke(draft, command)
        case ToolReturned():
            _tool_returned(draft, command)
        case RecordStep():
            record_step(draft, command)
        case ChangeState():
            change_state(draft, command)


_TAKING_BACK = (Withdraw, Abort, Discard, LookAtTheClock, Look, Rewind, Trim, Clear, ChangeState)


def _only_takes_back(draft: Draft, command: Command) -> bool:
    """Whether the command is no reason to start what waits: no turn is open, and none was, or
    nobody is there to run it."""
    if not isinstance(command, _TAKING_BACK):
        return False
    aborted = any(isinstance(event, TurnAborted) for event in draft.events)
    return draft.state.turn is None and not (aborted and draft.finds(draft.state.active))


def _model_answered(draft: Draft, command: ModelAnswered) -> None:
    if not _awaits_model(draft, command):
        return
    _carry(draft, command)
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
    _carry(draft, command)
    again = command.transient and draft.turn.broken < draft.rules.model_retries
    if again or command.usage is not None:
        reason: Discarded = "retried" if again else "failed"
        if command.code == ModelStreamEnded.code:
            reason = "stream-ended"
        draft.discard_call(reason, command.usage)
    if not again:
        fail(draft, command.code, command.error)


def _carry(draft: Draft, command: ModelAnswered | ModelBroke) -> None:
    if (carried := command.carried) is not None:
        draft.record(
            ContextCarried(
                at=draft.stamp.at,
                turn_id=command.turn_id,
                value=carried.value,
                covers=carried.covers,
            )
        )


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
            case Phase.TOOLS | Phase.PAUSED if draft.owned and not draft.stamp.draining:
                if not _start_calls(draft):
                    return
            case Phase.ANSWERED if draft.owned:
                conclude(draft)
            case Phase.MODEL if draft.owned and not draft.asking and (to := draft.turn.handoff):
                switch(draft, to)
            case Phase.MODEL if draft.owned and not draft.asking:
                limit = _limit_reached(draft)
                if limit is None:
                    apply_joinable(draft)
                    return
                finish(draft, limit)
            case _:
                return


def _start_turn(draft: Draft) -> None:
    turn_id = f"turn-{draft.state.turns + 1}"
    try:
        draft.choose(turn_id)
    except InvalidAgent as error:
        _record_start(draft, turn_id, fingerprint="")
        fail(draft, error.code, str(error))
        return
    configure(draft)
    _record_start(draft, turn_id, draft.rules.configured.fingerprint)


def _record_start(draft: Draft, turn_id: str, fingerprint: str) -> None:
    first = draft.state.queued[0]
    draft.record(
        TurnStarted(
            at=draft.stamp.at,
            turn_id=turn_id,
            input_ids=(first.input_id,),
            agent=draft.rules.configured.name,
            budget=draft.rules.budget,
            owner=draft.stamp.owner,
            fingerprint=fingerprint,
            run_id=first.run_id,
        )
    )


def _limit_reached(draft: Draft) -> FinishReason | None:
    turn, budget = draft.turn, draft.turn.budget
    used = (
        (turn.usage.total_tokens, budget.tokens),
        (turn.active_at(draft.stamp.at), budget.seconds),
        (draft.state.usage.total_tokens, budget.session_tokens),
    )
    if turn.steps >= budget.max_steps:
        return "max-steps"
    if any(limit and amount >= limit for amount, limit in used):
        return "budget"
    return "budget" if budget.tool_calls and turn.tool_calls > budget.tool_calls else None


def _start_calls(draft: Draft) -> bool:
    """Start, or ask about, what may be; true if every call has its result by now."""
    if any(each.policy == "steer" for each in draft.state.joining):
        _skip_calls(draft, draft.turn.calls, STEERED)
    if limit := draft.turn.budget.tool_calls:
        allowed = limit - draft.turn.tool_calls + len(draft.turn.calls)
        _skip_calls(draft, draft.turn.calls[max(allowed, 0) :], NO_BUDGET)
    for each in draft.turn.calls:
        if not isinstance(each.stage, Settled):
            _go_on_with_call(draft, each)
            if draft.rules.tool_concurrency == 1 and not _is_settled(draft, each.call.id):
                break
    return not draft.turn.calls


def _skip_calls(draft: Draft, calls: Sequence[OpenCall], why: str) -> None:
    for each in calls:
        if isinstance(each.stage, Requested):
            draft.settle(each.call.id, "skipped", why)


def _go_on_with_call(draft: Draft, each: OpenCall) -> None:
    call, rules = each.call, draft.rules
    match each.stage:
        case Gated() as gated:
            expire(draft, call, gated)
        case Requested() | Approved() if refusal := rules.refusal(call):
            draft.settle(call.id, "error", refusal)
        case InDoubt() if refusal := rules.refusal(call):
            draft.settle(call.id, "error", f"{refusal} {MAY_HAVE_RUN}")
        case InDoubt() if rules.on_crash[call.name] == "fail":
            draft.settle(call.id, "error", MAY_HAVE_RUN)
        case InDoubt() if rules.on_crash[call.name] == "ask":
            ask(draft, call, rules.gates[call.name])
        case Requested() if gate := rules.gate(call, draft.stamp.session_id, draft.state):
            ask(draft, call, gate)
        case Requested() | Approved() | InDoubt() if target := rules.configured.handoffs.get(
            call.name
        ):
            ask_to_go_on(draft, call, target)
        case Requested() if _has_room(draft):
            _start_call(draft, call.id, 1)
        case Approved(attempts=attempts) | InDoubt(attempt=attempts) if _has_room(draft):
            _start_call(draft, call.id, attempts + 1)
        case _:
            pass


def _has_room(draft: Draft) -> bool:
    running = sum(isinstance(each.stage, Running) for each in draft.turn.calls)
    return running < draft.rules.tool_concurrency


def _is_settled(draft: Draft, call_id: str) -> bool:
    return not any(
        each.call.id == call_id and not isinstance(each.stage, Settled) for each in draft.turn.calls
    )


STEERED = "Not run: a new message came first."
NO_BUDGET = "Not run: the turn has used its budget of tool calls."
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
