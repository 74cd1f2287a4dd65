"""A key is a caller's own name for an input: sent again, it is the same input."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from threading import Event
from typing import Any

import pytest
from places import on_durable_stores
from sending import at_once, events

from turnstream.actors import ActorSystem, ModelRequest, Session, Turn
from turnstream.actors.testing import call, said
from turnstream.events import (
    CODEC,
    InputApplied,
    InputConflict,
    InputQueued,
    ModelFailed,
    SystemClosed,
    TextPart,
    TurnStarted,
    TurnWithdrawn,
    digest,
)
from turnstream.stores import Append, RowChange

WAIT = 20
Run = Callable[..., ActorSystem]


def ids(*turns: Turn) -> set[str]:
    return {each.accepted().result(WAIT) for each in turns}


def assert_equal_results(one: Turn, other: Turn) -> None:
    mine, theirs = one.result(WAIT), other.result(WAIT)
    assert (mine.turn_id, mine.text, mine.finish_reason) == (
        theirs.turn_id,
        theirs.text,
        theirs.finish_reason,
    )
    assert list(mine.messages) == list(theirs.messages)
    assert list(mine.new_messages) == list(theirs.new_messages)
    assert (mine.steps, mine.usage) == (theirs.steps, theirs.usage)


def test_an_input_sent_again_while_its_turn_runs_is_the_same_input(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    first = session.send("a", key="k")
    asked = led.asked()
    version = session.version
    again = session.send("a", key="k")

    assert ids(first, again) == {first.input_id}
    assert session.version == version
    asked.answer("one")
    assert again.result(WAIT) is first.result(WAIT)
    assert said(session.messages) == ["a", "one"]


@pytest.mark.parametrize("policy", ["wait", "queue", "steer"])
def test_an_input_sent_again_while_it_waits_is_the_same_input(
    run: Run, led: Any, held: Any, policy: Any
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    session.send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    sent = [session.send("b", policy=policy, key="k") for _ in range(3)]
    assert ids(*sent) == {sent[0].input_id}
    held.let("x")
    led.asked().answer("one")
    if policy == "wait":
        led.asked().answer("two")

    assert len({id(each.result(WAIT)) for each in sent}) == 1
    assert said(session.messages).count("b") == 1
    assert len(events(session, InputQueued)) == 2


def test_an_input_sent_again_with_another_policy_is_still_the_same_input(
    run: Run, led: Any
) -> None:
    session = run([], model=led).session("s")
    first = session.send("a", key="k")
    asked = led.asked()
    others = [session.send("a", policy=policy, key="k") for policy in ("queue", "steer")]
    assert ids(first, *others) == {first.input_id}
    asked.answer("one")

    assert all(each.result(WAIT) is first.result(WAIT) for each in others)
    assert not asked.cancelled.is_set() and len(events(session, InputQueued)) == 1


@pytest.mark.parametrize("policy", ["wait", "queue", "steer"])
def test_an_input_sent_by_many_at_once_is_accepted_once(
    run: Run, led: Any, held: Any, switching_often: None, policy: Any
) -> None:
    system = run([], model=led, tools=held.tools)
    held.let("x")
    for place in range(20):
        session = system.session(f"s{place}")
        session.send("a")
        asked = led.asked()
        asked.show("on")
        sent = at_once(*[partial(session.send, "b", policy=policy, key="k")] * 6)
        assert len(ids(*sent)) == 1
        asked.answer([call("held", text="x")])
        led.asked().answer("one")
        if policy == "wait":
            led.asked().answer("two")

        assert len({id(each.result(WAIT)) for each in sent}) == 1
        assert len(events(session, InputQueued)) == 2
        assert said(session.messages).count("b") == 1


def test_an_input_sent_again_after_its_turn_gets_an_equal_result_and_asks_nobody(
    run: Run, led: Any, held: Any
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    held.let("x")
    first = session.send("a", key="k")
    led.asked().answer([call("held", text="x")])
    led.asked().answer("one")
    first.result(WAIT)
    later = session.send("b")
    led.asked().answer("two")
    later.result(WAIT)
    version = session.version
    again = session.send("a", key="k")

    assert_equal_results(again, first)
    assert ids(again) == {first.input_id}
    assert [item.type for item in again.stream()] == ["turn.done"]
    assert session.version == version and len(led.requests) == 3


def test_a_joined_input_sent_again_after_its_turn_gets_that_turns_result(
    run: Run, led: Any, held: Any
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    turn = session.send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    joined = session.send("b", policy="queue", key="k")
    assert ids(joined) == {joined.input_id}
    held.let("x")
    led.asked().answer("one")
    turn.result(WAIT)

    again = session.send("b", policy="queue", key="k")
    assert_equal_results(again, turn)
    assert ids(again) == {joined.input_id}
    assert len(events(session, InputApplied)) == 1


@on_durable_stores
def test_a_key_outlives_the_process(run: Run, led: Any, store: str) -> None:
    system = run([], model=led, on=store)
    first = system.session("s").send("a", key="k")
    led.asked().answer("one")
    first.result(WAIT)
    system.close()
    session = run([], model=led, on=store).session("s")
    version = session.version
    again = session.send("a", key="k")

    assert_equal_results(again, first)
    assert ids(again) == {first.input_id}
    assert session.version == version and len(led.requests) == 1
    with pytest.raises(InputConflict):
        session.send("b", key="k").result(WAIT)


@on_durable_stores
def test_inputs_sent_again_after_a_crash_go_on_where_they_were(
    run: Run, led: Any, held: Any, store: str
) -> None:
    """One that began the turn, one that was to join it, and one that waited."""
    system = run([], model=led, tools=held.tools, on=store)
    policies: dict[str, Any] = {"a": "wait", "b": "queue", "c": "wait"}

    def send_all(session: Session) -> list[Turn]:
        return [session.send(text, policy=p, key=text) for text, p in policies.items()]

    sent = send_all(system.session("s"))
    before = ids(*sent)
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    system.close(timeout=0.05)
    for each in sent:
        with pytest.raises(SystemClosed):
            each.result(WAIT)
    held.let("x")
    session = run([], model=led, tools=held.tools, on=store).session("s")
    again = send_all(session)
    for text in ("to a and b", "to c"):
        led.asked().answer(text)

    assert ids(*again) == before
    assert again[0].result(WAIT) is again[1].result(WAIT)
    assert again[2].result(WAIT).text == "to c"
    assert said(session.messages) == ["a", "", "x", "b", "to a and b", "c", "to c"]
    assert len(events(session, InputQueued)) == 3 and len(events(session, TurnStarted)) == 2


@pytest.mark.parametrize("when", ["running", "waiting", "ended"])
def test_a_key_used_with_other_words_is_refused_and_changes_nothing(
    run: Run, led: Any, when: str
) -> None:
    session = run([], model=led).session("s")
    first = session.send("z" if when == "waiting" else "a", key="other")
    asked = led.asked()
    if when == "waiting":
        session.send("a", key="k").accepted().result(WAIT)
    if when == "ended":
        asked.answer("one")
        first.result(WAIT)
    version = session.version
    refused = session.send("b", key="k" if when == "waiting" else "other")

    for wait in (refused.accepted().result, refused.result):
        with pytest.raises(InputConflict) as failure:
            wait(WAIT)
    assert failure.value.code == "input-conflict" and failure.value.session_id == "s"
    assert [item.type for item in refused.stream()] == ["error", "turn.done"]
    assert session.version == version


def test_a_steering_input_refused_for_what_another_process_wrote_does_no_harm(run: Run) -> None:
    """The model call may have been cancelled for it by then: it is asked again."""
    asked, begun = Event(), Event()

    async def model(request: ModelRequest) -> str:
        if not asked.is_set():
            asked.set()
            await asyncio.to_thread(begun.wait, WAIT)
        return f"to {said(request.messages)[-1]}"

    system = run([], model=model)
    session = system.session("s")
    turn = session.send("a")
    assert asked.wait(WAIT)
    last = system._store.read("s")[-1]
    theirs = InputQueued(at=datetime.now(UTC), input_id="theirs", content="theirs", key="k")
    encoded = CODEC.encode(theirs, digest(last.topic, last.version, last.payload))
    row = RowChange("running", "agent", theirs.at)
    system._store.append(Append("s", last.version, (encoded,), row))
    refused = session.send("ours", policy="steer", key="k")

    with pytest.raises(InputConflict):
        refused.result(WAIT)
    begun.set()
    assert turn.result(WAIT).text == "to a"
    assert session.send("b").result(WAIT).text == "to b"
    assert said(session.messages) == ["a", "to a", "theirs", "to theirs", "b", "to b"]


def test_a_key_covers_parts_as_it_does_text(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    parts = (TextPart("a"), TextPart("b"))
    first = session.send(parts, key="k")
    led.asked().answer("one")

    assert session.send(tuple(parts), key="k").result(WAIT).text == first.result(WAIT).text
    with pytest.raises(InputConflict):
        session.send(tuple(reversed(parts)), key="k").result(WAIT)


@pytest.mark.parametrize("keys", [("k1", "k2"), (None, None), ("k", None), (None, "k")])
def test_equal_words_with_different_keys_or_none_are_two_inputs(
    run: Run, led: Any, held: Any, keys: tuple[str | None, str | None]
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    session.send("a")
    led.asked().answer([call("held", text="x")])
    held.begun("x")
    sent = [session.send("b", policy="queue", key=key) for key in keys]
    assert len(ids(*sent)) == 2
    held.let("x")

    assert said(led.asked().request.messages) == ["a", "", "x", "b", "b"]


def test_a_key_belongs_to_its_session(run: Run, led: Any) -> None:
    system = run([], model=led)
    turns = [system.session(name).send(text, key="k") for name, text in (("s", "a"), ("t", "b"))]
    for _ in turns:
        led.asked().answer("done")

    assert [each.result(WAIT).text for each in turns] == ["done", "done"]


def test_the_key_of_a_failed_turn_that_is_kept_resumes_it(run: Run, led: Any) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    first = session.send("a", key="k")
    led.asked().fail(ConnectionError("down"))
    with pytest.raises(ModelFailed):
        first.result(WAIT)
    retry = session.send("a", key="k")
    led.asked().answer("one")

    assert said(retry.result(WAIT).messages) == ["a", "one"]
    assert ids(retry) == {first.input_id} and len(events(session, InputQueued)) == 1


def test_the_words_of_a_failed_turn_with_a_key_of_their_own_are_a_second_input(
    run: Run, led: Any
) -> None:
    session = run([], model=led, on_failure="keep").session("s")
    first = session.send("a")
    led.asked().fail(ConnectionError("down"))
    with pytest.raises(ModelFailed):
        first.result(WAIT)
    second = session.send("a", key="k")
    for text in ("one", "two"):
        led.asked().answer(text)

    assert said(second.result(WAIT).messages) == ["a", "one", "a", "two"]


def test_the_key_of_a_failed_turn_that_was_dropped_is_free(run: Run, led: Any) -> None:
    session = run([], model=led, on_failure="drop").session("s")
    first = session.send("a", key="k")
    asked = led.asked()
    asked.show("on")
    joining = session.send("b", policy="queue", key="j")
    assert len(ids(first, joining)) == 2
    asked.fail(ConnectionError("down"))
    for each in (first, joining):
        with pytest.raises(ModelFailed):
            each.result(WAIT)
    for text, key in (("c", "k"), ("d", "j")):
        other = session.send(text, key=key)
        led.asked().answer(f"to {text}")
        assert other.result(WAIT).text == f"to {text}"

    assert said(session.messages) == ["c", "to c", "d", "to d"]


def test_the_key_of_a_stopped_turn_gives_its_end(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    first = session.send("a", key="k")
    led.asked()
    assert first.abort().result(WAIT) is True
    again = session.send("a", key="k")

    assert first.result(WAIT).finish_reason == again.result(WAIT).finish_reason == "aborted"
    assert_equal_results(again, first)
    assert len(led.requests) == 1


def test_the_key_of_an_input_that_was_taken_back_is_free(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    session.send("a")
    asked = led.asked()
    first = session.send("b", key="k")
    assert first.withdraw().result(WAIT) is True
    other = session.send("c", key="k")
    assert len(ids(first, other)) == 2
    asked.answer("one")
    led.asked().answer("two")

    assert said(other.result(WAIT).messages) == ["a", "one", "c", "two"]


def test_an_input_can_be_taken_back_by_whoever_sends_its_key_again(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    session.send("a")
    led.asked()
    first = session.send("b", key="k")
    again = session.send("b", key="k")

    assert again.withdraw().result(WAIT) is True
    for each in (first, again):
        with pytest.raises(TurnWithdrawn):
            each.result(WAIT)
