"""A turn that was stopped and kept: it rests until somebody goes on with it, or drops it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, Session, Turn
from turnstream.actors.testing import call, said
from turnstream.events import (
    EncodedEvent,
    ModelFailed,
    ToolMessage,
    ToolResultRecorded,
    TurnAborted,
)
from turnstream.stores import Append, MemoryStore, RowChange

WAIT = 20
Run = Callable[..., ActorSystem]


def resuming(session: Session) -> Turn:
    turn = session.resume()
    assert turn is not None
    return turn


class GoingOn(NamedTuple):
    """A way to go on: the last thing the kept turn's model hears then, and how many answers
    are wanted until the caller has his."""

    go_on: Callable[[Session], Turn]
    heard: str
    answers: int


WAYS = {
    "resume": GoingOn(resuming, "c", 1),
    "execute": GoingOn(lambda session: session.execute("more"), "more", 1),
    "send": GoingOn(lambda session: session.send("more", policy="wait"), "c", 2),
    "queue": GoingOn(lambda session: session.send("more", policy="queue"), "more", 1),
}


def stopped(session: Session, led: Any) -> Turn:
    """A turn that is stopped and kept while the model is silent."""
    turn = session.send("go")
    led.asked()
    assert turn.abort(keep=True).result(WAIT) is True
    return turn


def stopped_in_a_batch(session: Session, led: Any, held: Any) -> Turn:
    """A turn that is kept with a result, a cancelled call and one that was not started."""
    turn = session.send("go")
    held.let("a")
    led.asked().answer([call("held", each, text=each) for each in "abc"])
    held.begun("b")
    assert turn.abort(keep=True).result(WAIT) is True
    return turn


def outcomes(session: Session) -> list[tuple[str, str]]:
    events = [each.event for each in session.events()]
    return [(e.call_id, e.outcome) for e in events if isinstance(e, ToolResultRecorded)]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_was_not_started_runs_and_the_model_sees_what_was_cancelled(
    run: Run, led: Any, held: Any, way: GoingOn
) -> None:
    session = run([], model=led, tools=held.tools, tool_concurrency=1).session("s")
    stopped_in_a_batch(session, led, held)
    held.let("c")
    turn = way.go_on(session)

    asked = led.asked()
    assert (asked.request.turn_id, asked.request.step) == ("turn-1", 2)
    results = [m for m in asked.request.messages if isinstance(m, ToolMessage)]
    assert [(m.call_id, m.outcome) for m in results] == [
        ("a", "ok"),
        ("b", "cancelled"),
        ("c", "ok"),
    ]
    assert said(asked.request.messages)[-1] == way.heard
    assert not held.ran("b"), "a call that was cancelled is not run again"
    asked.answer("done")
    for _ in range(way.answers - 1):
        led.asked().answer("done")
    assert turn.result(WAIT).text == "done"
    assert outcomes(session) == [("a", "ok"), ("b", "cancelled"), ("c", "ok")]


def test_an_input_of_its_own_turn_comes_after_the_kept_one(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    stopped(session, led)
    turn = session.send("more")
    led.asked().answer("one")
    asked = led.asked()
    asked.answer("two")

    assert said(asked.request.messages) == ["go", "one", "more"]
    assert said(turn.result(WAIT).new_messages) == ["more", "two"]
    assert session.status == "idle"


def test_the_model_is_asked_again_for_the_step_it_was_stopped_in(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    stopped(session, led)
    turn = resuming(session)
    asked = led.asked()

    assert said(asked.request.messages) == ["go"] and asked.request.step == 1
    asked.answer("done")
    result = turn.result(WAIT)
    assert (result.text, result.finish_reason, result.steps) == ("done", "stop", 1)
    assert said(session.messages) == ["go", "done"]
    assert session.pending() is None


def test_the_stream_of_a_resumed_turn_shows_what_follows(run: Run, led: Any, held: Any) -> None:
    session = run([], model=led, tools=held.tools, tool_concurrency=1).session("s")
    turn = stopped_in_a_batch(session, led, held)
    before: list[Any] = list(turn.stream())
    held.let("c")
    resumed = resuming(session)
    led.asked().answer("done")

    items: list[Any] = list(resumed.stream())
    assert [each.type for each in items] == [
        "turn.started",
        "tool.started",
        "tool.result",
        "model.turn",
        "turn.done",
    ]
    assert (items[-1].finish_reason, before[-1].finish_reason) == ("stop", "aborted")
    assert list(turn.stream()) == before


def test_a_turn_at_its_limit_ends_when_it_is_resumed(run: Run, led: Any, held: Any) -> None:
    session = run([], model=led, tools=held.tools, max_steps=1).session("s")
    turn = session.send("go")
    led.asked().answer([call("held", "a", text="a")])
    held.begun("a")
    assert turn.abort(keep=True).result(WAIT) is True
    result = resuming(session).result(WAIT)

    assert (result.finish_reason, result.steps) == ("max-steps", 1)
    assert outcomes(session) == [("a", "cancelled")] and len(led.requests) == 1


def test_a_turn_may_be_stopped_and_resumed_again_and_again(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    stopped(session, led)
    for _ in range(3):
        turn = resuming(session)
        led.asked()
        assert turn.abort(keep=True).result(WAIT) is True
        assert turn.result(WAIT).finish_reason == "aborted"
        assert session.status == "aborted"
    turn = resuming(session)
    led.asked().answer("done")

    assert turn.result(WAIT).text == "done"
    assert said(session.messages) == ["go", "done"]


def test_inputs_that_wait_go_on_waiting_until_somebody_goes_on(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("go")
    asked = led.asked()
    assert asked.show("Hel")
    waiting, queued = session.send("later"), session.send("and", policy="queue")
    for each in (waiting, queued):
        each.accepted().result(WAIT)
    assert turn.abort(keep=True).result(WAIT) is True
    version = session.version

    pending = session.pending()
    assert pending is not None and pending.queued == ("later", "and")
    assert session.status == "aborted"
    assert not (waiting.done() or queued.done())
    assert (session.version, len(led.requests)) == (version, 1)

    resumed = resuming(session)
    asked = led.asked()
    assert said(asked.request.messages) == ["go", "and"]
    asked.answer("one")
    assert queued.result(WAIT) is resumed.result(WAIT)
    asked = led.asked()
    assert said(asked.request.messages) == ["go", "and", "one", "later"]
    asked.answer("two")
    assert waiting.result(WAIT).text == "two"


def test_inputs_that_wait_run_next_once_the_kept_turn_is_dropped(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("go")
    assert led.asked().show("Hel")
    following = [session.send("one"), session.send("two", policy="queue")]
    for each in following:
        each.accepted().result(WAIT)
    turn.abort(keep=True).result(WAIT)
    assert session.discard_pending().result(WAIT) is True

    led.asked().answer("1")
    led.asked().answer("2")
    assert [each.result(WAIT).text for each in following] == ["1", "2"]
    assert said(session.messages) == ["one", "1", "two", "2"]


def test_one_that_waits_can_be_taken_back_while_the_turn_rests(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("go")
    led.asked()
    waiting = session.send("later")
    turn.abort(keep=True).result(WAIT)
    assert waiting.withdraw().result(WAIT) is True

    resumed = resuming(session)
    led.asked().answer("done")
    assert resumed.result(WAIT).text == "done"
    assert said(session.messages) == ["go", "done"]


def test_resume_all_leaves_a_turn_alone_that_was_stopped_on_purpose(run: Run, led: Any) -> None:
    system = run([], model=led)
    session = system.session("s")
    stopped(session, led)
    before = session.version

    assert list(system.resume_all()) == []
    assert (session.version, session.status) == (before, "aborted")
    assert [row.session_id for row in system.sessions(status="aborted")] == ["s"]


@on_durable_stores
def test_a_kept_turn_outlives_its_process(run: Run, led: Any, held: Any, store: str) -> None:
    system = run([], model=led, tools=held.tools, on=store, tool_concurrency=1)
    stopped_in_a_batch(system.session("s"), led, held)
    system.close()

    later = run([], model=led, tools=held.tools, on=store, tool_concurrency=1)
    session = later.session("s")
    pending = session.pending()
    assert session.status == "aborted"
    assert pending is not None and [each.id for each in pending.calls] == ["c"]
    assert list(later.resume_all()) == []
    held.let("c")
    turn = resuming(session)
    led.asked().answer("done")
    assert turn.result(WAIT).text == "done"
    assert outcomes(session) == [("a", "ok"), ("b", "cancelled"), ("c", "ok")]


def test_dropping_a_kept_turn_settles_what_was_not_started(run: Run, led: Any, held: Any) -> None:
    session = run([], model=led, tools=held.tools, tool_concurrency=1).session("s")
    stopped_in_a_batch(session, led, held)
    assert session.discard_pending().result(WAIT) is True

    assert outcomes(session) == [("a", "ok"), ("b", "cancelled"), ("c", "skipped")]
    assert session.pending() is None and session.status == "idle"
    assert list(session.messages) == [] and not held.ran("c")


def test_dropping_the_turn_that_runs_stops_it(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("go")
    asked = led.asked()

    assert session.discard_pending().result(WAIT) is True
    assert turn.result(WAIT).finish_reason == "aborted"
    assert asked.cancelled.wait(WAIT)
    assert session.pending() is None


def test_dropping_a_failed_turn_lets_the_next_input_begin_afresh(run: Run, led: Any) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    turn = session.send("go")
    led.asked().fail(ConnectionError("down"))
    with pytest.raises(ModelFailed):
        turn.result(WAIT)

    assert session.discard_pending().result(WAIT) is True
    following = session.send("next")
    asked = led.asked()
    assert said(asked.request.messages) == ["next"]
    asked.answer("fine")
    assert following.result(WAIT).text == "fine"


def test_where_nothing_is_unfinished_dropping_it_changes_nothing(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("go")
    led.asked().answer("done")
    turn.result(WAIT)
    version = session.version

    assert session.discard_pending().result(WAIT) is False
    assert session.version == version
    assert said(session.messages) == ["go", "done"]


def test_dropping_what_a_lost_process_left_settles_its_calls_without_running_them(
    run: Run, led: Any, held: Any
) -> None:
    lost, found = MemoryStore(), MemoryStore()
    session = run([], model=led, tools=held.tools, on=lost, tool_concurrency=1).session("s")
    session.send("go")
    led.asked().answer([call("held", each, text=each) for each in "ab"])
    held.begun("a")
    copied(lost, found)

    agent = Agent("agent", model=led, tools=held.tools)
    with ActorSystem(agent, store=found) as system:
        after_the_crash = system.session("s")
        assert after_the_crash.discard_pending().result(WAIT) is True
        assert outcomes(after_the_crash) == [("a", "cancelled"), ("b", "skipped")]
        assert isinstance(after_the_crash.events()[-1].event, TurnAborted)
        assert after_the_crash.pending() is None and list(after_the_crash.messages) == []
        assert not (held.ran("a") or held.ran("b"))
        turn = after_the_crash.send("next")
        asked = led.asked()
        assert said(asked.request.messages) == ["next"]
        asked.answer("fine")
        assert turn.result(WAIT).text == "fine"


def copied(lost: MemoryStore, found: MemoryStore) -> None:
    """What a store holds, as a process that starts later finds it."""
    events = tuple(EncodedEvent(each.topic, each.payload) for each in lost.read("s"))
    row = RowChange("running", "agent", datetime.now(UTC))
    found.next_generation()
    found.append(Append("s", 0, events, row))
