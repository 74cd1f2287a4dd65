"""Turns that can't go on, and what becomes of them."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from places import on_durable_stores

from turnstream.actors import ActorSystem, ModelRequest, TextDelta
from turnstream.actors.testing import call, said
from turnstream.events import (
    InvalidModelTurn,
    ModelCallDiscarded,
    ModelFailed,
    ModelStreamEnded,
    ModelTurn,
    ScriptExhausted,
    TurnError,
    Usage,
)

WAIT = 20
Run = Callable[..., ActorSystem]


def test_a_model_that_raises_fails_the_turn_with_its_cause(run: Run) -> None:
    session = run([ConnectionError("no route")]).session("s")
    turn = session.send("go")

    with pytest.raises(ModelFailed, match="no route") as failure:
        turn.result(WAIT)
    assert isinstance(failure.value.__cause__, ConnectionError)
    assert failure.value.session_id == "s" and failure.value.turn_id == "turn-1"
    assert [item.type for item in turn.stream()] == ["turn.started", "error", "turn.done"]


@on_durable_stores
def test_a_failed_turn_is_kept_on_a_durable_store_and_resumed(run: Run) -> None:
    script = [[call("add", a=1, b=2)], ConnectionError("down"), "3"]
    session = run(script).session("s")
    with pytest.raises(ModelFailed):
        session.send("1 + 2?").result(WAIT)

    pending = session.pending()
    assert session.status == "failed" and pending is not None and "down" in pending.error
    resumed = session.resume()
    assert resumed is not None and resumed.result(WAIT).text == "3"
    assert session.resume() is None
    assert len([e for e in session.events() if e.topic == "tool_call_started"]) == 1


def test_a_failed_turn_is_dropped_on_a_memory_store(run: Run) -> None:
    session = run([ConnectionError("down"), "hello"], on="memory://").session("s")
    with pytest.raises(ModelFailed):
        session.send("one").result(WAIT)

    assert session.pending() is None and list(session.messages) == []
    assert session.send("two").result(WAIT).text == "hello"


@on_durable_stores
def test_the_next_send_finishes_a_failed_turn_first(run: Run, store: str) -> None:
    session = run([ConnectionError("down"), "one", "two"], on=store).session("s")
    with pytest.raises(ModelFailed):
        session.send("a").result(WAIT)

    assert session.send("b").result(WAIT).text == "two"
    assert said(session.messages) == ["a", "one", "b", "two"]


@on_durable_stores
def test_every_input_that_waits_behind_a_failing_turn_hears_of_it(run: Run) -> None:
    begin = threading.Event()

    def model(request: ModelRequest) -> str:
        begin.wait(WAIT)
        raise ConnectionError("down")

    system = run([], model=model)
    turns = [system.session("s").send(f"input {n}") for n in range(3)]
    for turn in turns:
        turn.accepted().result(WAIT)
    begin.set()

    for turn in turns:
        with pytest.raises(ModelFailed):
            turn.result(WAIT)
    pending = system.session("s").pending()
    assert pending is not None and pending.queued == ("input 1", "input 2")


def test_a_stream_that_ends_early_is_asked_for_again(run: Run) -> None:
    class Cut:
        id = "cut"

        def __init__(self, cuts: int) -> None:
            self.cuts = cuts

        async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
            yield TextDelta("Hel")
            if self.cuts:
                self.cuts -= 1
                return
            yield ModelTurn("Hello")

    def at_once(failures: int, retry_after: float | None) -> float:
        return 0

    session = run([], model=Cut(1), retry_wait=at_once).session("s")
    assert session.send("hi").result(WAIT).text == "Hello"
    assert len([e for e in session.events() if isinstance(e.event, ModelCallDiscarded)]) == 1
    with pytest.raises(ModelStreamEnded):
        run([], model=Cut(3), retry_wait=at_once).session("t").send("hi").result(WAIT)


def test_an_answer_that_is_no_turn_is_named(run: Run) -> None:
    with pytest.raises(TurnError, match="int") as failure:
        run([lambda request: 5]).session("s").send("hi").result(WAIT)
    assert failure.value.__cause__ is not None


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (None, "NoneType"),
        (ModelTurn(None), "text"),  # type: ignore[arg-type]
        (ModelTurn("x", finish_reason=None), "finish_reason"),  # type: ignore[arg-type]
        (ModelTurn("x", usage=Usage("3")), "usage"),  # type: ignore[arg-type]
        (ModelTurn("x", usage=None), "usage"),  # type: ignore[arg-type]
        (ModelTurn(tool_calls=5), "int"),  # type: ignore[arg-type]
        (ModelTurn(tool_calls=(5,)), "tool_calls"),  # type: ignore[arg-type]
        (ModelTurn(tool_calls=(replace(call("x"), malformed=5),)), "tool_calls"),
        (ModelTurn("x", parts=5), "int"),  # type: ignore[arg-type]
        (ModelTurn("x", usage=Usage(True)), "usage"),
        (ModelTurn("x", parts=(object(),)), "parts"),
    ],
)
def test_an_answer_that_could_not_be_read_back_fails_the_turn_and_not_the_session(
    run: Run, answer: Any, names: str
) -> None:
    answers = [answer, ModelTurn("fine")]

    def model(request: ModelRequest) -> Any:
        return answers.pop(0)

    session = run([], model=model).session("s")
    with pytest.raises(InvalidModelTurn, match=names):
        session.send("hi").result(WAIT)
    assert session.send("hi").result(WAIT).text == "fine"


def test_a_script_that_is_used_up_fails_loudly(run: Run) -> None:
    session = run(["one"]).session("s")
    session.send("a").result(WAIT)
    with pytest.raises(TurnError, match="2") as failure:
        session.send("b").result(WAIT)
    assert isinstance(failure.value.__cause__, ScriptExhausted)


@on_durable_stores
def test_discarding_an_unfinished_turn_leaves_the_conversation_as_before(
    run: Run, store: str
) -> None:
    session = run(["one", ConnectionError("down"), "three"], on=store).session("s")
    session.send("a").result(WAIT)
    with pytest.raises(ModelFailed):
        session.send("b").result(WAIT)
    session.discard_pending().result(WAIT)

    assert session.pending() is None
    assert said(session.messages) == ["a", "one"]
    assert session.send("c").result(WAIT).text == "three"
