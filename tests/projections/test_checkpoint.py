"""One definition of a step: where it ends, and what the session was then."""

from __future__ import annotations

import pytest
from histories import NOON, hostile, turn
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstream.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    InputApplied,
    InputQueued,
    ModelTurnRecorded,
    SessionCleared,
    SessionStarted,
    ToolCall,
    ToolCallStarted,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    UnknownEvent,
)
from turnstream.projections import checkpoints, fold, fold_usage, last_settled, steps

STARTED = SessionStarted(at=NOON, agent="planner")
CALL = ToolCall("c1", "f")


def ends(events: list[AnyEvent]) -> list[tuple[int, int]]:
    return [(each.step, each.version) for each in steps(events)]


def failed(number: int, *, kept: bool) -> TurnFailed:
    return TurnFailed(at=NOON, turn_id=f"turn-{number}", code="x", error="x", kept=kept)


def test_steps_are_counted_over_all_turns_and_end_with_their_results() -> None:
    events = [STARTED, *turn(1, CALL, results=["r"]), *turn(2)]
    topics = [type(each).__name__ for each in events]
    assert ends(events) == [(0, 3), (1, 5), (2, 7), (3, 11)]
    assert topics[4] == "ToolResultRecorded" and topics[6] == topics[10] == "TurnFinished"


def test_a_session_that_never_began_a_turn_has_no_steps() -> None:
    assert ends([]) == ends([STARTED]) == ends([STARTED, turn(1)[0]]) == []


def test_an_input_that_joins_belongs_to_the_next_step() -> None:
    queued, *rest = turn(1, CALL, end=False)
    events = [
        *(STARTED, queued, *rest),
        InputQueued(at=NOON, input_id="i2", content="more", policy="queue"),
        ToolResultRecorded(at=NOON, turn_id="turn-1", call_id="c1", content="r"),
        InputApplied(at=NOON, turn_id="turn-1", input_id="i2"),
        ModelTurnRecorded(at=NOON, turn_id="turn-1", step=2, text="done"),
        TurnFinished(at=NOON, turn_id="turn-1"),
    ]
    assert ends(events) == [(0, 3), (1, 6), (2, 9)]
    (_, first, last) = checkpoints("s", events)
    assert first.checkpoint.pending is not None and first.checkpoint.pending.queued == ("more",)
    assert len(first.checkpoint.pending.messages) == 3
    assert len(last.checkpoint.messages) == 5


def test_a_question_and_its_answer_belong_to_the_step_whose_call_it_is() -> None:
    events = [
        *(STARTED, *turn(1, CALL, end=False)),
        ApprovalRequested(at=NOON, approval_id="a", turn_id="turn-1", call_id="c1"),
    ]
    (_, (_, version)) = ends(events)
    assert version == 5
    assert list(checkpoints("s", events))[-1].status == "awaiting-approval"
    decided = ApprovalResolved(at=NOON, approval_id="a", decision="approved")
    begun = ToolCallStarted(at=NOON, turn_id="turn-1", call_id="c1")
    assert ends([*events, decided, begun]) == [(0, 3), (1, 6)]


@pytest.mark.parametrize("kept", [True, False])
def test_a_failure_belongs_to_the_step_if_the_turn_is_kept(kept: bool) -> None:
    events = [STARTED, *turn(1, CALL, results=["r"], end=False), failed(1, kept=kept)]
    assert ends(events) == [(0, 3), (1, 6 if kept else 5)]
    assert list(checkpoints("s", events))[-1].status == ("failed" if kept else "running")


def test_no_step_reaches_into_the_next_turn() -> None:
    one = [STARTED, *turn(1)]
    for end in (
        failed(2, kept=True),
        TurnAborted(at=NOON, turn_id="turn-2", kept=True),
        TurnFinished(at=NOON, turn_id="turn-2", finish_reason="budget"),
    ):
        assert ends([*one, *turn(2, end=False), end]) == [(0, 3), (1, 5)]


def test_after_a_resume_the_calls_of_a_kept_turn_still_belong_to_their_step() -> None:
    events = [
        *(STARTED, *turn(1, CALL, end=False)),
        TurnAborted(at=NOON, turn_id="turn-1", kept=True),
        TurnResumed(at=NOON, turn_id="turn-1", owner=turn(1)[1].owner),  # type: ignore[union-attr]
        ToolCallStarted(at=NOON, turn_id="turn-1", call_id="c1"),
        ToolResultRecorded(at=NOON, turn_id="turn-1", call_id="c1", content="r"),
    ]
    assert ends(events) == [(0, 3), (1, 8)]


def test_edits_are_no_part_of_a_step() -> None:
    events = [STARTED, *turn(1), SessionCleared(at=NOON), *turn(2)]
    assert ends(events) == [(0, 3), (1, 5), (2, 10)]
    assert [len(each.checkpoint.messages) for each in checkpoints("s", events)] == [0, 2, 2]


@pytest.mark.slow
@given(hostile)
@settings(max_examples=300)
def test_a_checkpoint_is_the_fold_of_the_stream_up_to_it(events: list[AnyEvent]) -> None:
    found = list(checkpoints("s", events))
    first = found[0].step if found else 0
    assert [each.step for each in found] == list(range(first, first + len(found)))
    versions = [each.version for each in found]
    assert versions == sorted(set(versions))
    for each in found:
        assert each.checkpoint.folded == fold(events[: each.version])
        assert each.checkpoint.usage == fold_usage(events[: each.version])
        assert (each.version, each.saved_at) == (each.checkpoint.version, NOON)


@given(hostile, st.integers(0, 25))
def test_steps_that_are_over_never_move(events: list[AnyEvent], cut: int) -> None:
    assert ends(events[:cut])[:-1] == ends(events)[: max(len(ends(events[:cut])) - 1, 0)]


@pytest.mark.slow
@given(hostile)
@settings(max_examples=300)
def test_the_last_settled_version_is_the_last_with_nothing_unfinished(
    events: list[AnyEvent],
) -> None:
    if fold(events).unfolded:
        return
    settled = [
        version
        for version in range(1, len(events) + 1)
        if (state := fold(events[:version])).turn is None and not state.queued
    ]
    assert last_settled(events) == (settled[-1] if settled else 0)


def test_an_event_of_a_later_version_settles_nothing_by_itself() -> None:
    unknown = UnknownEvent("from_later", b"{}")
    assert last_settled([STARTED, unknown]) == 2
    assert last_settled([STARTED, *turn(1, end=False), unknown]) == 1
