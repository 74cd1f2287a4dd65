"""What models, tools and callers of a session saw, and what has to hold for it.

``seen`` is the version of the stream at the moment of an observation: what was told then has to
rest on events up to there. ``generation`` names the process that was observed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec
from decisions import arguments_by_call
from msgspec import Struct
from streams import OTHER, Recorded, history

from turnstream.events import (
    AgentHandedOff,
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    Message,
    ModelCallDiscarded,
    ModelTurnRecorded,
    StateChanged,
    ToolCallStarted,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    Usage,
)
from turnstream.projections import Phase, fold


class Asked(Struct, frozen=True, tag=True):
    """A model was asked; ``flaw`` says why no provider would accept the transcript. ``calls`` are
    the ids and texts of the turn's calls so far, as the model is shown them."""

    generation: int
    seen: int
    turn_id: str
    step: int
    request: str
    flaw: str
    calls: tuple[tuple[str, str], ...] = ()
    is_other: bool = False


class Ran(Struct, frozen=True, tag=True):
    """A tool began, with this idempotency key, and this text as its argument."""

    generation: int
    seen: int
    turn_id: str
    call_id: str
    attempt: int
    key: str = ""
    text: str = ""


class Returned(Struct, frozen=True, tag=True):
    """A tool was let go, when everything else stood still."""

    turn_id: str
    call_id: str


class Accepted(Struct, frozen=True, tag=True):
    """A caller was told that its input is durable."""

    seen: int
    input_id: str


class Shown(Struct, frozen=True, tag=True):
    """A stream item that stands for an event was shown."""

    seen: int
    version: int
    kind: str


class Ended(Struct, frozen=True, tag=True):
    """A caller was told how a turn ended."""

    seen: int
    input_id: str
    turn_id: str
    reason: str
    conversation: str
    steps: int
    usage: Usage


class Paused(Struct, frozen=True, tag=True):
    """A caller was told that a turn waits for decisions."""

    seen: int
    input_id: str
    turn_id: str
    conversation: str
    steps: int
    usage: Usage
    approvals: tuple[str, ...]


class Failed(Struct, frozen=True, tag=True):
    """A caller was told that its turn failed."""

    seen: int
    input_id: str
    turn_id: str
    code: str


class Answered(Struct, frozen=True, tag=True):
    """A caller was told that its request was carried out: the input was taken back, the turn was
    stopped, or what was unfinished was dropped."""

    seen: int
    request: Literal["withdraw", "abort", "discard"]
    input_id: str = ""


Seen: TypeAlias = Asked | Ran | Returned | Accepted | Shown | Ended | Paused | Failed | Answered


def digest(messages: Sequence[Message]) -> str:
    """Equal for equal messages, across processes."""
    return sha256(msgspec.json.encode(list(messages))).hexdigest()[:16]


def judge_witnesses(recorded: Recorded, seen: Iterable[Seen]) -> None:
    """Everything that holds for what was seen of a session."""
    witnessed = list(seen)
    models_are_asked_once_with_the_fold(recorded, [e for e in witnessed if isinstance(e, Asked)])
    ran = [each for each in witnessed if isinstance(each, Ran)]
    calls_run_as_announced(recorded, ran)
    keys_are_a_calls_own(ran)
    edits_reach_tool_and_model(recorded, [e for e in witnessed if isinstance(e, Asked | Ran)])
    for each in witnessed:
        told_is_durable(recorded, each)


class Opening(Struct, frozen=True):
    """A moment from which the model is due, and what it is to be asked."""

    version: int
    generation: int
    turn_id: str
    step: int
    request: str
    is_other: bool = False


def openings(recorded: Recorded) -> list[Opening]:
    """Each moment from which the model is due, once: an answer is owed for the step, the last
    call for it came to nothing, or a node took it up again. What joins then is in the request."""
    found: list[Opening] = []
    for version, (_, event, after) in enumerate(history(recorded), 1):
        turn = after.turn
        if turn is None or after.phase is not Phase.MODEL or not _moves(event):
            continue
        key = (turn.owner.generation, turn.turn_id, turn.steps + 1, digest(after.transcript))
        opening = Opening(version, *key, (turn.handoff or turn).agent == OTHER)
        if isinstance(event, InputApplied):
            found.pop()
        found.append(opening)
    return found


