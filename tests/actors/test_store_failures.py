"""A store that fails in the middle: everybody hears of it, nothing accepted is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AssistantMessage,
    ModelTurn,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    ToolMessage,
    UserMessage,
)
from turnstream.stores import Append, Appended, EventStore, open_store

WAIT = 20


class Faulty:
    """A real store whose k-th append fails, before or after it was written, on another thread
    or at once. Reads fail while ``blind``."""

    def __init__(self, store: EventStore, fails: int, error: StoreError, *, aside: bool) -> None:
        self._store, self._fails, self._error, self._aside = store, fails, error, aside
        self.appends = 0
        self.blind = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        self.appends += 1
        if self.appends != self._fails:
            self._store.submit(append, done)
        elif self._aside:
            threading.Thread(target=done, args=(self._error,), daemon=True).start()
        else:
            done(self._error)

    def replay(self, session_id: str, **places: Any) -> Any:
        if self.blind:
            raise self._error
        yield from self._store.replay(session_id, **places)


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def answer(request: Any) -> Any:
    """Asks for two sums, then answers: from the transcript alone."""
    if isinstance(request.messages[-1], ToolMessage):
        return ModelTurn("done")
    if request.messages[-1] == UserMessage("sums"):
        return ModelTurn(tool_calls=(call("add", a=1, b=1, id="x"), call("add", a=2, b=2, id="y")))
    return ModelTurn("hello")


@on_durable_stores
@pytest.mark.parametrize("aside", [False, True], ids=["at once", "aside"])
@pytest.mark.parametrize("fails", range(1, 6))
def test_whichever_append_fails_the_caller_hears_it_and_the_session_goes_on(
    address: str, fails: int, aside: bool
) -> None:
    error = StoreUnavailable("the disk is full")
    with closing(open_store(address)) as real:
        store = Faulty(real, fails, error, aside=aside)
        agent = Agent("agent", model=answer, tools=[add])
        with ActorSystem(agent, store=store) as system:  # type: ignore[arg-type]
            session = system.session("s")
            turn = session.send("sums")
            items = [item.type for item in turn.stream()]
            assert items[-2:] == ["error", "turn.done"]
            with pytest.raises(StoreUnavailable, match="disk is full"):
                turn.result(WAIT)
            assert session.send("sums").result(WAIT).text == "done"
            assert session.send("hi").result(WAIT).text == "hello"
            kinds = [type(each) for each in session.messages]
    assert kinds[:5] == [
        UserMessage,
        AssistantMessage,
        ToolMessage,
        ToolMessage,
        AssistantMessage,
    ]
    assert kinds.count(ToolMessage) == 2


@on_durable_stores
def test_a_store_that_can_not_be_read_fails_the_request_and_serves_the_next(
    address: str,
) -> None:
    error = StoreBusy("held by another")
    with closing(open_store(address)) as real:
        store = Faulty(real, 0, error, aside=False)
        store.blind = True
        agent = Agent("agent", model=ScriptedModel(["hello"]))
        with ActorSystem(agent, store=store) as system:  # type: ignore[arg-type]
            with pytest.raises(StoreBusy):
                system.session("s").send("hi").result(WAIT)
            store.blind = False
            assert system.session("s").send("hi").result(WAIT).text == "hello"
