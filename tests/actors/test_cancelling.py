"""What stopping does to user code, and what it can't do: a function runs on, and is not heard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest

from turnstream.actors import (
    ActorSystem,
    ModelRequest,
    Session,
    TextDelta,
    TextEmitted,
    ToolContext,
    tool,
)
from turnstream.actors.testing import call, said
from turnstream.events import ModelFailed, ModelTurn, ToolMessage, ToolResultRecorded

WAIT = 20
Run = Callable[..., ActorSystem]

both = pytest.mark.parametrize("keep", [False, True], ids=["dropped", "kept"])


class Heard(logging.Handler):
    """What the effects log, to be waited for."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._records: SimpleQueue[str] = SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self._records.put(f"{record.levelname}: {record.getMessage()}")

    def next(self) -> str:
        return self._records.get(timeout=WAIT)

    @property
    def silent(self) -> bool:
        return self._records.empty()


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, logger = Heard(), logging.getLogger("turnstream.effects")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(handler)


def results(session: Session) -> list[tuple[str, str]]:
    events = [each.event for each in session.events()]
    return [(e.call_id, e.outcome) for e in events if isinstance(e, ToolResultRecorded)]


def in_a_call(session: Session, led: Any, held: Any, name: str, text: str) -> Any:
    turn = session.send("go")
    led.asked().answer([call(name, "c", text=text)])
    held.begun(text)
    return turn


