"""A stream and the store behind it: it shows what is durable, and ends where the store fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count, takewhile
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import pytest
from reading import FORMS, aside, ends_once, kinds, readers

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, Turn, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import ModelTurn, StoreBusy, StoreError, StoreUnavailable, UserMessage
from turnstream.stores import Append, Appended, MemoryStore, SQLiteStore

WAIT = 20

EVENTS = {
    "turn.started": {"turn_started", "turn_resumed"},
    "model.turn": {"model_turn_recorded"},
    "tool.started": {"tool_call_started"},
    "tool.result": {"tool_result_recorded"},
    "input.queued": {"input_queued"},
    "input.applied": {"input_applied"},
}


def check_versions(items: Sequence[Any], session: Session) -> None:
    """Each item that stands for an event has the version of one of its kind."""
    topics = {each.version: each.topic for each in session.events()}
    versions = [item.version for item in items if item.type in EVENTS]
    assert versions == sorted(set(versions))
    for item in items:
        if item.type in EVENTS:
            assert topics[item.version] in EVENTS[item.type]
    if any(item.type == "turn.done" and item.result for item in items):
        assert "turn_finished" in topics.values()


class Failing(SQLiteStore):
    """A store of which one append fails; nothing can be read from it while it is ``blind``."""

    fails, blind = 0, False

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        self._appends = getattr(self, "_appends", count(1))
        if next(self._appends) == self.fails:
            done(StoreUnavailable("the disk is full"))
        else:
            super().submit(append, done)

    def replay(self, session_id: str, *, after: int = 0) -> Any:
        if self.blind:
            raise StoreBusy("held by another")
        return super().replay(session_id, after=after)


def stream_with_a_failing_append(store: Failing) -> bool:
    """Whether the append that was to fail was made."""
    joined: list[Turn] = []

    @tool
    def ask_more() -> str:
        if not joined:
            joined.append(session.send("more", policy="queue"))
        return "asked"

    def model(request: ModelRequest) -> ModelTurn:
        first = request.messages[-1] == UserMessage("go")
        return ModelTurn(tool_calls=(call("ask_more"),)) if first else ModelTurn("done")

    with ActorSystem(Agent("agent", model=model, tools=[ask_more]), store=store) as system:
        session = system.session("s")
        turn = session.send("go")
        items, same = (reading.result(WAIT) for reading in readers(turn))
        assert items == same and ends_once(items)
        check_versions(items, session)
        for other in joined:
            assert all(ends_once(reading.result(WAIT)) for reading in readers(other))
        failed = items[-1].finish_reason == "error"
        if failed:
            assert (items[-2].type, items[-2].code) == ("error", "store-unavailable")
            with pytest.raises(StoreUnavailable):
                turn.result(WAIT)
        store.fails = 0
        assert session.send("again").result(WAIT).text == "done"
    return failed


def test_whichever_append_fails_no_stream_hangs_and_none_shows_what_was_not_stored(
    tmp_path: Path,
) -> None:
    def failed(fails: int) -> bool:
        with closing(Failing(tmp_path / f"{fails}.db")) as store:
            store.fails = fails
            return stream_with_a_failing_append(store)

    assert len([*takewhile(failed, count(1))]) > 3


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_of_a_session_that_can_not_be_loaded_ends_with_the_error(
    tmp_path: Path, form: Callable[[Turn], list[Any]]
) -> None:
    store = Failing(tmp_path / "s.db")
    with ActorSystem(Agent("agent", model=ScriptedModel(["hello"])), store=store) as system:
        store.blind = True
        turn = system.session("s").send("hi")
        items = aside(form, turn).result(WAIT)
        assert kinds(items) == ["error", "turn.done"] and items[0].code == "store-busy"
        store.blind = False
        assert kinds(form(system.session("s").send("hi")))[-2:] == ["model.turn", "turn.done"]
    store.close()


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Gated(MemoryStore):
    """A store that makes every append wait for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: SimpleQueue[Event | None] = SimpleQueue()

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        gate = Event()

        def write() -> None:
            gate.wait(WAIT)
            MemoryStore.submit(self, append, done)

        Thread(target=write, daemon=True).start()
        self.waiting.put(gate)


def test_an_item_that_stands_for_an_event_comes_after_it_is_durable(
    switching_often: None,
) -> None:
    store, items = Gated(), list[Any]()
    agent = Agent("agent", model=ScriptedModel([[call("add", a=1, b=2)], "3"]), tools=[add])

    async def follow(turn: Turn) -> None:
        async for item in turn.stream():
            items.append(item)
        store.waiting.put(None)

    async def main() -> None:
        async with ActorSystem(agent, store=store) as system:
            session = system.session("s")
            following = asyncio.create_task(follow(session.send("1 + 2?")))
            while gate := await asyncio.to_thread(store.waiting.get, timeout=WAIT):
                for _ in range(50):
                    await asyncio.sleep(0)
                check_versions(items, session)
                gate.set()
            await following
            check_versions(items, session)

    asyncio.run(main())
    assert {item.type for item in items} >= EVENTS.keys() - {"input.queued", "input.applied"}
