"""An input can be taken back until it is used, and the reply tells which came first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sending import JOINING, POLICIES, at_once, events

from turnstream.actors import ActorSystem, Agent, Session
from turnstream.actors.testing import call, said
from turnstream.events import (
    InputApplied,
    InputWithdrawn,
    ModelFailed,
    TurnFinished,
    TurnStarted,
    TurnWithdrawn,
)

WAIT = 20
Run = Callable[..., ActorSystem]


@pytest.mark.parametrize("policy", POLICIES)
def test_an_input_that_waits_is_taken_back_and_its_handle_says_so(
    run: Run, led: Any, policy: Any
) -> None:
    session = run([], model=led).session("s")
    turn, asked = session.send("a"), led.asked()
    asked.show("on")
    other = session.send("b", policy=policy)
    assert other.accepted().result(WAIT) == other.input_id

    assert other.withdraw().result(WAIT) is True
    with pytest.raises(TurnWithdrawn) as withdrawn:
        other.result(WAIT)
    assert withdrawn.value.code == "turn-withdrawn" and withdrawn.value.session_id == "s"
    assert [item.type for item in other.stream()] == ["error", "turn.done"]
    assert [each.input_id for each in events(session, InputWithdrawn)] == [other.input_id]
    asked.answer("one")
    assert said(turn.result(WAIT).messages) == ["a", "one"]
    assert session.status == "idle" and session.pending() is None


@pytest.mark.parametrize("policy", JOINING)
def test_an_input_taken_back_while_tools_run_does_not_join(
    run: Run, led: Any, held: Any, policy: Any
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    session.send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    others = [session.send(text, policy=policy) for text in "bcd"]
    assert others[1].withdraw().result(WAIT) is True
    held.let("x")

    assert said(led.asked().request.messages) == ["a", "", "x", "b", "d"]


def test_an_input_can_be_taken_back_before_it_is_known_to_be_accepted(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn, asked = session.send("a"), led.asked()
    other = session.send("b")
    reply = other.withdraw()
    asked.answer("one")

    assert reply.result(WAIT) is True
    assert other.accepted().result(WAIT) == other.input_id
    turn.result(WAIT)
    assert said(session.messages) == ["a", "one"] and len(led.requests) == 1


def test_the_input_a_turn_began_with_can_not_be_taken_back(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn, asked = session.send("a"), led.asked()
    version = session.version

    assert turn.withdraw().result(WAIT) is False
    assert session.version == version and not asked.cancelled.is_set()
    asked.answer("one")
    assert turn.result(WAIT).text == "one"


@pytest.mark.parametrize("policy", JOINING)
def test_an_input_that_joined_can_not_be_taken_back(
    run: Run, led: Any, held: Any, policy: Any
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    turn = session.send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    joined = session.send("b", policy=policy)
    joined.accepted().result(WAIT)
    held.let("x")
    asked = led.asked()
    version = session.version

    assert joined.withdraw().result(WAIT) is False
    assert session.version == version and not asked.cancelled.is_set()
    asked.answer("one")
    assert joined.result(WAIT) is turn.result(WAIT)


def test_an_input_whose_turn_ended_can_not_be_taken_back(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("a")
    led.asked().answer("one")
    result = turn.result(WAIT)
    version = session.version

    assert turn.withdraw().result(WAIT) is False
    assert turn.result(WAIT) is result and session.version == version


def test_an_input_is_taken_back_once(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    session.send("a")
    led.asked()
    other = session.send("b")
    for _ in range(3):
        other.withdraw().result(WAIT)

    assert len(events(session, InputWithdrawn)) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_an_input_that_missed_its_turn_can_still_be_taken_back(
    run: Run, led: Any, policy: Any
) -> None:
    session = run([], model=led).session("s")
    session.send("a")
    first = led.asked()
    first.show("on")
    others = [session.send(text, policy=policy) for text in "bcd"]
    others[-1].accepted().result(WAIT)
    first.answer("one")
    second = led.asked()

    assert [each.withdraw().result(WAIT) for each in others[:2]] == [False, True]
    second.answer("two")
    led.asked().answer("three")
    assert others[2].result(WAIT).text == "three"
    assert said(session.messages) == ["a", "one", "b", "two", "d", "three"]


@pytest.mark.parametrize("policy", JOINING)
def test_an_input_that_a_failed_turn_left_behind_can_be_taken_back(
    run: Run, led: Any, policy: Any
) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    turn, asked = session.send("a"), led.asked()
    asked.show("on")
    other = session.send("b", policy=policy)
    other.accepted().result(WAIT)
    asked.fail(ConnectionError("down"))
    with pytest.raises(ModelFailed):
        turn.result(WAIT)

    assert other.withdraw().result(WAIT) is True
    with pytest.raises(ModelFailed):
        other.result(WAIT)
    resumed = session.resume()
    led.asked().answer("one")
    assert resumed is not None and said(resumed.result(WAIT).messages) == ["a", "one"]


def test_async_callers_await_the_reply(store: str, led: Any) -> None:
    async def main() -> None:
        async with ActorSystem(Agent("agent", model=led), store=store) as system:
            session = system.session("s")
            turn = session.send("a")
            asked = await asyncio.to_thread(led.asked)
            other = session.send("b")
            assert await other.withdraw() is True
            with pytest.raises(TurnWithdrawn):
                await other
            assert await turn.withdraw() is False
            asked.answer("one")
            assert (await turn).text == "one"

    asyncio.run(main())


@pytest.mark.parametrize("policy", JOINING)
def test_taking_an_input_back_as_it_joins_has_one_winner(
    run: Run, led: Any, held: Any, switching_often: None, policy: Any
) -> None:
    system = run([], model=led, tools=held.tools)
    for place in range(100):
        session = system.session(f"s{place}")
        turn = session.send("a")
        led.asked().answer([call("held", text=session.id)])
        held.begun(session.id)
        other = session.send("b", policy=policy)
        other.accepted().result(WAIT)
        _, reply = at_once(
            lambda session=session: held.let(session.id), lambda other=other: other.withdraw()
        )
        asked = led.asked()
        asked.answer("one")

        turn.result(WAIT)
        withdrawn = reply.result(WAIT)
        assert said(asked.request.messages)[3:] == ([] if withdrawn else ["b"])
        assert_used_or_withdrawn(session, other, withdrawn=withdrawn)
        assert withdrawn or other.result(WAIT) is turn.result(WAIT)


def test_taking_an_input_back_as_its_turn_begins_has_one_winner(
    run: Run, led: Any, switching_often: None
) -> None:
    system = run([], model=led)
    for place in range(100):
        session = system.session(f"s{place}")
        turn, asked = session.send("a"), led.asked()
        other = session.send("b")
        other.accepted().result(WAIT)
        _, reply = at_once(
            lambda asked=asked: asked.answer("one"), lambda other=other: other.withdraw()
        )
        withdrawn = reply.result(WAIT)
        if not withdrawn:
            led.asked().answer("two")

        assert turn.result(WAIT).text == "one"
        assert withdrawn or other.result(WAIT).text == "two"
        assert_used_or_withdrawn(session, other, withdrawn=withdrawn)


def test_taking_back_and_sending_again_at_one_moment_leaves_one_input_or_none(
    run: Run, led: Any, switching_often: None
) -> None:
    """The key is of the input taken back, or free for the one sent: never of both."""
    system = run([], model=led)
    for place in range(50):
        session = system.session(f"s{place}")
        turn, asked = session.send("a"), led.asked()
        first = session.send("b", key="k")
        first.accepted().result(WAIT)
        reply, again = at_once(
            lambda first=first: first.withdraw(),
            lambda session=session: session.send("b", key="k"),
        )
        assert reply.result(WAIT) is True
        accepted = again.accepted().result(WAIT)
        asked.answer("one")
        turn.result(WAIT)
        if accepted == first.input_id:
            with pytest.raises(TurnWithdrawn):
                again.result(WAIT)
        else:
            led.asked().answer("two")
            assert again.result(WAIT).text == "two"

        with pytest.raises(TurnWithdrawn):
            first.result(WAIT)
        assert said(session.messages).count("b") == (accepted != first.input_id)


def assert_used_or_withdrawn(session: Session, other: Any, *, withdrawn: bool) -> None:
    if withdrawn:
        with pytest.raises(TurnWithdrawn):
            other.result(WAIT)
    used = [each.input_id for each in events(session, InputApplied)]
    used += [each.input_ids[0] for each in events(session, TurnStarted)]
    taken = [each.input_id for each in events(session, InputWithdrawn)]
    assert (used.count(other.input_id), taken.count(other.input_id)) == (
        (0, 1) if withdrawn else (1, 0)
    )
    finished = len(events(session, TurnFinished))
    assert finished == len(events(session, TurnStarted))
    assert said(session.messages).count("b") == (not withdrawn)
