"""A node that is alone follows nothing, and the others as soon as there are some."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, ModelRequest, following, tool
from turnstream.actors.testing import call
from turnstream.events import ModelTurn, UserMessage
from turnstream.stores import EventStore, Subscription

WAIT = 20


class Followed:
    """A subscription that says when it is closed, and by whom it was read."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription, self.closed = subscription, Event()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._subscription)

    def close(self) -> None:
        self._subscription.close()
        self.closed.set()


class Watched:
    """A store that says when it is followed."""

    def __init__(self, store: EventStore) -> None:
        self._store, self._followed = store, SimpleQueue[Followed]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def subscribe(self, *, after: int = 0) -> Followed:
        followed = Followed(self._store.subscribe(after=after))
        self._followed.put(followed)
        return followed

    def is_followed(self) -> Followed:
        """Wait until it is, once more."""
        return self._followed.get(timeout=WAIT)

    def was_followed(self) -> bool:
        """Whether it was, that nobody waited for."""
        return not self._followed.empty()


class World:
    """One node on a watched store, and others on the same. ``begun`` is set when a tool runs that
    ends when its turn is aborted."""

    def __init__(self, store: EventStore, place: Any, stack: ExitStack) -> None:
        self._place, self._stack = place, stack
        self.begun, self.cancelled = Event(), Event()
        self.store: Any = Watched(store)
        self.one = self.node(self.store)

    def node(self, on: Any = None) -> ActorSystem:
        store = self._place if on is None else on
        return self._stack.enter_context(ActorSystem(self._agent(), store=store))

    def _agent(self) -> Agent:
        @tool
        async def linger() -> str:
            self.begun.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "never"

        def model(request: ModelRequest) -> ModelTurn:
            if request.messages[-1] == UserMessage("linger"):
                return ModelTurn(tool_calls=(call("linger"),))
            return ModelTurn("done")

        return Agent("agent", model=model, tools=[linger])


@pytest.fixture
def world(
    opened: EventStore, store: str, store_kind: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setattr(following, "ROUND_SECONDS", 0.02)
    with ExitStack() as stack:
        yield World(opened, opened if store_kind == "memory" else store, stack)


def left_alone(world: World) -> None:
    """Have another node come and go, and the one stop following."""
    other = world.node()
    followed = world.store.is_followed()
    other.close()
    assert followed.closed.wait(WAIT)


def abort_elsewhere(world: World) -> None:
    """Have another node abort what lingers at the one, which hears of it from the log alone."""
    resumed = world.node().session("s").resume()
    assert resumed is not None
    assert resumed.abort().result(WAIT)
    assert world.cancelled.wait(WAIT)


def test_a_node_that_is_alone_again_follows_the_log_no_more(world: World) -> None:
    for _ in range(3):
        left_alone(world)
    assert not world.store.was_followed()
    assert world.one.session("s").send("hi").result(WAIT).text == "done"


def test_news_of_a_node_that_comes_later_are_heeded_all_the_same(world: World) -> None:
    left_alone(world)
    turn = world.one.session("s").send("linger")
    assert world.begun.wait(WAIT)
    abort_elsewhere(world)
    assert turn.result(WAIT).finish_reason == "aborted"
    assert not world.store.is_followed().closed.is_set()


def test_a_node_that_is_alone_follows_as_long_as_somebody_waits(world: World) -> None:
    follower = world.one._runtime.follower
    follower.await_others("s", waits=True)
    followed = world.store.is_followed()
    assert not followed.closed.wait(10 * following.ROUND_SECONDS)
    follower.await_others("s", waits=False)
    assert followed.closed.wait(WAIT)
