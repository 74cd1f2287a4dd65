"""Calls that take longer than they may: the turn goes on without a tool, and fails without a
model; whatever comes late is logged, and not recorded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from logging.handlers import QueueHandler
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, TextDelta, tool
from turnstream.actors.testing import ScriptedModel, call, said
from turnstream.events import (
    InvalidAgent,
    ModelTimedOut,
    ModelTurn,
    ToolMessage,
    ToolResultRecorded,
    TurnError,
)

WAIT = 20
SOON = 0.05
Run = Callable[..., ActorSystem]


@pytest.fixture
def warnings() -> Iterator[SimpleQueue[logging.LogRecord]]:
    """What the effects log, as it comes."""
    records: SimpleQueue[logging.LogRecord] = SimpleQueue()
    handler, logger = QueueHandler(records), logging.getLogger("turnstream.effects")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield records
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(handler)


Warnings = SimpleQueue[logging.LogRecord]


@pytest.fixture
def go() -> Iterator[Event]:
    """Lets functions return that can't be stopped; at the latest with the test."""
    event = Event()
    yield event
    event.set()


Start = Callable[..., Session]


@pytest.fixture
def start(store: str, go: Event) -> Iterator[Start]:
    """A session of an agent with this model, on a system that keeps failed turns."""
    systems = []

    def begin(model: Any, *, on_failure: Any = "keep", **options: Any) -> Session:
        agent = Agent("agent", model=model, **options)
        systems.append(ActorSystem(agent, store=store, on_failure=on_failure))
        return systems[-1].session("s")

    yield begin
    go.set()
    for system in systems:
        system.close()


def test_a_function_that_took_too_long_has_an_error_and_its_return_is_not_recorded(
    start: Start, go: Event, warnings: Warnings
) -> None:
    @tool(timeout=SOON)
    def slow() -> str:
        assert go.wait(WAIT)
        return "the secret"

    session = start(ScriptedModel([[call("slow")], "done", "more"]), tools=[slow])
    result = session.send("go").result(WAIT)
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert message.outcome == "error" and "may still take effect" in str(message.content)
    assert result.text == "done" and warnings.empty()
    before = list(session.events())
    go.set()

    record = warnings.get(timeout=WAIT)
    assert record.levelno == logging.WARNING and "secret" not in record.getMessage()
    assert list(session.events()) == before
    assert session.send("next").result(WAIT).text == "more"


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_coroutine_that_took_too_long_is_cancelled_and_has_an_error(
    start: Start, stubborn: bool
) -> None:
    cancelled = Event()

    @tool(timeout=SOON)
    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            if not stubborn:
                raise
        return "the secret"

    session = start(ScriptedModel([[call("slow")], "done"]), tools=[slow])
    result = session.send("go").result(WAIT)

    assert cancelled.is_set() and result.text == "done"
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert message.outcome == "error" and f"{SOON:g} seconds" in str(message.content)


def test_a_call_that_took_too_long_leaves_those_beside_it_alone(
    run: Run, led: Any, held: Any
) -> None:
    @tool(timeout=SOON)
    async def slow() -> None:
        await asyncio.Event().wait()

    session = run([], model=led, tools=[*held.tools, slow]).session("s")
    turn = session.send("go")
    calls = [call("held", "a", text="a"), call("slow", "b"), call("held_sync", "c", text="c")]
    led.asked().answer(calls)
    next(item for item in turn.stream() if item.type == "tool.result")
    held.let("a")
    held.let("c")
    led.asked().answer("done")

    assert turn.result(WAIT).text == "done"
    results = [e.event for e in session.events() if isinstance(e.event, ToolResultRecorded)]
    assert {e.call_id: e.outcome for e in results} == {"a": "ok", "b": "error", "c": "ok"}


def test_a_tool_within_its_time_is_not_disturbed(start: Start, warnings: Warnings) -> None:
    @tool(timeout=WAIT)
    def quick() -> str:
        return "here"

    @tool(timeout=WAIT)
    async def quick_too() -> str:
        return "here"

    model = ScriptedModel([[call("quick"), call("quick_too")], "done"])
    result = start(model, tools=[quick, quick_too], model_timeout=WAIT).send("go").result(WAIT)

    messages = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert [(m.outcome, m.content) for m in messages] == [("ok", "here")] * 2
    assert warnings.empty()