def _moves(event: AnyEvent) -> bool:
    kinds = (TurnStarted, TurnResumed, ToolResultRecorded, ModelCallDiscarded, InputApplied)
    return isinstance(event, kinds)


def models_are_asked_once_with_the_fold(recorded: Recorded, asked: Sequence[Asked]) -> None:
    """G2, G5, G7, G8. Each question is one that the stream had made due by then, and was asked by
    the turn's owner with exactly the transcript of the stream; and none was asked twice."""
    due = openings(recorded)
    assert not [each.flaw for each in asked if each.flaw]
    for each in asked:
        times = sum(_question(a) == _question(each) for a in asked)
        chances = [o for o in due if _question(o) == _question(each)]
        assert chances and chances[0].version <= each.seen, f"asked before it was due: {each}"
        assert times <= len(chances), f"asked again without need: {each}"


def _question(of: Opening | Asked) -> tuple[object, ...]:
    return of.generation, of.turn_id, of.step, of.request, of.is_other


def calls_run_as_announced(recorded: Recorded, ran: Sequence[Ran]) -> None:
    """G2, G8. A tool runs once for each start in the stream, after it, at the turn's owner."""
    started: dict[tuple[str, str, int], tuple[int, int]] = {}
    generation = 0
    for version, event in enumerate(recorded, 1):
        match event:
            case TurnStarted() | TurnResumed():
                generation = event.owner.generation
            case ToolCallStarted():
                started[event.turn_id, event.call_id, event.attempt] = version, generation
    runs = Counter((each.turn_id, each.call_id, each.attempt) for each in ran)
    assert not [each for each, times in runs.items() if times > 1]
    for each in ran:
        version, owner = started.get((each.turn_id, each.call_id, each.attempt), (0, 0))
        assert 0 < version <= each.seen and owner == each.generation, each


def keys_are_a_calls_own(ran: Sequence[Ran]) -> None:
    """A call has one idempotency key, however often it runs, and no other call has it."""
    pairs = {((each.turn_id, each.call_id), each.key) for each in ran}
    assert len(pairs) == len({call for call, _ in pairs}), "a call with two keys"
    assert len(pairs) == len({key for _, key in pairs}), "a key for two calls"


def edits_reach_tool_and_model(recorded: Recorded, seen: Iterable[Asked | Ran]) -> None:
    """A tool gets what was proposed, or what it was edited to; and the model is shown the same."""
    texts_at = texts_over_time(recorded)
    for each in seen:
        texts = texts_at[each.seen]
        match each:
            case Ran(turn_id=turn_id, call_id=call_id, text=text):
                assert text == texts[turn_id, call_id], each
            case Asked(turn_id=turn_id):
                earlier = [
                    (call.id, texts[turn_id, call.id])
                    for e in recorded
                    if isinstance(e, ModelTurnRecorded) and e.turn_id == turn_id
                    for call in e.tool_calls
                    if e.step < each.step
                ]
                assert list(each.calls) == earlier, each


def texts_over_time(recorded: Recorded) -> list[dict[tuple[str, str], str]]:
    """The text that each call is to run with, at each version of the stream."""
    texts: list[dict[tuple[str, str], str]] = [{}]
    for version, event in enumerate(recorded, 1):
        if isinstance(event, ModelTurnRecorded | ApprovalResolved):
            arguments = arguments_by_call(recorded[:version])
            texts.append({call: str(given.get("text", "")) for call, given in arguments.items()})
        else:
            texts.append(texts[-1])
    return texts


def told_is_durable(recorded: Recorded, told: Seen) -> None:
    """G8. Nobody was told what the stream did not hold by then."""
    match told:
        case Accepted(input_id=input_id) if input_id:
            assert input_id in accepted(recorded[: told.seen]), told
        case Shown():
            assert told.version <= min(told.seen, len(recorded)), told
            assert isinstance(recorded[told.version - 1], SHOWN_AS[told.kind]), told
        case Ended():
            assert _end(recorded[: told.seen], told), told
        case Paused():
            assert _pause(recorded[: told.seen], told), told
        case Failed():
            assert _failure(recorded[: told.seen], told), told
        case Answered():
            assert _carried_out(recorded[: told.seen], told), told
        case _:
            pass


SHOWN_AS: dict[str, tuple[type[AnyEvent], ...]] = {
    "turn.started": (TurnStarted, TurnResumed),
    "model.turn": (ModelTurnRecorded,),
    "tool.started": (ToolCallStarted,),
    "tool.result": (ToolResultRecorded,),
    "approval.requested": (ApprovalRequested,),
    "input.queued": (InputQueued,),
    "input.applied": (InputApplied,),
    "agent.changed": (AgentHandedOff,),
}


