"""A model and tools that do nothing of their own accord, and a store that can be held and cut.

Each call of the model and of a tool stays where it is until it is told how to go on. So whoever
pulls the strings decides what happens in which order, and can wait for what follows by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Condition, Event, RLock
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from streams import OTHER, flaw
from witnessed import Asked, Ran, Seen, digest

from turnstream.actors import Delta, ModelRequest, TextDelta, ToolContext
from turnstream.actors.models import AnyModel
from turnstream.events import AssistantMessage, ModelTurn, StoreError, StoreUnavailable
from turnstream.stores import Append, Appended, EventStore

LONG = 50.0
Kind: TypeAlias = Literal["stream", "async", "sync"]


class Show(Struct, frozen=True):
    """Show some text, and stay; ``shown`` is set when it was."""

    shown: Event


class Answer(Struct, frozen=True):
    """End with this."""

    value: Any


class Break(Struct, frozen=True):
    """End with this error; None: end without an answer."""

    error: Exception | None


Order: TypeAlias = Show | Answer | Break


class Puppet:
    """A call under way, and the string to pull."""

    def __init__(
        self, call: Asked | Ran, pull: Callable[[Order], object], *, is_async: bool
    ) -> None:
        self.call, self.pull, self.is_async = call, pull, is_async


class Stage:
    """Where the puppets of one process are. ``moved`` is notified when anything changes;
    ``witness`` is told of every call; ``improvise`` gives an order to those nobody waits for."""

    def __init__(
        self, moved: Condition, witness: Callable[[Seen], None], seen: Callable[[], int]
    ) -> None:
        self.generation, self.moved = 0, moved
        self.witness, self.seen = witness, seen
        self.puppets: list[Puppet] = []
        self.improvise: Callable[[Puppet], Order] | None = None

    @contextmanager
    def on(
        self, call: Asked | Ran, pull: Callable[[Order], object], *, is_async: bool
    ) -> Iterator[None]:
        """The call is under way."""
        puppet = Puppet(call, pull, is_async=is_async)
        self.witness(call)
        with self.moved:
            self.puppets.append(puppet)
            improvise = self.improvise
            self.moved.notify_all()
        if improvise is not None:
            self.let_go(puppet, improvise(puppet))
        try:
            yield
        finally:
            with self.moved:
                if puppet in self.puppets:
                    self.puppets.remove(puppet)
                self.moved.notify_all()

    def let_go(self, puppet: Puppet, order: Order) -> None:
        """Tell a call how to end."""
        with self.moved:
            if puppet not in self.puppets:
                return
            self.puppets.remove(puppet)
        puppet.pull(order)

    def let_all_go(self, improvise: Callable[[Puppet], Order]) -> None:
        """End what is under way, and what comes later as soon as it comes."""
        with self.moved:
            self.improvise = improvise
            puppets = list(self.puppets)
        for each in puppets:
            self.let_go(each, improvise(each))

    def show(self, puppet: Puppet) -> Event:
        """Let a model show some text; the event is set when it did."""
        shown = Event()
        puppet.pull(Show(shown))
        return shown

    def model(self, kind: Kind) -> AnyModel:
        """A model of one of the three kinds."""
        match kind:
            case "stream":
                return StreamingPuppet(self)
            case "async":
                return self._ask_async
            case "sync":
                return self._ask

    def run(self, context: ToolContext, text: str) -> str:
        """What a sync tool does."""
        return str(self._wait(self._ran(context, text)))

    async def run_async(self, context: ToolContext, text: str) -> str:
        """What an async tool does."""
        return str(await self._hold(self._ran(context, text)))

    def asked(self, request: ModelRequest) -> Asked:
        messages = tuple(request.messages)
        answers = [each for each in messages if isinstance(each, AssistantMessage)]
        return Asked(
            self.generation,
            self.seen(),
            request.turn_id,
            request.step,
            digest(messages),
            flaw(messages),
            tuple(
                (call.id, str(call.arguments.get("text", "")))
                for each in answers[len(answers) - request.step + 1 :]
                for call in each.tool_calls
            ),
            request.instructions == OTHER,
        )

    def _ran(self, context: ToolContext, text: str) -> Ran:
        return Ran(
            self.generation,
            self.seen(),
            context.turn_id,
            context.call_id,
            context.attempt,
            context.idempotency_key,
            text,
        )

    def _ask(self, request: ModelRequest) -> ModelTurn:
        answer: ModelTurn = self._wait(self.asked(request))
        return answer

    async def _ask_async(self, request: ModelRequest) -> ModelTurn:
        answer: ModelTurn = await self._hold(self.asked(request))
        return answer

    def _wait(self, call: Asked | Ran) -> Any:
        orders: SimpleQueue[Order] = SimpleQueue()
        with self.on(call, orders.put, is_async=False):
            while isinstance(order := orders.get(timeout=LONG), Show):
                order.shown.set()
        return _obeyed(order)

    async def _hold(self, call: Asked | Ran) -> Any:
        orders, pull = inbox()
        with self.on(call, pull, is_async=True):
            while isinstance(order := await orders.get(), Show):
                order.shown.set()
        return _obeyed(order)


class StreamingPuppet:
    """A model that can show something before it answers, and break off."""

    id = "puppet"

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelTurn]:
        orders, pull = inbox()
        with self._stage.on(self._stage.asked(request), pull, is_async=True):
            while isinstance(order := await orders.get(), Show):
                yield TextDelta("...")
                order.shown.set()
        if order != Break(None):
            yield _obeyed(order)


def inbox() -> tuple[asyncio.Queue[Order], Callable[[Order], None]]:
    """Orders for the running coroutine, and how to give one from another thread."""
    orders: asyncio.Queue[Order] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def pull(order: Order) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody obeys any more
            loop.call_soon_threadsafe(orders.put_nowait, order)

    return orders, pull


def _obeyed(order: Order) -> Any:
    match order:
        case Answer(value=value):
            return value
        case Break(error=error):
            raise error or ConnectionError("broken off")
    raise AssertionError(order)


class MortalStore:
    """One process's way to a store that outlives it.

    Held, it keeps what is submitted from being written. Cut, it refuses everything, as if the
    process were dead: it learns no more of what is written.
    """

    def __init__(self, kept: EventStore, moved: Condition) -> None:
        self._kept, self._moved, self._lock = kept, moved, RLock()
        self._held: list[tuple[Append, Callable[[Appended | StoreError], None]]] | None = None
        self._cut = False
        self.generation = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    def next_generation(self) -> int:
        self.generation = self._kept.next_generation()
        return self.generation

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        def told(outcome: Appended | StoreError) -> None:
            done(outcome)
            with self._moved:
                self._moved.notify_all()

        with self._lock:
            if self._held is not None and not self._cut:
                self._held.append((append, done))
                return
            cut = self._cut
        if cut:
            done(_refusal())
        else:
            self._kept.submit(append, told)

    def append(self, append: Append) -> Appended:
        if self._cut:
            raise _refusal()
        return self._kept.append(append)

    @property
    def held(self) -> bool:
        """Whether it is held."""
        return self._held is not None

    def hold(self) -> None:
        """Write nothing until it is released."""
        with self._lock:
            if self._held is None:
                self._held = []

    def release(self) -> None:
        """Write what was held."""
        with self._lock:
            held, self._held = self._held or [], None
        for append, done in held:
            self.submit(append, done)

    def cut(self, *, lost: bool) -> None:
        """Refuse everything from now on. What was held is ``lost``, or it is written and nobody
        learns of it."""
        with self._lock:
            held, self._held, self._cut = self._held or [], None, True
        for append, done in held:
            if not lost:
                with suppress(StoreError):
                    self._kept.append(append)
            done(_refusal())


def _refusal() -> StoreUnavailable:
    return StoreUnavailable("the process is dead")