class Slow:
    """Models that never answer when they are asked for the first time, a function not before
    it may; and from then on at once."""

    def __init__(self, go: Event) -> None:
        self._go, self.asked, self.cancelled = go, 0, Event()

    def first(self) -> bool:
        self.asked += 1
        return self.asked == 1

    async def hang(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()

    def of(self, kind: str) -> Any:
        return {
            "function": self.function,
            "coroutine": self.coroutine,
            "silent": Streaming(self, ()),
            "talking": Streaming(self, ("Hel",)),
        }[kind]

    def function(self, request: ModelRequest) -> str:
        if not self.first():
            return "in time"
        assert self._go.wait(WAIT)
        return "the secret"

    async def coroutine(self, request: ModelRequest) -> str:
        if self.first():
            await self.hang()
        return "in time"


class Streaming:
    id = "streaming"

    def __init__(self, slow: Slow, shows: tuple[str, ...]) -> None:
        self._slow, self._shows = slow, shows

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
        if self._slow.first():
            for each in self._shows:
                yield TextDelta(each)
            await self._slow.hang()
        yield ModelTurn("in time")


KINDS = pytest.mark.parametrize("kind", ["function", "coroutine", "silent", "talking"])


@KINDS
def test_a_model_that_took_too_long_fails_the_turn_which_can_be_resumed(
    start: Start, go: Event, kind: str
) -> None:
    slow = Slow(go)
    session = start(slow.of(kind), model_timeout=SOON)
    turn = session.send("go")

    with pytest.raises(ModelTimedOut) as failure:
        turn.result(WAIT)
    error = failure.value
    assert isinstance(error, TurnError) and error.code == "model-timed-out"
    assert (error.session_id, error.turn_id) == ("s", "turn-1")
    pending = session.pending()
    assert session.status == "failed" and list(session.messages) == []
    assert pending is not None and pending.code == "model-timed-out"

    resumed = session.resume()
    assert resumed is not None and resumed.result(WAIT).text == "in time"
    assert slow.asked == 2 and said(session.messages) == ["go", "in time"]


@KINDS
def test_the_stream_of_a_turn_whose_model_took_too_long_ends_once(
    start: Start, go: Event, kind: str
) -> None:
    turn = start(Slow(go).of(kind), model_timeout=SOON).send("go")

    items: list[Any] = list(turn.stream())
    shown = ["text.delta"] if kind == "talking" else []
    assert [each.type for each in items] == ["turn.started", *shown, "error", "turn.done"]
    assert items[-2].code == "model-timed-out" and items[-1].result is None


@pytest.mark.parametrize("kind", ["coroutine", "silent", "talking"])
def test_a_model_that_took_too_long_is_cancelled(start: Start, go: Event, kind: str) -> None:
    slow = Slow(go)
    with pytest.raises(ModelTimedOut):
        start(slow.of(kind), model_timeout=SOON).send("go").result(WAIT)

    assert slow.cancelled.wait(WAIT)


def test_the_late_answer_of_a_model_is_logged_and_not_recorded(
    start: Start, go: Event, warnings: Warnings
) -> None:
    session = start(Slow(go).function, model_timeout=SOON)
    turn = session.send("go")
    with pytest.raises(ModelTimedOut):
        turn.result(WAIT)
    before, items = list(session.events()), list(turn.stream())
    go.set()

    record = warnings.get(timeout=WAIT)
    assert record.levelno == logging.INFO and "secret" not in record.getMessage()
    assert list(session.events()) == before and list(turn.stream()) == items
    resumed = session.resume()
    assert resumed is not None and resumed.result(WAIT).text == "in time"
    assert said(session.messages) == ["go", "in time"]


def test_a_model_that_took_too_long_at_a_later_step_loses_no_result(
    start: Start, go: Event
) -> None:
    ran: list[int] = []

    @tool
    def work() -> str:
        ran.append(1)
        return "worked"

    slow = Slow(go)

    async def model(request: ModelRequest) -> ModelTurn | str:
        if not isinstance(request.messages[-1], ToolMessage):
            return ModelTurn(tool_calls=(call("work"),))
        return await slow.coroutine(request)

    session = start(model, tools=[work], model_timeout=SOON)
    with pytest.raises(ModelTimedOut):
        session.send("go").result(WAIT)
    resumed = session.resume()

    assert resumed is not None and resumed.result(WAIT).text == "in time"
    assert ran == [1] and said(session.messages) == ["go", "", "worked", "in time"]


def test_a_turn_that_is_not_kept_is_dropped_when_its_model_took_too_long(
    start: Start, go: Event
) -> None:
    session = start(Slow(go).coroutine, model_timeout=SOON, on_failure="drop")
    with pytest.raises(ModelTimedOut):
        session.send("go").result(WAIT)

    assert session.pending() is None and session.status == "idle"
    assert session.send("again").result(WAIT).text == "in time"
    assert said(session.messages) == ["again", "in time"]


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_time_for_models_is_more_than_nothing(seconds: float) -> None:
    with pytest.raises(InvalidAgent, match="model_timeout"):
        Agent("agent", model=lambda request: "hi", model_timeout=seconds)