def accepted(recorded: Recorded) -> list[str]:
    """The ids of the inputs, in order."""
    return [each.input_id for each in recorded if isinstance(each, InputQueued)]


def withdrawn(recorded: Recorded) -> list[str]:
    """The ids of the inputs that were taken back."""
    return [each.input_id for each in recorded if isinstance(each, InputWithdrawn)]


def inputs_of(recorded: Recorded, turn_id: str) -> list[str]:
    """The inputs a turn began with, and those that joined it."""
    found: list[str] = []
    for event in recorded:
        match event:
            case TurnStarted(turn_id=its, input_ids=ids) if its == turn_id:
                found += ids
            case InputApplied(turn_id=its, input_id=input_id) if its == turn_id:
                found.append(input_id)
    return found


def _end(recorded: Recorded, told: Ended) -> bool:
    """Whether the turn ended like that, with the input in it, or was stopped before it began."""
    if not told.turn_id:
        return told.reason == "aborted" and told.input_id in withdrawn(recorded)
    if told.input_id and told.input_id not in inputs_of(recorded, told.turn_id):
        return False
    reason: str
    for version, event in enumerate(recorded, 1):
        match event:
            case TurnFinished(turn_id=turn_id, finish_reason=finished):
                reason, stopped = finished, False
            case TurnAborted(turn_id=turn_id, kept=kept):
                reason, stopped = "aborted", kept
            case _:
                continue
        if (turn_id, reason) != (told.turn_id, told.reason):
            continue
        if digest(fold(recorded[:version]).conversation) != told.conversation and not stopped:
            continue
        answers = [
            each
            for each in recorded[:version]
            if isinstance(each, ModelTurnRecorded) and each.turn_id == turn_id
        ]
        if (told.steps, told.usage) == (len(answers), sum_of(each.usage for each in answers)):
            return True
    return False


def _pause(recorded: Recorded, told: Paused) -> bool:
    """Whether the turn ever waited like that: for these decisions, and with these results."""
    if told.input_id not in inputs_of(recorded, told.turn_id):
        return False
    for version, (_, event, after) in enumerate(history(recorded), 1):
        turn = after.turn
        if turn is None or turn.turn_id != told.turn_id or not isinstance(event, _PAUSING):
            continue
        if any(each.at == event.at for each in recorded[version : version + 1]):
            continue  # in the middle of an append
        waits = tuple(gated.approval_id for _, gated in turn.gated)
        if (waits, turn.steps, turn.usage) != (told.approvals, told.steps, told.usage):
            continue
        said = digest((*after.transcript, *turn.results))
        if after.phase is Phase.PAUSED and said == told.conversation:
            return True
    return False


_PAUSING = (ApprovalRequested, ApprovalResolved, ApprovalWithdrawn, ToolResultRecorded)


def sum_of(usages: Iterable[Usage]) -> Usage:
    total = Usage()
    for each in usages:
        total += each
    return total


def _failure(recorded: Recorded, told: Failed) -> bool:
    """Whether the stream says so; what it can't say is for others to judge."""
    match told.code:
        case "turn-withdrawn":
            return told.input_id in withdrawn(recorded)
        case "session-awaiting-approval":
            return any(isinstance(each, ApprovalRequested) for each in recorded)
        case "model-failed" | "model-stream-ended" | "invalid-model-turn" | "model-timed-out":
            return any(
                isinstance(each, TurnFailed)
                and (each.turn_id, each.code) == (told.turn_id, told.code)
                for each in recorded
            )
        case _:
            return True


def _carried_out(recorded: Recorded, told: Answered) -> bool:
    """Whether an event says that the request was carried out."""
    stopped = [each for each in recorded if isinstance(each, TurnAborted)]
    match told.request:
        case "withdraw":
            return told.input_id in withdrawn(recorded)
        case "abort":
            own = [each for each in stopped if told.input_id in inputs_of(recorded, each.turn_id)]
            return bool(own) or told.input_id in withdrawn(recorded)
        case "discard":
            return bool(withdrawn(recorded)) or any(not each.kept for each in stopped)
        case "change":
            return any(isinstance(each, StateChanged) for each in recorded)
