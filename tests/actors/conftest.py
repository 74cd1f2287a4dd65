"""A system on a scripted agent, on every store."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, ModelRequest, TextDelta, tool
from turnstream.actors.testing import ScriptedModel
from turnstream.events import ModelTurn, ToolCall
from turnstream.projections.transcript import check_transcript
from turnstream.stores import EventStore, MemoryStore

# What several files of tests share lies beside them.
sys.path.insert(0, str(Path(__file__).parent))

WAIT = 20


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.fixture
def store(address: str) -> str:
    """Where a system keeps its sessions. A file whose tests want it open has its own."""
    return address


@pytest.fixture
def place(store: str) -> EventStore | str:
    """A store that several systems may be started on, at once or one after the other."""
    return MemoryStore() if store == "memory://" else store


@pytest.fixture
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def run(store: str) -> Iterator[Callable[..., ActorSystem]]:
    """Start a system on an agent with this script; it is closed with the test."""
    systems = []

    def start(script: list[Any], *, on: str | EventStore = store, **options: Any) -> ActorSystem:
        of_the_agent = ("max_steps", "tool_concurrency", "model_retries", "retry_wait")
        limits = {k: options.pop(k) for k in of_the_agent if k in options}
        agent = Agent(
            "agent",
            model=options.pop("model", None) or ScriptedModel(script),
            tools=options.pop("tools", [add]),
            **limits,
        )
        systems.append(ActorSystem(agent, store=on, **options))
        return systems[-1]

    yield start
    for system in systems:
        system.close()


class Line:
    """From the test's thread to a coroutine, which makes it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Any] = asyncio.Queue()
        self.get = self._items.get

    def put(self, item: object) -> None:
        with suppress(RuntimeError):  # the loop has ended, and the call with it
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)


class Asked:
    """One call of a model that a test leads. ``cancelled`` is set once it was cancelled."""

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.cancelled = Event()
        self._line, self._over = Line(), Event()

    def show(self, text: str) -> bool:
        """Show a piece of the answer, and return when it was shown. False where the call was
        over before."""
        shown = Event()
        self._line.put((TextDelta(text), shown))
        while not (shown.wait(0.02) or self._over.is_set()):
            pass
        return shown.is_set()

    def answer(self, answer: str | list[ToolCall] | ModelTurn) -> None:
        """Answer with a text, with calls, or with a whole turn. Too late, it does nothing."""
        if isinstance(answer, str):
            answer = ModelTurn(answer)
        elif isinstance(answer, list):
            answer = ModelTurn(tool_calls=tuple(answer), finish_reason="tool_calls")
        self._line.put((answer, Event()))

    def fail(self, error: BaseException) -> None:
        """Raise this in the model."""
        self._line.put((error, Event()))

    async def items(self) -> AsyncGenerator[TextDelta | ModelTurn, None]:
        item: Any = None
        try:
            while not isinstance(item, ModelTurn):
                item, shown = await self._line.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
                shown.set()
        except (asyncio.CancelledError, GeneratorExit):
            if not isinstance(item, ModelTurn):
                self.cancelled.set()
            raise
        finally:
            self._over.set()


class LedModel:
    """A model that does nothing but what the test says, one call at a time."""

    id = "led"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self._calls: list[Asked] = []
        self._asked: SimpleQueue[Asked] = SimpleQueue()
        self._released = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
        check_transcript(request.messages)
        asked = Asked(request)
        self.requests.append(request)
        self._calls.append(asked)
        self._asked.put(asked)
        if self._released:
            raise RuntimeError("the test is over")
        async with aclosing(asked.items()) as items:
            async for item in items:
                yield item

    def asked(self, timeout: float = WAIT) -> Asked:
        """Wait for the next call of the model."""
        try:
            return self._asked.get(timeout=timeout)
        except Empty:
            pytest.fail("the model was not asked")

    def release(self) -> None:
        """Fail what still waits, and whatever comes."""
        self._released = True
        for each in list(self._calls):
            each.fail(RuntimeError("the test is over"))


@pytest.fixture
def led() -> Iterator[LedModel]:
    """A model led by the test. Name it after ``run``, so that it lets go before that closes."""
    model = LedModel()
    yield model
    model.release()


class _HeldCalls:
    """The calls of the held tools with one text."""

    def __init__(self) -> None:
        self.begun: SimpleQueue[None] = SimpleQueue()
        self.cancelled: SimpleQueue[None] = SimpleQueue()
        self.returns = Event()
        self.lines: list[Line] = []


class Held:
    """Two tools that return their ``text`` when the test lets them: ``held``, which is async, and
    ``held_sync``, which can't be stopped."""

    def __init__(self) -> None:
        self._by_text: dict[str, _HeldCalls] = {}
        self.tools = [tool(name="held")(self._held), tool(name="held_sync")(self._held_sync)]

    def _calls(self, text: str) -> _HeldCalls:
        return self._by_text.setdefault(text, _HeldCalls())

    async def _held(self, text: str) -> str:
        """Wait."""
        calls, line = self._calls(text), Line()
        calls.lines.append(line)
        calls.begun.put(None)
        try:
            if not calls.returns.is_set():
                await line.get()
        except asyncio.CancelledError:
            calls.cancelled.put(None)
            raise
        return text

    def _held_sync(self, text: str) -> str:
        """Wait."""
        self._calls(text).begun.put(None)
        self._calls(text).returns.wait(WAIT)
        return text

    def begun(self, text: str, timeout: float = WAIT) -> None:
        """Wait until a call began that was not asked about before."""
        try:
            self._calls(text).begun.get(timeout=timeout)
        except Empty:
            pytest.fail(f"no call with {text!r} began")

    def cancelled(self, text: str, timeout: float = WAIT) -> None:
        """Wait until a call of the async tool was cancelled."""
        try:
            self._calls(text).cancelled.get(timeout=timeout)
        except Empty:
            pytest.fail(f"no call with {text!r} was cancelled")

    def ran(self, text: str) -> bool:
        """Whether a call began that was not asked about."""
        return not self._calls(text).begun.empty()

    def let(self, text: str) -> None:
        """Let the calls with this text return, those of now and later ones."""
        calls = self._calls(text)
        calls.returns.set()
        for line in list(calls.lines):
            line.put(None)

    def release(self) -> None:
        """Let every call return."""
        for text in list(self._by_text):
            self.let(text)


@pytest.fixture
def held() -> Iterator[Held]:
    """Tools led by the test. Name it after ``run``, so that they return before that closes."""
    tools = Held()
    yield tools
    tools.release()
