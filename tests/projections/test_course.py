"""How a session came to be what it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from turnstream.events import (
    Budget,
    ForkPatched,
    InputQueued,
    ModelTurnRecorded,
    Owner,
    SessionEvent,
    SessionStarted,
    ToolCall,
    ToolResultRecorded,
    TurnAborted,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
    Usage,
)
from turnstream.projections import TrajectoryCall, TrajectoryStep, course

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(minute: int) -> datetime:
    return NOON + timedelta(minutes=minute)


def begun(turn: str, minute: int) -> list[SessionEvent]:
    """A turn with an answer that calls a tool, a minute for each event."""
    owner, call = Owner(1, "node"), ToolCall(f"{turn}.c", "find", {"x": turn})
    return [
        InputQueued(at=at(minute), input_id=turn, content=turn),
        TurnStarted(
            at=at(minute + 1),
            turn_id=turn,
            input_ids=(turn,),
            agent="a",
            budget=Budget(9),
            owner=owner,
        ),
        ModelTurnRecorded(
            at=at(minute + 2), turn_id=turn, step=1, tool_calls=(call,), usage=Usage(1)
        ),
        ToolResultRecorded(at=at(minute + 3), turn_id=turn, call_id=call.id, content="r"),
    ]


def held(turn: str, minute: int) -> list[SessionEvent]:
    """The same, with a final answer."""
    return [
        *begun(turn, minute),
        ModelTurnRecorded(at=at(minute + 4), turn_id=turn, step=2, text=turn, usage=Usage(1)),
        TurnFinished(at=at(minute + 5), turn_id=turn),
    ]


START: list[SessionEvent] = [SessionStarted(at=NOON, agent="a")]


def test_what_a_dropped_turn_said_is_no_part_of_it() -> None:
    dropped = [*begun("lost", 10), TurnAborted(at=at(15), turn_id="lost")]
    found = course([*START, *held("one", 0), *dropped, *held("two", 20)])
    assert [each.event.turn_id for each in found.answers] == ["one", "one", "two", "two"]
    assert [each.place for each in found.answers] == [1, 3, 5, 7]
    minutes = [1, 2, 3, 4, 21, 22, 23, 24]
    assert list(found.times) == [at(minute) for minute in minutes]
    assert found.ended == {4: "stop", 8: "stop"}
    assert [each.ended for each in found.trajectory.steps] == ["", "stop", "", "stop"]
    assert found.trajectory.usage == Usage(5)


def test_an_answer_knows_the_session_right_before_it() -> None:
    found = course([*START, *held("one", 0), *held("two", 10)])
    assert [len(each.before.transcript) for each in found.answers] == [1, 3, 5, 7]
    assert [len(each.before.conversation) for each in found.answers] == [0, 0, 4, 4]


def test_an_open_turn_is_part_of_it_with_the_results_there_are() -> None:
    found = course([*START, *begun("one", 0)[:-1]])
    call = TrajectoryCall("find", {"x": "one"})
    assert found.trajectory.steps == (TrajectoryStep("", (call,), ""),)
    kept = course([*START, *begun("one", 0), TurnAborted(at=at(9), turn_id="one", kept=True)])
    assert kept.trajectory.steps[0].ended == "aborted"


def test_an_open_turn_without_an_answer_changes_nothing_about_the_one_before() -> None:
    waiting = begun("two", 10)[:2]
    found = course([*START, *held("one", 0), *waiting])
    assert [each.ended for each in found.trajectory.steps] == ["", "stop"]


def test_answers_to_what_was_patched_away_are_left_out() -> None:
    patched = ForkPatched(at=at(10), changed=("messages",))
    assert course([*START, *held("one", 0), patched]).answers == []
    other = ForkPatched(at=at(10), changed=("state",))
    assert len(course([*START, *held("one", 0), other]).answers) == 2


def test_events_this_version_does_not_know_are_passed_over() -> None:
    unknown = UnknownEvent("from_the_future", b"{}")
    found = course([unknown, *START, *held("one", 0), unknown])
    assert len(found.times) == len(found.messages) == 4
