"""Which policy an input has, and the other ways to give one to a running or unfinished turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from places import on_durable_stores
from sending import events

from turnstream.actors import ActorSystem
from turnstream.actors.testing import call, said
from turnstream.events import (
    InputApplied,
    InputQueued,
    ModelFailed,
    SystemClosed,
    ToolCallStarted,
    TurnResumed,
    TurnStarted,
)

WAIT = 20
Run = Callable[..., ActorSystem]


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ((None, None, None), "wait"),
        (("queue", None, None), "queue"),
        (("queue", "steer", None), "steer"),
        (("queue", "steer", "wait"), "wait"),
        (("queue", None, "steer"), "steer"),
        ((None, "queue", None), "queue"),
        ((None, "queue", "steer"), "steer"),
        ((None, None, "queue"), "queue"),
    ],
)
def test_the_policy_of_the_call_counts_then_the_handles_then_the_systems(
    run: Run, led: Any, given: tuple[Any, Any, Any], counts: str
) -> None:
    of_system, of_session, of_call = given
    options = {"turn_policy": of_system} if of_system else {}
    session = run([], model=led, **options).session("s", turn_policy=of_session)
    session.send("a")
    led.asked().show("on")
    session.send("b", policy=of_call).accepted().result(WAIT)

    assert events(session, InputQueued)[1].policy == counts


def test_two_handles_on_one_session_may_have_different_policies(
    run: Run, led: Any, held: Any
) -> None:
    system = run([], model=led, tools=held.tools)
    waiting = system.session("s", turn_policy="wait")
    queueing = system.session("s", turn_policy="queue")
    waiting.send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    for session, text in ((waiting, "b"), (queueing, "c")):
        session.send(text).accepted().result(WAIT)
    held.let("x")

    assert said(led.asked().request.messages) == ["a", "", "x", "c"]


@pytest.mark.parametrize("policy", ["queue", "steer"])
def test_an_idle_session_starts_a_turn_whatever_the_policy(run: Run, led: Any, policy: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("a", policy=policy)
    led.asked().answer("one")

    assert turn.result(WAIT).text == "one"
    assert [each.type for each in turn.stream()] == ["turn.started", "model.turn", "turn.done"]
    assert not events(session, InputApplied)


def test_a_turn_can_be_steered_and_enqueued_to_by_its_handle(run: Run, led: Any, held: Any) -> None:
    session = run([], model=led, tools=held.tools, tool_concurrency=1).session("s")
    turn = session.send("a")
    led.asked().answer([call("held", text=each) for each in "xy"])
    held.begun("x")
    queued = turn.enqueue("b")
    steering = turn.steer("c")
    steering.accepted().result(WAIT)
    held.let("x")
    led.asked().answer("done")

    assert queued.result(WAIT) is steering.result(WAIT) is turn.result(WAIT)
    assert [each.policy for each in events(session, InputQueued)[1:]] == ["queue", "steer"]
    assert len(events(session, ToolCallStarted)) == 1
    assert said(session.messages)[4:] == ["b", "c", "done"]


def test_a_handle_whose_turn_ended_starts_the_next_turn(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("a")
    led.asked().answer("one")
    turn.result(WAIT)
    for text, add in (("b", turn.steer), ("c", turn.enqueue)):
        other = add(text)
        led.asked().answer(f"to {text}")
        assert said(other.result(WAIT).new_messages) == [text, f"to {text}"]


def test_execute_joins_a_running_turn(run: Run, led: Any, held: Any) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    turn = session.send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    joined = session.execute("b")
    joined.accepted().result(WAIT)
    held.let("x")
    led.asked().answer("done")

    assert joined.result(WAIT) is turn.result(WAIT)
    assert said(session.messages)[3:] == ["b", "done"]


def test_execute_goes_on_with_a_failed_turn_after_its_tool_results(
    run: Run, led: Any, held: Any
) -> None:
    session = run([], model=led, tools=held.tools, on_failure="keep").session("s")
    turn = session.send("a")
    led.asked().answer([call("held", text="x")])
    held.let("x")
    led.asked().fail(ConnectionError("down"))
    with pytest.raises(ModelFailed):
        turn.result(WAIT)
    other = session.execute("b")
    asked = led.asked()
    asked.answer("done")

    assert said(asked.request.messages) == ["a", "", "x", "b"]
    assert other.result(WAIT).text == "done"
    assert len(events(session, TurnStarted)) == len(events(session, TurnResumed)) == 1


@pytest.mark.parametrize("keep", ["failed", "aborted"])
def test_execute_with_what_an_interrupted_turn_began_with_is_a_retry(
    run: Run, led: Any, keep: str
) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    turn, asked = session.send("a"), led.asked()
    if keep == "failed":
        asked.fail(ConnectionError("down"))
        with pytest.raises(ModelFailed):
            turn.result(WAIT)
    else:
        turn.abort(keep=True).result(WAIT)
    retry = session.execute("a")
    led.asked().answer("one")

    assert said(retry.result(WAIT).messages) == ["a", "one"]
    assert len(events(session, InputQueued)) == 1
    assert retry.accepted().result(WAIT) == turn.input_id


def test_execute_with_nothing_unfinished_is_the_next_turn(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    for text in "aab":
        turn = session.execute(text)
        led.asked().answer(f"to {text}")
        assert said(turn.result(WAIT).new_messages) == [text, f"to {text}"]

    assert len(session.messages) == 6


def test_execute_with_a_key_used_before_is_the_same_input(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    first = session.execute("a", key="k")
    led.asked().answer("one")
    first.result(WAIT)

    for again in (session.execute("a", key="k"), session.send("a", key="k")):
        assert again.result(WAIT).turn_id == first.result(WAIT).turn_id
    assert len(led.requests) == 1 and len(session.messages) == 2


@on_durable_stores
def test_execute_goes_on_with_the_turn_of_a_process_that_is_gone(
    run: Run, led: Any, held: Any, store: str
) -> None:
    system = run([], model=led, tools=held.tools, on=store)
    turn = system.session("s").send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    system.close(timeout=0.05)
    with pytest.raises(SystemClosed):
        turn.result(WAIT)
    held.let("x")
    session = run([], model=led, tools=held.tools, on=store).session("s")
    other = session.execute("b")
    asked = led.asked()
    asked.answer("done")

    assert said(asked.request.messages)[3:] == ["b"]
    assert other.result(WAIT).text == "done"
    assert len(events(session, TurnStarted)) == 1
