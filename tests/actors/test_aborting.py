"""Stopping a turn at every point of its life: what is recorded, and who hears what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from places import on_files_too

from turnstream.actors import ActorSystem, Agent, Session, Turn, tool
from turnstream.actors.testing import call, said
from turnstream.events import (
    ModelCallDiscarded,
    ModelFailed,
    ToolResultRecorded,
    TurnAborted,
)

pytestmark = on_files_too

WAIT = 20
Run = Callable[..., ActorSystem]

both = pytest.mark.parametrize("keep", [False, True], ids=["dropped", "kept"])


def silent(led: Any, held: Any, turn: Turn) -> None:
    led.asked()


def talking(led: Any, held: Any, turn: Turn) -> None:
    assert led.asked().show("Hel")


def in_an_async_tool(led: Any, held: Any, turn: Turn) -> None:
    led.asked().answer([call("held", "a", text="a")])
    held.begun("a")


def in_a_sync_tool(led: Any, held: Any, turn: Turn) -> None:
    led.asked().answer([call("held_sync", "a", text="a")])
    held.begun("a")


def in_a_batch(led: Any, held: Any, turn: Turn) -> None:
    """The first call has its result, the second runs, the third has not begun."""
    held.let("a")
    led.asked().answer([call("held", each, text=each) for each in "abc"])
    held.begun("b")


def at_the_next_step(led: Any, held: Any, turn: Turn) -> None:
    held.let("a")
    led.asked().answer([call("held", "a", text="a")])
    led.asked()


class Point(NamedTuple):
    """A point of a turn, and what stopping it there adds to the stream: the outcomes of calls
    where the turn is dropped and where it is kept, and how many model calls are discarded."""

    reach: Callable[[Any, Any, Turn], None]
    dropped: Sequence[tuple[str, str]] = ()
    kept: Sequence[tuple[str, str]] = ()
    discarded: int = 0


CANCELLED = [("a", "cancelled")]
POINTS = [
    Point(silent, discarded=1),
    Point(talking, discarded=1),
    Point(in_an_async_tool, CANCELLED, CANCELLED),
    Point(in_a_sync_tool, CANCELLED, CANCELLED),
    Point(in_a_batch, [("b", "cancelled"), ("c", "skipped")], [("b", "cancelled")]),
    Point(at_the_next_step, discarded=1),
]
everywhere = pytest.mark.parametrize("point", POINTS, ids=[each.reach.__name__ for each in POINTS])


def begun(run: Run, led: Any, held: Any, point: Point) -> tuple[Session, Turn]:
    """A session with a finished turn, and its second one brought to the point."""
    session = run([], model=led, tools=held.tools, tool_concurrency=1).session("s")
    first = session.send("hello")
    led.asked().answer("hi")
    first.result(WAIT)
    turn = session.send("go")
    point.reach(led, held, turn)
    return session, turn


def facts(session: Session, after: int = 0) -> list[Any]:
    return [each.event for each in session.events(after)]


@both
@everywhere
def test_what_was_under_way_gets_its_end_recorded_and_then_the_turn(
    run: Run, led: Any, held: Any, point: Point, keep: bool
) -> None:
    session, turn = begun(run, led, held, point)
    before = session.version
    assert turn.abort(keep=keep).result(WAIT) is True

    *ends, aborted = facts(session, before)
    assert isinstance(aborted, TurnAborted)
    assert (aborted.turn_id, aborted.kept) == ("turn-2", keep)
    results = [(e.call_id, e.outcome) for e in ends if isinstance(e, ToolResultRecorded)]
    discarded = [e for e in ends if isinstance(e, ModelCallDiscarded)]
    assert results == list(point.kept if keep else point.dropped)
    assert [each.reason for each in discarded] == ["aborted"] * point.discarded
    assert len(ends) == len(results) + len(discarded)


@both
@everywhere
def test_whoever_waits_for_a_stopped_turn_hears_it_once(
    run: Run, led: Any, held: Any, point: Point, keep: bool
) -> None:
    _session, turn = begun(run, led, held, point)
    turn.abort(keep=keep)

    result = turn.result(WAIT)
    assert (result.turn_id, result.finish_reason) == ("turn-2", "aborted")
    items: list[Any] = list(turn.stream())
    assert [each.type for each in items].count("turn.done") == 1
    assert items[-1].type == "turn.done" and items[-1].finish_reason == "aborted"
    assert items[-1].result is result
    assert "error" not in [each.type for each in items]
    assert list(turn.stream()) == items, "and nothing is added later"


@everywhere
def test_after_a_dropped_turn_the_conversation_is_as_it_was_before(
    run: Run, led: Any, held: Any, point: Point
) -> None:
    session, turn = begun(run, led, held, point)
    turn.abort().result(WAIT)

    assert said(session.messages) == ["hello", "hi"]
    assert session.pending() is None and session.status == "idle"
    assert session.resume() is None
    following = session.send("next")
    asked = led.asked()
    assert said(asked.request.messages) == ["hello", "hi", "next"]
    asked.answer("fine")
    assert following.result(WAIT).text == "fine"


@everywhere
def test_a_kept_turn_is_shown_as_aborted_and_not_as_part_of_the_conversation(
    run: Run, led: Any, held: Any, point: Point
) -> None:
    session, turn = begun(run, led, held, point)
    turn.abort(keep=True).result(WAIT)

    pending = session.pending()
    assert said(session.messages) == ["hello", "hi"] and session.status == "aborted"
    assert pending is not None and pending.turn_id == "turn-2"
    assert said(pending.messages)[0] == "go"
    assert [each.id for each in pending.calls] == (["c"] if point.reach is in_a_batch else [])


def test_results_from_before_the_stop_stay_in_the_stream_of_a_dropped_turn(
    run: Run, led: Any, held: Any
) -> None:
    session, turn = begun(run, led, held, Point(in_a_batch))
    turn.abort().result(WAIT)

    results = [each for each in facts(session) if isinstance(each, ToolResultRecorded)]
    assert [(e.call_id, e.outcome) for e in results] == [
        ("a", "ok"),
        ("b", "cancelled"),
        ("c", "skipped"),
    ]
    assert results[0].content == "a"


@both
def test_the_model_is_told_to_stop(run: Run, led: Any, keep: bool) -> None:
    session = run([], model=led).session("s")
    turn = session.send("go")
    asked = led.asked()
    turn.abort(keep=keep)

    assert asked.cancelled.wait(WAIT)
    asked.answer("too late")
    assert turn.result(WAIT).finish_reason == "aborted"
    assert not asked.show("too late")


@both
def test_a_coroutine_is_told_to_stop(run: Run, led: Any, held: Any, keep: bool) -> None:
    _session, turn = begun(run, led, held, Point(in_an_async_tool))
    turn.abort(keep=keep)

    held.cancelled("a")


@both
def test_an_input_that_still_waits_is_taken_back_and_the_running_turn_goes_on(
    run: Run, led: Any, keep: bool
) -> None:
    session = run([], model=led).session("s")
    first, second = session.send("one"), session.send("two")
    asked = led.asked()
    assert second.abort(keep=keep).result(WAIT) is True

    aborted = second.result(WAIT)
    assert (aborted.finish_reason, aborted.turn_id, aborted.steps) == ("aborted", "", 0)
    assert [each.type for each in second.stream()] == ["turn.done"]
    asked.answer("1")
    assert first.result(WAIT).text == "1"
    third = session.send("three")
    asked = led.asked()
    assert said(asked.request.messages) == ["one", "1", "three"]
    asked.answer("3")
    assert third.result(WAIT).text == "3"
    assert [e.topic for e in session.events()].count("turn_started") == 2


@both
def test_a_stop_right_after_the_send_needs_no_waiting_in_between(
    run: Run, led: Any, keep: bool
) -> None:
    session = run([], model=led).session("s")
    turn = session.send("go")
    reply = turn.abort(keep=keep)

    assert reply.result(WAIT) is True
    assert turn.result(WAIT).finish_reason == "aborted"
    assert turn.accepted().result(WAIT) == turn.input_id
    assert list(session.messages) == []


def finished(led: Any, session: Session) -> Turn:
    turn = session.send("go")
    led.asked().answer("done")
    turn.result(WAIT)
    return turn


def failed(led: Any, session: Session) -> Turn:
    turn = session.send("go")
    led.asked().fail(ConnectionError("down"))
    with pytest.raises(ModelFailed):
        turn.result(WAIT)
    return turn


def aborted_before(led: Any, session: Session) -> Turn:
    turn = session.send("go")
    led.asked()
    assert turn.abort().result(WAIT) is True
    return turn


def withdrawn(led: Any, session: Session) -> Turn:
    first, turn = session.send("go"), session.send("not")
    asked = led.asked()
    assert turn.abort().result(WAIT) is True
    asked.answer("done")
    first.result(WAIT)
    return turn


@both
@pytest.mark.parametrize("end", [finished, failed, aborted_before, withdrawn])
def test_stopping_what_ended_before_changes_nothing_and_says_so(
    run: Run, led: Any, end: Callable[[Any, Session], Turn], keep: bool
) -> None:
    session = run([], model=led, on_failure="drop").session("s")
    turn = end(led, session)
    before, items = facts(session), list(turn.stream())

    assert turn.abort(keep=keep).result(WAIT) is False
    assert facts(session) == before and session.status == "idle"
    assert list(turn.stream()) == items


def kept(led: Any, session: Session) -> Turn:
    turn = session.send("go")
    led.asked()
    assert turn.abort(keep=True).result(WAIT) is True
    return turn


@both
@pytest.mark.parametrize("end", [failed, kept])
def test_a_turn_that_rests_is_dropped_by_the_session_and_not_by_its_old_handle(
    run: Run, led: Any, end: Callable[[Any, Session], Turn], keep: bool
) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    turn = end(led, session)
    before, status = facts(session), session.status

    assert turn.abort(keep=keep).result(WAIT) is False
    assert facts(session) == before and session.status == status != "idle"
    assert session.discard_pending().result(WAIT) is True
    assert session.status == "idle"


def test_of_several_stops_one_ends_the_turn(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("go")
    led.asked()
    replies = [turn.abort(), turn.abort(keep=True), turn.abort()]

    assert [each.result(WAIT) for each in replies] == [True, False, False]
    assert [e.topic for e in session.events()].count("turn_aborted") == 1


def test_inputs_that_wait_run_next_in_the_order_they_were_accepted(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("go")
    assert led.asked().show("Hel")
    following = [
        session.send("one", policy="wait"),
        session.send("two", policy="steer"),
        session.send("three", policy="queue"),
    ]
    for each in following:
        each.accepted().result(WAIT)
    assert turn.abort().result(WAIT) is True

    heard: list[str] = []
    for each, text in zip(following, ["one", "two", "three"], strict=True):
        asked = led.asked()
        heard.append(text)
        assert said(asked.request.messages) == heard
        asked.answer(text.upper())
        heard.append(text.upper())
        assert each.result(WAIT).finish_reason == "stop"
    assert said(session.messages) == heard


def test_everybody_who_joined_gets_the_result_of_the_stopped_turn(
    run: Run, led: Any, held: Any
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    turn = session.send("go")
    asked = led.asked()
    joined = session.send("and", policy="queue")
    joined.accepted().result(WAIT)
    held.let("a")
    asked.answer([call("held", "a", text="a")])
    assert said(led.asked().request.messages)[-1] == "and"

    assert joined.abort().result(WAIT) is True, "any of its handles stops a turn"
    assert turn.result(WAIT).finish_reason == "aborted"
    assert joined.result(WAIT) is turn.result(WAIT)
    assert [each.type for each in joined.stream()] == ["turn.done"]
    assert list(session.messages) == []


def test_a_resumed_turn_is_stopped_by_the_handle_of_whoever_resumed_it(run: Run, led: Any) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    failed(led, session)
    resumed = session.resume()
    led.asked()

    assert resumed is not None and resumed.abort().result(WAIT) is True
    assert resumed.result(WAIT).finish_reason == "aborted"
    assert session.pending() is None


def test_a_tool_may_stop_the_turn_it_runs_in(run: Run, led: Any) -> None:
    turns: list[Turn] = []

    @tool
    async def stop() -> None:
        turns[0].abort()
        await asyncio.Event().wait()

    session = run([], model=led, tools=[stop]).session("s")
    turns.append(session.send("go"))
    led.asked().answer([call("stop")])

    assert turns[0].result(WAIT).finish_reason == "aborted"
    following = session.send("next")
    led.asked().answer("fine")
    assert following.result(WAIT).text == "fine"


def test_async_callers_await_the_reply(store: str, led: Any) -> None:
    async def main() -> None:
        async with ActorSystem(Agent("agent", model=led), store=store) as system:
            turn = system.session("s").send("go")
            await asyncio.to_thread(led.asked)
            assert await asyncio.wait_for(turn.abort(), WAIT) is True
            assert (await turn).finish_reason == "aborted"
            assert await turn.abort() is False

    asyncio.run(main())
