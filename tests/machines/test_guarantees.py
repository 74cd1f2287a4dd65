"""What judges the machines can tell a broken stream from a sound one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from guarantees import (
    budgets_are_kept,
    every_call_has_one_result,
    every_split_folds_alike,
    every_step_is_recorded_once,
    inputs_are_used_once_in_order,
    inputs_join_at_the_first_safe_point,
    judge_stream,
    keys_name_one_input,
    results_are_in_order_of_completion,
    steers_are_taken_in_at_once,
    turns_follow_one_another,
    turns_have_one_owner,
)
from msgspec.structs import replace
from witnessed import (
    Accepted,
    Asked,
    Ended,
    Failed,
    Ran,
    Shown,
    digest,
    judge_witnesses,
    openings,
)

from turnstream.events import (
    AgentConfigured,
    AnyEvent,
    Budget,
    InputApplied,
    InputQueued,
    ModelCallDiscarded,
    ModelTurnRecorded,
    Owner,
    SessionStarted,
    ToolCall,
    ToolCallStarted,
    ToolResultRecorded,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    Usage,
)
from turnstream.projections import fold

AT = datetime(2026, 1, 1, tzinfo=UTC)
TURN, BUDGET = "turn-1", Budget(max_steps=3)
CALLS = (ToolCall("a", "work"), ToolCall("b", "work"))
SOUND: tuple[AnyEvent, ...] = (
    SessionStarted(at=AT, agent="agent"),
    InputQueued(at=AT, input_id="i1", content="one", key="k"),
    AgentConfigured(at=AT, name="agent", model="m"),
    TurnStarted(
        at=AT, turn_id=TURN, input_ids=("i1",), agent="agent", budget=BUDGET, owner=Owner(2, "n")
    ),
    ModelTurnRecorded(at=AT, turn_id=TURN, step=1, tool_calls=CALLS, usage=Usage(1, 1)),
    ToolCallStarted(at=AT, turn_id=TURN, call_id="a"),
    InputQueued(at=AT, input_id="i2", content="two", policy="queue"),
    InputQueued(at=AT, input_id="i3", content="three", policy="steer"),
    ToolResultRecorded(at=AT, turn_id=TURN, call_id="b", outcome="skipped"),
    ToolResultRecorded(at=AT, turn_id=TURN, call_id="a"),
    InputApplied(at=AT, turn_id=TURN, input_id="i2"),
    InputApplied(at=AT, turn_id=TURN, input_id="i3"),
    ModelTurnRecorded(at=AT, turn_id=TURN, step=2, text="done", usage=Usage(1, 1)),
    TurnFinished(at=AT, turn_id=TURN),
)
START, FIRST, BEGUN, SKIPPED, RESULT, JOINED, STEERED, LAST, END = 3, 4, 5, 8, 9, 10, 11, 12, 13
Judge = Callable[[list[AnyEvent]], None]


def without(*places: int) -> list[AnyEvent]:
    return [each for place, each in enumerate(SOUND) if place not in places]


def with_event(place: int, *events: AnyEvent) -> list[AnyEvent]:
    return [*SOUND[:place], *events, *SOUND[place:]]


def swapped(one: int, other: int) -> list[AnyEvent]:
    stream = list(SOUND)
    stream[one], stream[other] = stream[other], stream[one]
    return stream


def changed(place: int, **changes: object) -> list[AnyEvent]:
    return [*SOUND[:place], replace(SOUND[place], **changes), *SOUND[place + 1 :]]  # type: ignore[type-var]


QUEUED = InputQueued(at=AT, input_id="i4", content="four", policy="steer")
DISCARDED = ModelCallDiscarded(at=AT, turn_id=TURN, step=2, reason="steered")
RESUMED = TurnResumed(at=AT, turn_id=TURN, owner=Owner(1, "older"))
BROKEN: dict[str, tuple[Judge, list[AnyEvent]]] = {
    "a call without a result": (every_call_has_one_result, without(SKIPPED)),
    "two results": (every_call_has_one_result, with_event(RESULT, SOUND[SKIPPED])),
    "a skipped call that ran": (every_call_has_one_result, changed(RESULT, outcome="skipped")),
    "a cancelled call that did not": (
        every_call_has_one_result,
        changed(SKIPPED, outcome="cancelled"),
    ),
    "a start of an attempt too many": (every_call_has_one_result, changed(BEGUN, attempt=2)),
    "an input among the results": (every_call_has_one_result, swapped(RESULT, JOINED)),
    "a step twice": (every_step_is_recorded_once, changed(LAST, step=1)),
    "an input lost": (inputs_are_used_once_in_order, without(JOINED)),
    "an input used twice": (inputs_are_used_once_in_order, with_event(LAST, SOUND[JOINED])),
    "inputs in the wrong order": (inputs_are_used_once_in_order, swapped(JOINED, STEERED)),
    "an input dropped and kept": (
        inputs_are_used_once_in_order,
        [*SOUND[:JOINED], TurnFailed(at=AT, turn_id=TURN, code="c", error="e", kept=False)],
    ),
    "the model asked without them": (inputs_join_at_the_first_safe_point, without(STEERED)),
    "a call begun although steered": (
        steers_are_taken_in_at_once,
        with_event(SKIPPED, ToolCallStarted(at=AT, turn_id=TURN, call_id="b")),
    ),
    "a call thrown away for nothing": (steers_are_taken_in_at_once, with_event(LAST, DISCARDED)),
    "a key for two inputs": (keys_name_one_input, with_event(LAST, replace(QUEUED, key="k"))),
    "an older owner": (turns_have_one_owner, with_event(LAST, RESUMED)),
    "a step over the limit": (budgets_are_kept, changed(START, budget=Budget(max_steps=1))),
    "tokens over the limit": (budgets_are_kept, changed(START, budget=Budget(9, tokens=2))),
    "a limit not reached": (budgets_are_kept, changed(END, finish_reason="max-steps")),
    "two turns at once": (turns_follow_one_another, with_event(LAST, SOUND[START])),
    "a turn that goes on": (turns_follow_one_another, [*SOUND, SOUND[LAST]]),
}


def test_a_sound_stream_is_sound_at_the_end_of_every_append() -> None:
    for length in (0, 4, 5, 6, 7, 9, 12, len(SOUND)):
        judge_stream(SOUND[:length])
    every_split_folds_alike(SOUND)


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_stream_is_found_out(what: str) -> None:
    judge, stream = BROKEN[what]
    with pytest.raises(AssertionError):
        judge(stream)


def test_results_in_another_order_than_that_of_completion_are_found_out() -> None:
    results_are_in_order_of_completion(SOUND, [(TURN, "b"), (TURN, "a")])
    with pytest.raises(AssertionError):
        results_are_in_order_of_completion(SOUND, [(TURN, "a"), (TURN, "b")])


FIRST_ASKED, SECOND_ASKED = (
    Asked(2, each.version, TURN, each.step, each.request, "", calls)
    for each, calls in zip(openings(SOUND), [(), (("a", ""), ("b", ""))], strict=True)
)
FINISHED = Ended(14, "i3", TURN, "stop", digest(fold(SOUND).conversation), 2, Usage(2, 2))
LIES = {
    "a model asked with another transcript": [replace(FIRST_ASKED, request="other")],
    "a model asked with an invalid one": [replace(FIRST_ASKED, flaw="a call has no result")],
    "a model asked too early": [replace(SECOND_ASKED, seen=SECOND_ASKED.seen - 1)],
    "a model asked twice": [FIRST_ASKED, FIRST_ASKED],
    "a model asked by another node": [replace(FIRST_ASKED, generation=1)],
    "a model of another agent asked": [replace(FIRST_ASKED, is_other=True)],
    "a tool run before its start": [Ran(2, BEGUN, TURN, "a", 1)],
    "a tool run twice": [Ran(2, BEGUN + 1, TURN, "a", 1)] * 2,
    "an input accepted too early": [Accepted(1, "i1")],
    "an item shown too early": [Shown(BEGUN, BEGUN + 1, "tool.started")],
    "an item of another event": [Shown(14, BEGUN + 1, "tool.result")],
    "an end told too early": [replace(FINISHED, seen=END)],
    "an end with another conversation": [replace(FINISHED, conversation="other")],
    "an end with other usage": [replace(FINISHED, usage=Usage(4, 4))],
    "another end": [replace(FINISHED, reason="aborted")],
    "the end of another's turn": [replace(FINISHED, input_id="i9")],
    "an input said to be withdrawn": [Failed(14, "i1", "", "turn-withdrawn")],
    "a failure that never was": [Failed(14, "i1", TURN, "model-failed")],
}


def test_what_was_seen_and_is_so_is_believed() -> None:
    judge_witnesses(SOUND, [FIRST_ASKED, SECOND_ASKED, Ran(2, BEGUN + 1, TURN, "a", 1)])
    judge_witnesses(SOUND, [Accepted(2, "i1"), Shown(BEGUN + 1, BEGUN + 1, "tool.started")])
    judge_witnesses(SOUND, [FINISHED])


@pytest.mark.parametrize("lie", LIES)
def test_what_nobody_can_have_seen_is_found_out(lie: str) -> None:
    with pytest.raises(AssertionError):
        judge_witnesses(SOUND, LIES[lie])
