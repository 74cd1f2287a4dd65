"""Inputs that come while a turn runs: they wait, join it, or steer it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest
from places import on_files_too
from sending import JOINING, POLICIES, events, send

from turnstream.actors import ActorSystem, ModelRequest, Session
from turnstream.actors.testing import call, said
from turnstream.events import (
    InputApplied,
    InputQueued,
    InputWithdrawn,
    ModelCallDiscarded,
    ModelFailed,
    ModelTurn,
    ToolMessage,
    ToolResultRecorded,
    TurnResumed,
    TurnStarted,
)

pytestmark = on_files_too

WAIT = 20
Run = Callable[..., ActorSystem]


def outcomes(session: Session) -> dict[str, str]:
    return {each.call_id: each.outcome for each in events(session, ToolResultRecorded)}


@pytest.mark.parametrize("policy", ["wait", "queue"])
def test_a_model_call_under_way_goes_on_when_an_input_does_not_steer(
    run: Run, led: Any, policy: Any
) -> None:
    session = run([], model=led).session("s")
    turn, asked = session.send("a"), led.asked()
    other = send(session, "b", policy)
    asked.answer("one")

    assert turn.result(WAIT).text == "one"
    led.asked().answer("two")
    assert other.result(WAIT).text == "two"
    assert said(led.requests[1].messages) == ["a", "one", "b"]
    assert not events(session, ModelCallDiscarded, InputApplied)


def test_steering_asks_the_model_again_while_it_has_shown_nothing(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn, asked = session.send("a"), led.asked()
    joined = session.send("b", policy="steer")
    again = led.asked()
    again.answer("to both")

    assert asked.cancelled.wait(WAIT)
    assert said(again.request.messages) == ["a", "b"] and again.request.step == 1
    assert turn.result(WAIT) is joined.result(WAIT)
    assert said(turn.result(WAIT).new_messages) == ["a", "b", "to both"]
    assert turn.result(WAIT).steps == 1
    happened = [each.event for each in session.events()]
    place = happened.index(events(session, InputQueued)[1])
    assert [type(each) for each in happened[place : place + 3]] == [
        InputQueued,
        ModelCallDiscarded,
        InputApplied,
    ]
    assert happened[place + 1].reason == "steered"


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_a_function_has_shown_nothing_until_it_returns(run: Run, kind: str) -> None:
    asked: SimpleQueue[ModelRequest] = SimpleQueue()
    late = Event()

    def function(request: ModelRequest) -> str:
        asked.put(request)
        if len(request.messages) == 1:
            late.wait(WAIT)
        return f"after {said(request.messages)[-1]}"

    async def coroutine(request: ModelRequest) -> str:
        asked.put(request)
        if len(request.messages) == 1:
            await asyncio.Event().wait()
        return f"after {said(request.messages)[-1]}"

    model = function if kind == "function" else coroutine
    session = run([], model=model).session("s")
    turn = session.send("a")
    asked.get(timeout=WAIT)
    session.send("b", policy="steer")

    assert said(asked.get(timeout=WAIT).messages) == ["a", "b"]
    late.set()
    assert turn.result(WAIT).text == "after b"
    assert said(session.messages) == ["a", "b", "after b"]


def test_each_steering_input_asks_the_model_again_with_all_of_them(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    session.send("a")
    led.asked()
    for place, text in enumerate("bcd"):
        send(session, text, "steer")
        assert said(led.asked().request.messages) == ["a", *"bcd"[: place + 1]]

    assert len(events(session, ModelCallDiscarded)) == 3


def test_a_steering_input_brings_the_queued_ones_before_it_along(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn, _ = session.send("a"), led.asked()
    others = [send(session, text, policy) for text, policy in (("b", "queue"), ("c", "steer"))]
    again = led.asked()
    again.answer("to all")

    assert said(again.request.messages) == ["a", "b", "c"]
    assert all(each.result(WAIT) is turn.result(WAIT) for each in others)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_model_call_that_showed_something_is_never_cancelled(
    run: Run, led: Any, policy: Any
) -> None:
    session = run([], model=led).session("s")
    turn, asked = session.send("a"), led.asked()
    asked.show("on")
    other = send(session, "b", policy)
    asked.show("e")
    asked.answer("one")

    assert turn.result(WAIT).text == "one" and not asked.cancelled.is_set()
    led.asked().answer("two")
    assert said(other.result(WAIT).new_messages) == ["b", "two"]
    deltas = [item.text for item in turn.stream() if item.type == "text.delta"]
    assert deltas == ["on", "e"]


@pytest.mark.parametrize(
    ("policy", "outcome"), [("wait", "ok"), ("queue", "ok"), ("steer", "skipped")]
)
def test_an_input_that_came_after_a_delta_is_heeded_at_the_next_safe_point(
    run: Run, led: Any, held: Any, policy: Any, outcome: str
) -> None:
    """Calls asked for while a steering input waits are not run: the model is to think again."""
    session = run([], model=led, tools=held.tools).session("s")
    session.send("a")
    asked = led.asked()
    asked.show("let me see")
    send(session, "b", policy)
    held.let("x")
    asked.answer([call("held", id="1", text="x"), call("held_sync", id="2", text="x")])

    messages = led.asked().request.messages
    assert outcomes(session) == {"1": outcome, "2": outcome}
    assert held.ran("x") == (outcome == "ok")
    assert said(messages)[4:] == ([] if policy == "wait" else ["b"])


@pytest.mark.parametrize("policy", POLICIES)
def test_calls_that_run_finish_and_then_the_input_joins_unless_it_waits(
    run: Run, led: Any, held: Any, policy: Any
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    turn = session.send("a")
    led.asked().answer([call("held", text="x"), call("held_sync", text="y")])
    held.begun("x")
    held.begun("y")
    other = send(session, "b", policy)
    assert not events(session, InputApplied)
    for text in "yx":
        held.let(text)
    second = led.asked()

    expected = ["a", "", "x", "y"] if policy == "wait" else ["a", "", "x", "y", "b"]
    assert said(second.request.messages) == expected
    assert set(outcomes(session).values()) == {"ok"}
    second.answer("one")
    if policy == "wait":
        led.asked().answer("two")
    assert (other.result(WAIT) is turn.result(WAIT)) == (policy != "wait")
    assert other.result(WAIT).text == ("two" if policy == "wait" else "one")
    assert said(session.messages)[4:6] == (["one", "b"] if policy == "wait" else ["b", "one"])


@pytest.mark.parametrize(
    ("policy", "outcome"), [("wait", "ok"), ("queue", "ok"), ("steer", "skipped")]
)
def test_calls_not_started_are_skipped_by_a_steering_input_and_run_otherwise(
    run: Run, led: Any, held: Any, policy: Any, outcome: str
) -> None:
    session = run([], model=led, tools=held.tools, tool_concurrency=1).session("s")
    session.send("a")
    led.asked().answer([call("held", id=each, text=each) for each in "123"])
    held.begun("1")
    send(session, "b", policy)
    for each in "321":
        held.let(each)
    messages = led.asked().request.messages

    assert outcomes(session) == {"1": "ok", "2": outcome, "3": outcome}
    assert [held.ran(each) for each in "23"] == [outcome == "ok"] * 2
    results = [each for each in messages if isinstance(each, ToolMessage)]
    assert [each.call_id for each in results] == ["1", "2", "3"]
    assert said(messages)[5:] == ([] if policy == "wait" else ["b"])


def test_several_inputs_join_together_each_an_entry_of_its_own(
    run: Run, led: Any, held: Any
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    turn = session.send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    policies = {"b": "queue", "c": "steer", "d": "wait", "e": "queue", "f": "steer"}
    others = {text: send(session, text, policy) for text, policy in policies.items()}
    held.let("x")
    second = led.asked()
    second.answer("one")
    led.asked().answer("two")

    assert said(second.request.messages) == ["a", "", "x", "b", "c", "e", "f"]
    assert said(others["d"].result(WAIT).new_messages) == ["d", "two"]
    assert all(others[each].result(WAIT) is turn.result(WAIT) for each in "bcef")
    assert [each.input_id for each in events(session, InputApplied)] == [
        others[each].input_id for each in "bcef"
    ]
    steps = [each.step for each in led.requests]
    assert steps == [1, 2, 1], "they cost one model call"


@pytest.mark.parametrize("policy", JOINING)
def test_a_joined_handle_streams_its_end_only_and_the_starter_all_items(
    run: Run, led: Any, held: Any, policy: Any
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    turn = session.send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    joined = send(session, "b", policy)
    held.let("x")
    led.asked().answer("done")

    (item,) = joined.stream()
    assert (item.type, item.result) == ("turn.done", turn.result(WAIT))
    items = list(turn.stream())
    assert [each.type for each in items] == [
        "turn.started",
        "model.turn",
        "tool.started",
        "input.queued",
        "tool.result",
        "input.applied",
        "model.turn",
        "turn.done",
    ]
    assert {items[3].input_id, items[5].input_id} == {joined.input_id}
    recorded = {each.version: each.event for each in session.events()}
    assert isinstance(recorded[items[3].version], InputQueued)
    assert isinstance(recorded[items[5].version], InputApplied)
    assert items[3].policy == policy


@pytest.mark.parametrize("policy", JOINING)
def test_inputs_to_a_turn_that_fails_share_its_error_and_join_when_it_is_resumed(
    run: Run, led: Any, policy: Any
) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    turn, asked = session.send("a"), led.asked()
    asked.show("on")
    others = [send(session, text, policy) for text in "bc"]
    asked.fail(ConnectionError("down"))

    with pytest.raises(ModelFailed, match="down") as failure:
        turn.result(WAIT)
    for each in others:
        with pytest.raises(ModelFailed) as shared:
            each.result(WAIT)
        assert shared.value is failure.value
    pending = session.pending()
    assert pending is not None and pending.queued == ("b", "c")
    resumed = session.resume()
    led.asked().answer("done")
    assert resumed is not None
    assert said(resumed.result(WAIT).new_messages) == ["a", "b", "c", "done"]
    assert len(events(session, TurnStarted)) == 1 and session.pending() is None


def test_an_input_that_waits_behind_a_failed_turn_has_it_tried_again(run: Run, led: Any) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    turn, asked = session.send("a"), led.asked()
    waiting, queued = send(session, "b", "wait"), send(session, "c", "queue")
    asked.fail(ConnectionError("down"))
    led.asked().answer("one")
    led.asked().answer("two")

    for each in (turn, queued):
        with pytest.raises(ModelFailed):
            each.result(WAIT)
    assert said(waiting.result(WAIT).messages) == ["a", "c", "one", "b", "two"]


def test_an_input_that_joined_is_no_reason_to_try_a_later_turn_again(run: Run, led: Any) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    turn, _ = session.send("a"), led.asked()
    joined = send(session, "b", "steer")
    led.asked().answer("done")
    assert joined.result(WAIT) is turn.result(WAIT)
    later = session.send("c")
    led.asked().fail(ConnectionError("down"))

    with pytest.raises(ModelFailed):
        later.result(WAIT)
    assert session.status == "failed" and len(led.requests) == 3


def test_inputs_to_a_turn_that_fails_and_is_dropped_go_with_it(run: Run, led: Any) -> None:
    session = run([], model=led, on_failure="drop").session("s")
    turn, asked = session.send("a"), led.asked()
    asked.show("on")
    joining = [send(session, text, policy) for text, policy in zip("bc", JOINING, strict=True)]
    waiting = send(session, "d", "wait")
    asked.fail(ConnectionError("down"))
    led.asked().answer("to d")

    with pytest.raises(ModelFailed) as failure:
        turn.result(WAIT)
    for each in joining:
        with pytest.raises(ModelFailed) as shared:
            each.result(WAIT)
        assert shared.value is failure.value
    assert said(waiting.result(WAIT).messages) == ["d", "to d"]
    withdrawn = [each.input_id for each in events(session, InputWithdrawn)]
    assert withdrawn == [each.input_id for each in joining]


@pytest.mark.parametrize("policy", POLICIES)
def test_an_input_to_a_failed_turn_resumes_it_and_joins_unless_it_waits(
    run: Run, led: Any, policy: Any
) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    turn = session.send("a")
    led.asked().fail(ConnectionError("down"))
    with pytest.raises(ModelFailed):
        turn.result(WAIT)
    other = session.send("b", policy=policy)
    asked = led.asked()
    asked.answer("one")
    if policy == "wait":
        led.asked().answer("two")

    assert said(asked.request.messages) == (["a"] if policy == "wait" else ["a", "b"])
    assert other.result(WAIT).text == ("two" if policy == "wait" else "one")
    assert len(events(session, TurnResumed)) == 1
    assert len(events(session, TurnStarted)) == (2 if policy == "wait" else 1)


@pytest.mark.parametrize(("policy", "outcome"), [("queue", "ok"), ("steer", "skipped")])
def test_an_input_to_a_stopped_turn_goes_on_with_it_and_its_calls(
    run: Run, led: Any, held: Any, policy: Any, outcome: str
) -> None:
    session = run([], model=led, tools=held.tools, tool_concurrency=1).session("s")
    turn = session.send("a")
    led.asked().answer([call("held", id=each, text=each) for each in "12"])
    held.begun("1")
    assert turn.abort(keep=True).result(WAIT) is True
    held.let("2")
    joined = session.send("b", policy=policy)
    asked = led.asked()
    asked.answer(ModelTurn("done"))

    assert said(asked.request.messages)[4:] == ["b"]
    assert outcomes(session) == {"1": "cancelled", "2": outcome}
    assert held.ran("2") == (outcome == "ok")
    assert joined.result(WAIT).text == "done"
    assert turn.result(WAIT).finish_reason == "aborted"