@both
def test_the_late_return_of_a_function_is_logged_and_changes_nothing(
    run: Run, led: Any, held: Any, heard: Heard, keep: bool
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    turn = in_a_call(session, led, held, "held_sync", "the secret")
    assert turn.abort(keep=keep).result(WAIT) is True
    before, items = list(session.events()), list(turn.stream())
    assert heard.silent
    held.let("the secret")

    warning = heard.next()
    assert warning.startswith("WARNING") and "'s'" in warning
    assert "not recorded" in warning and "secret" not in warning
    assert list(session.events()) == before and list(turn.stream()) == items
    assert session.status == ("aborted" if keep else "idle")
    following = session.send("next")
    if keep:
        led.asked().answer("first")
    led.asked().answer("second")
    assert following.result(WAIT).text == "second"
    assert results(session) == [("c", "cancelled")]


def test_the_session_goes_on_while_a_function_it_stopped_still_runs(
    run: Run, led: Any, held: Any, heard: Heard
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    in_a_call(session, led, held, "held_sync", "slow").abort()
    following = session.send("next")
    led.asked().answer("fine")

    assert following.result(WAIT).text == "fine"
    before = list(session.events())
    held.let("slow")
    heard.next()
    assert list(session.events()) == before
    assert said(session.messages) == ["next", "fine"]


def test_a_late_return_is_not_taken_for_that_of_a_later_call_with_the_same_id(
    run: Run, led: Any, held: Any, heard: Heard
) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    in_a_call(session, led, held, "held_sync", "early").abort()
    turn = in_a_call(session, led, held, "held_sync", "late")
    held.let("early")
    heard.next()
    held.let("late")
    led.asked().answer("done")

    (result,) = [m for m in turn.result(WAIT).messages if isinstance(m, ToolMessage)]
    assert (result.outcome, result.content) == ("ok", "late")
    assert results(session) == [("c", "cancelled"), ("c", "ok")]


def test_an_error_that_a_function_raises_late_is_logged_and_changes_nothing(
    run: Run, led: Any, heard: Heard
) -> None:
    begun, go = Event(), Event()

    @tool
    def fail() -> None:
        begun.set()
        assert go.wait(WAIT)
        raise ValueError("the secret")

    session = run([], model=led, tools=[fail]).session("s")
    turn = session.send("go")
    led.asked().answer([call("fail", "c")])
    assert begun.wait(WAIT)
    assert turn.abort().result(WAIT) is True
    before = list(session.events())
    go.set()

    assert "secret" not in heard.next()
    assert list(session.events()) == before
    assert results(session) == [("c", "cancelled")]


def test_a_coroutine_that_goes_on_although_it_was_cancelled_is_not_heard(
    run: Run, led: Any, heard: Heard
) -> None:
    begun, cancelled = Event(), Event()

    @tool
    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
        return "the secret"

    session = run([], model=led, tools=[stubborn]).session("s")
    turn = session.send("go")
    led.asked().answer([call("stubborn", "c")])
    assert begun.wait(WAIT)
    assert turn.abort().result(WAIT) is True
    before = list(session.events())

    assert cancelled.wait(WAIT)
    assert "not recorded" in heard.next()
    assert list(session.events()) == before
    assert results(session) == [("c", "cancelled")]


def test_a_coroutine_that_stops_when_it_is_told_leaves_nothing_to_be_said(
    run: Run, led: Any, held: Any, heard: Heard
) -> None:
    system = run([], model=led, tools=held.tools)
    turn = in_a_call(system.session("s"), led, held, "held", "a")
    assert turn.abort().result(WAIT) is True
    held.cancelled("a")

    assert system.close() is True
    assert heard.silent


def test_a_function_can_see_that_nobody_wants_its_result_any_more(run: Run, led: Any) -> None:
    begun, go, left = Event(), Event(), Event()
    wanted: list[bool] = []

    @tool
    def look(context: ToolContext) -> str:
        wanted.append(not context.cancelled)
        begun.set()
        assert go.wait(WAIT)
        wanted.append(not context.cancelled)
        left.set()
        return "late"

    session = run([], model=led, tools=[look]).session("s")
    turn = session.send("go")
    led.asked().answer([call("look")])
    assert begun.wait(WAIT)
    assert turn.abort().result(WAIT) is True
    go.set()

    assert left.wait(WAIT)
    assert wanted == [True, False]


@both
def test_a_function_that_is_a_model_is_not_heard_after_its_turn_was_stopped(
    run: Run, heard: Heard, keep: bool
) -> None:
    begun, go = Event(), Event()
    asked: list[ModelRequest] = []

    def model(request: ModelRequest) -> str:
        asked.append(request)
        if len(asked) == 1:
            begun.set()
            assert go.wait(WAIT)
            return "the secret"
        return f"answer {len(asked)}"

    session = run([], model=model).session("s")
    turn = session.send("go")
    assert begun.wait(WAIT)
    assert turn.abort(keep=keep).result(WAIT) is True
    following = session.send("next")
    answers = ["answer 2", "answer 3"] if keep else ["answer 2"]
    assert following.result(WAIT).text == answers[-1]
    before = list(session.events())
    go.set()

    told = heard.next()
    assert told.startswith("INFO") and "'s'" in told and "secret" not in told
    assert list(session.events()) == before
    assert [text for text in said(session.messages) if text.startswith("answer")] == answers
    assert turn.result(WAIT).finish_reason == "aborted"


def test_a_model_shows_nothing_more_once_its_turn_was_stopped(run: Run) -> None:
    cancelled, left = Event(), Event()

    class Stubborn:
        id = "stubborn"

        async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
            yield TextDelta("early")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
            yield TextDelta("late")
            left.set()
            yield ModelTurn("late")

    session = run([], model=Stubborn()).session("s")
    turn = session.send("go")
    for item in turn.stream():
        if item.type == "text.delta":
            break
    assert turn.abort().result(WAIT) is True

    assert cancelled.wait(WAIT) and left.wait(WAIT)
    assert [e.text for e in turn.stream() if isinstance(e, TextEmitted)] == ["early"]
    assert "model_turn_recorded" not in [e.topic for e in session.events()]


@pytest.mark.parametrize(
    "error", [ValueError, asyncio.CancelledError, KeyboardInterrupt, SystemExit]
)
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_call_that_fails_leaves_those_beside_it_alone(
    run: Run, led: Any, held: Any, kind: str, error: type[BaseException]
) -> None:
    def function() -> None:
        raise error

    async def coroutine() -> None:
        raise error

    fail = tool(name="fail")(function if kind == "function" else coroutine)
    session = run([], model=led, tools=[*held.tools, fail]).session("s")
    turn = session.send("go")
    led.asked().answer(
        [call("held", "a", text="a"), call("fail", "b"), call("held_sync", "c", text="c")]
    )
    for text in "ac":
        held.begun(text)
    next(item for item in turn.stream() if item.type == "tool.result")
    assert results(session) == [("b", "error")]
    held.let("a")
    held.let("c")

    asked = led.asked()
    messages = [m for m in asked.request.messages if isinstance(m, ToolMessage)]
    assert [(m.call_id, m.outcome) for m in messages] == [("a", "ok"), ("b", "error"), ("c", "ok")]
    assert error.__name__ in str(messages[1].content)
    asked.answer("done")
    assert turn.result(WAIT).text == "done"


def test_a_coroutine_that_cancels_itself_ends_its_call_and_not_the_turn(
    run: Run, led: Any, held: Any
) -> None:
    @tool
    async def give_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    session = run([], model=led, tools=[*held.tools, give_up]).session("s")
    turn = session.send("go")
    held.let("b")
    led.asked().answer([call("give_up", "a"), call("held", "b", text="b")])
    led.asked().answer("done")

    assert turn.result(WAIT).text == "done"
    outcomes = dict(results(session))
    assert outcomes["a"] in ("error", "cancelled") and outcomes["b"] == "ok"


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_model_that_raises_what_stops_programs_only_fails_its_turn(
    run: Run, kind: str, error: type[BaseException]
) -> None:
    asked: list[ModelRequest] = []

    def function(request: ModelRequest) -> str:
        asked.append(request)
        if len(asked) == 1:
            raise error
        return "fine"

    async def coroutine(request: ModelRequest) -> str:
        return function(request)

    model = function if kind == "function" else coroutine
    session = run([], model=model, on_failure="keep").session("s")
    with pytest.raises(ModelFailed, match=error.__name__):
        session.send("go").result(WAIT)
    resumed = session.resume()
    assert resumed is not None and resumed.result(WAIT).text == "fine"
