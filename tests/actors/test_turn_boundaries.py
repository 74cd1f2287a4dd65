"""Inputs that come as a turn ends, or that it can't take any more: none is lost or used twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
from places import on_durable_stores
from sending import JOINING, at_once, events, send

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, tool
from turnstream.actors.testing import call, crash_points, said
from turnstream.events import (
    CODEC,
    InputApplied,
    InputQueued,
    ModelFailed,
    ModelTurn,
    SessionEvent,
    SystemClosed,
    ToolMessage,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
    UserMessage,
)
from turnstream.stores import Append, EventStore, RowChange, open_store

WAIT = 20
Run = Callable[..., ActorSystem]


def inputs(session: Session) -> list[str]:
    return [str(each.content) for each in session.messages if isinstance(each, UserMessage)]


def test_inputs_that_miss_the_turn_run_one_by_one_in_the_order_they_came(
    run: Run, led: Any
) -> None:
    session = run([], model=led).session("s")
    turn, asked = session.send("a"), led.asked()
    asked.show("on")
    policies = {"b": "queue", "c": "wait", "d": "steer", "e": "queue"}
    others = [send(session, text, policy) for text, policy in policies.items()]
    asked.answer("to a")
    for text in policies:
        led.asked().answer(f"to {text}")

    results = [each.result(WAIT) for each in (turn, *others)]
    assert [said(each.new_messages) for each in results] == [
        [text, f"to {text}"] for text in "abcde"
    ]
    assert not events(session, InputApplied)


def test_inputs_that_miss_a_stopped_turn_run_one_by_one(run: Run, led: Any, held: Any) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    turn = session.send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    others = [send(session, text, policy) for text, policy in (("b", "steer"), ("c", "queue"))]
    assert turn.abort().result(WAIT) is True
    for text in "bc":
        led.asked().answer(f"to {text}")

    assert turn.result(WAIT).finish_reason == "aborted"
    assert [said(each.result(WAIT).new_messages) for each in others] == [
        ["b", "to b"],
        ["c", "to c"],
    ]
    assert said(session.messages) == ["b", "to b", "c", "to c"]


def test_an_input_that_joins_takes_those_along_that_missed_their_turn_before_it(
    run: Run, led: Any, held: Any
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    stranded = strand(session, led, b="queue", c="queue", d="wait", e="steer")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    last = send(session, "f", "queue")
    held.let("x")
    second = led.asked()
    second.answer("to all")
    led.asked().answer("to d")

    assert said(second.request.messages) == ["a", "to a", "b", "", "x", "c", "e", "f"]
    assert all(stranded[each].result(WAIT) is last.result(WAIT) for each in "bce")
    assert said(stranded["d"].result(WAIT).new_messages) == ["d", "to d"]


def test_a_steering_input_that_missed_its_turn_leaves_the_next_ones_calls_alone(
    run: Run, led: Any, held: Any
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    stranded = strand(session, led, b="wait", c="steer")
    held.let("x")
    led.asked().answer([call("held", text="x")])
    second = led.asked()
    second.answer("to b")
    led.asked().answer("to c")

    assert said(second.request.messages) == ["a", "to a", "b", "", "x"]
    assert stranded["c"].result(WAIT).text == "to c" and held.ran("x")


def test_an_input_that_missed_its_turn_does_not_fail_with_the_next_one(run: Run, led: Any) -> None:
    session = run([], model=led, on_failure="drop").session("s")
    stranded = strand(session, led, b="queue", c="queue")
    asked = led.asked()
    asked.show("on")
    own = send(session, "d", "queue")
    asked.fail(ConnectionError("down"))
    led.asked().answer("to c")

    for each in (stranded["b"], own):
        with pytest.raises(ModelFailed):
            each.result(WAIT)
    assert said(stranded["c"].result(WAIT).messages) == ["a", "to a", "c", "to c"]


def test_an_input_that_missed_its_turn_has_the_next_one_tried_again_and_joins_what_met_it(
    run: Run, led: Any
) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    stranded = strand(session, led, b="queue", c="queue")
    asked = led.asked()
    asked.show("on")
    own = send(session, "d", "queue")
    asked.fail(ConnectionError("down"))
    again = led.asked()
    again.answer("to all")

    for each in (stranded["b"], own):
        with pytest.raises(ModelFailed):
            each.result(WAIT)
    assert stranded["c"].result(WAIT).text == "to all"
    assert said(again.request.messages) == ["a", "to a", "b", "c", "d"]


def strand(session: Session, led: Any, **policies: str) -> dict[str, Any]:
    """A turn that these inputs missed: they wait, the first of them as the next turn."""
    session.send("a")
    asked = led.asked()
    asked.show("on")
    turns = {text: send(session, text, policy) for text, policy in policies.items()}
    asked.answer("to a")
    return turns


@pytest.mark.parametrize("policy", JOINING)
def test_an_input_at_the_step_limit_runs_as_the_next_turn_with_a_fresh_budget(
    run: Run, led: Any, held: Any, policy: str
) -> None:
    session = run([], model=led, tools=held.tools, max_steps=1).session("s")
    turn = session.send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    other = send(session, "b", policy)
    held.let("x")
    second = led.asked()
    second.answer("to b")

    assert turn.result(WAIT).finish_reason == "max-steps"
    assert said(second.request.messages) == ["a", "", "x", "b"] and second.request.step == 1
    assert (other.result(WAIT).finish_reason, other.result(WAIT).steps) == ("stop", 1)
    assert [type(each) for each in events(session, TurnFinished, InputApplied)] == [
        TurnFinished,
        TurnFinished,
    ]


def test_a_model_call_that_was_steered_away_costs_no_step(run: Run, led: Any) -> None:
    session = run([], model=led, max_steps=1).session("s")
    turn, asked = session.send("a"), led.asked()
    for text in "bcd":
        send(session, text, "steer")
        asked = led.asked()
    asked.answer("to all")

    assert (turn.result(WAIT).finish_reason, turn.result(WAIT).steps) == ("stop", 1)


def test_an_input_sent_from_the_last_tool_call_is_answered(run: Run) -> None:
    handles: list[Any] = []

    @tool
    def enqueue() -> str:
        """Send an input to the session that runs this."""
        if not handles:
            handles.append(session.send("b", policy="queue"))
        return "sent"

    def model(request: ModelRequest) -> ModelTurn:
        if isinstance(request.messages[-1], UserMessage):
            return ModelTurn(tool_calls=(call("enqueue"),))
        return ModelTurn("done")

    session = run([], model=model, tools=[enqueue], max_steps=1).session("s")
    assert session.send("a").result(WAIT).finish_reason == "max-steps"
    assert handles[0].result(WAIT).finish_reason == "max-steps"
    assert inputs(session) == ["a", "b"]


@pytest.mark.parametrize("policy", ["wait", "queue", "steer"])
def test_an_input_sent_as_the_turn_ends_is_used_once_and_answered(
    run: Run, led: Any, switching_often: None, policy: Any
) -> None:
    system = run([], model=led)
    for place in range(100):
        session = system.session(f"s{place}")
        turn, asked = session.send("a"), led.asked()
        _, other = at_once(
            lambda asked=asked: asked.answer("one"),
            lambda session=session: session.send("b", policy=policy),
        )
        led.asked().answer("two")

        assert other.result(WAIT).text == "two"
        assert turn.result(WAIT).text in ("one", "two")
        assert inputs(session) == ["a", "b"] and session.status == "idle"
        assert (turn.result(WAIT) is other.result(WAIT)) == bool(events(session, InputApplied))


@pytest.mark.slow
def test_a_delta_and_a_steering_input_at_one_moment_have_one_winner(
    run: Run, led: Any, switching_often: None
) -> None:
    """Either the call was cancelled and nobody sees a delta of it, or it goes on to its end."""
    system = run([], model=led)
    for place in range(100):
        session = system.session(f"s{place}")
        turn, asked = session.send("a"), led.asked()
        _, other = at_once(
            lambda asked=asked: asked.show("of the first"),
            lambda session=session: send(session, "b", "steer"),
        )
        asked.answer("one")
        led.asked().answer("two")

        assert other.result(WAIT).text == "two"
        shown = [item.text for item in turn.stream() if item.type == "text.delta"]
        if events(session, InputApplied):
            assert shown == [] and turn.result(WAIT) is other.result(WAIT)
        else:
            assert shown == ["of the first"] and turn.result(WAIT).text == "one"


def test_inputs_of_many_senders_are_each_used_once_and_joining_ones_in_order(
    run: Run, switching_often: None
) -> None:
    def model(request: ModelRequest) -> ModelTurn:
        last = request.messages[-1]
        if isinstance(last, ToolMessage) or sum(map(ord, said([last])[0])) % 3 == 0:
            return ModelTurn("done")
        return ModelTurn(tool_calls=(call("add", a=1, b=2),) * 2)

    session = run([], model=model).session("s")

    def sender(name: str) -> list[Any]:
        return [
            session.send(f"{name}{n}", policy=("queue", "steer", "queue", "wait")[n % 4])
            for n in range(20)
        ]

    turns = [each for sent in at_once(*(lambda n=n: sender(n) for n in "abcde")) for each in sent]
    for each in turns:
        each.result(WAIT)

    accepted = events(session, InputQueued)
    used = inputs(session)
    assert sorted(used) == sorted(each.content for each in accepted) and len(used) == 100
    joining = [each.content for each in accepted if each.policy != "wait"]
    assert [each for each in used if each in joining] == joining
    waiting = [each.content for each in accepted if each.policy == "wait"]
    assert [each for each in used if each in waiting] == waiting
    assert_one_turn_at_a_time(session)
    assert session.status == "idle" and session.pending() is None


def assert_one_turn_at_a_time(session: Session) -> None:
    bounds = events(session, TurnStarted, TurnFinished)
    assert len(bounds) % 2 == 0
    assert all(type(one) is not type(other) for one, other in pairwise(bounds))


def test_an_input_that_was_accepted_before_a_crash_is_used_once_wherever_it_came(
    led: Any, held: Any
) -> None:
    """Every prefix of a turn that was joined, and of the turns after it, resumed elsewhere."""
    recorded = recorded_turns(led, held)
    begun = next(i for i, each in enumerate(recorded) if isinstance(each, TurnStarted)) + 1
    for prefix in list(crash_points(recorded))[begun:]:
        accepted = [each for each in prefix if isinstance(each, InputQueued)]
        agent = Agent("agent", model=lambda request: "again", tools=held.tools)
        with closing(stored(prefix)) as store, ActorSystem(agent, store=store) as system:
            session = system.session("s")
            for turn in system.resume_all():
                turn.result(WAIT)
            session.send("z").result(WAIT)
            used = inputs(session)

        assert sorted(used) == sorted([*(each.content for each in accepted), "z"])
        joining = [each.content for each in accepted if each.policy != "wait"]
        assert [each for each in used if each in joining] == joining


def recorded_turns(led: Any, held: Any) -> Sequence[SessionEvent]:
    with ActorSystem(Agent("agent", model=led, tools=held.tools)) as system:
        session = system.session("s")
        turns = [session.send("a")]
        led.asked().answer([call("held", text="x"), call("held", text="y")])
        for text in "xy":
            held.begun(text)
        turns += [send(session, text, policy) for text, policy in zip("bc", JOINING, strict=True)]
        turns.append(send(session, "d", "wait"))
        for text in "xy":
            held.let(text)
        asked = led.asked()
        asked.show("on")
        turns += [send(session, text, policy) for text, policy in zip("ef", JOINING, strict=True)]
        asked.answer("one")
        for text in "def":
            led.asked().answer(f"to {text}")
        for turn in turns:
            turn.result(WAIT)
        assert inputs(session) == list("abcdef")
        recorded = [each.event for each in session.events()]
        return [each for each in recorded if not isinstance(each, UnknownEvent)]


def stored(prefix: Sequence[SessionEvent]) -> EventStore:
    store = open_store("memory://")
    store.next_generation()  # that of the node that was lost
    encoded, _ = CODEC.chained(prefix)
    store.append(Append("s", 0, encoded, RowChange("running", "agent", prefix[-1].at)))
    return store


@on_durable_stores
def test_an_input_that_waits_when_the_system_closes_joins_after_the_restart(
    run: Run, led: Any, held: Any, store: str
) -> None:
    system = run([], model=led, tools=held.tools, on=store)
    turn = system.session("s").send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    pairs = zip("bc", JOINING, strict=True)
    others = [send(system.session("s"), text, policy) for text, policy in pairs]
    assert system.close(timeout=0.1) is False
    for each in (turn, *others):
        with pytest.raises(SystemClosed):
            each.result(WAIT)

    held.let("x")
    again = run([], model=led, tools=held.tools, on=store)
    (resumed,) = again.resume_all()
    led.asked().answer("done")
    resumed.result(WAIT)
    assert said(again.session("s").messages)[3:] == ["b", "c", "done"]
