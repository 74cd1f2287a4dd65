"""No loop is held up: what would block one is refused, and nothing else does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, Session, Turn
from turnstream.actors.testing import ScriptedModel
from turnstream.events import CODEC, StoreError, WouldDeadlock
from turnstream.events.envelope import Replay
from turnstream.stores import Append, Appended, MemoryStore, open_store

WAIT = 20


async def types(turn: Turn) -> list[str]:
    return [item.type async for item in turn.stream()]


BLOCKING: dict[str, tuple[Callable[[Turn], Any], str]] = {
    "result": (lambda turn: turn.result(), "await"),
    "result with a time limit": (lambda turn: turn.result(timeout=1), "await"),
    "accepted": (lambda turn: turn.accepted().result(), "await"),
    "for": (lambda turn: list(turn.stream()), "async for"),
    "abort": (lambda turn: turn.abort().result(), "await"),
    "withdraw": (lambda turn: turn.withdraw().result(), "await"),
}


class Gated(MemoryStore):
    """A store that holds things up while ``let`` is not set: appends, where they are submitted or
    aside, or reads."""

    def __init__(self, holds: Literal["submits", "writes", "reads"]) -> None:
        super().__init__()
        self._holds = holds
        self.let, self.blocked = threading.Event(), threading.Event()

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        if self._holds == "writes":
            threading.Thread(target=self._submit, args=(append, done), daemon=True).start()
        else:
            self._submit(append, done)

    def replay(self, session_id: str, *, after: int = 0) -> Generator[Replay, None, None]:
        if self._holds == "reads":
            self._wait()
        yield from super().replay(session_id, after=after)

    def _submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        if self._holds != "reads":
            self._wait()
        super().submit(append, done)

    def _wait(self) -> None:
        self.blocked.set()
        assert self.let.wait(WAIT), "it was never let through"


every_wait = pytest.mark.parametrize("holds", ["submits", "writes", "reads"])


@pytest.mark.parametrize("how", BLOCKING)
def test_what_would_block_a_running_loop_is_refused_and_says_what_to_do(
    how: str,
) -> None:
    store = Gated("submits")
    with ActorSystem(Agent("agent", model=ScriptedModel(["hi"])), store=store) as system:
        turn = system.session("s").send("go")
        block, instead = BLOCKING[how]

        async def code() -> None:
            with pytest.raises(WouldDeadlock, match=instead) as refused:
                block(turn)
            assert refused.value.session_id == "s"

        try:
            asyncio.run(code())
        finally:
            store.let.set()


async def beat(store: Gated) -> None:
    """Let the store go on when the loop went round 100 times after that began to wait."""
    await asyncio.to_thread(store.blocked.wait, WAIT)
    for _ in range(100):
        await asyncio.sleep(0)
    store.let.set()


async def accepts(session: Session) -> None:
    await session.send("go").accepted()


async def awaits(session: Session) -> None:
    assert (await session.send("go")).text == "hi"


async def reads(session: Session) -> None:
    assert (await types(session.send("go")))[-1] == "turn.done"


async def executes(session: Session) -> None:
    assert (await session.execute("go")).text == "hi"


async def joins(session: Session) -> None:
    turn = session.send("go")
    joined = [turn.enqueue("more"), turn.steer("and more")]
    await asyncio.gather(turn, *joined)


async def aborts(session: Session) -> None:
    await session.send("go").abort()


async def withdraws(session: Session) -> None:
    session.send("go")
    await session.send("more").withdraw()


async def discards(session: Session) -> None:
    session.send("go")
    await session.discard_pending()


async def looks(session: Session) -> None:
    turn = session.send("go")
    assert (await session.view()).version >= 0
    await turn


async def leaves(session: Session) -> None:
    turn = session.send("go")
    async with turn.stream(abort_on_exit=True):
        pass
    await asyncio.gather(turn, return_exceptions=True)


SURFACE = [accepts, awaits, reads, executes, joins, aborts, withdraws, discards, looks, leaves]


@every_wait
@pytest.mark.parametrize("use", SURFACE)
def test_no_call_blocks_the_loop_while_the_store_does(
    use: Callable[[Session], Coroutine[Any, Any, None]], holds: Any
) -> None:
    store = Gated(holds)
    agent = Agent("agent", model=lambda request: "hi")

    async def main() -> None:
        async with ActorSystem(agent, store=store) as system:
            beating = asyncio.create_task(beat(store))
            await asyncio.wait_for(use(system.session("s")), WAIT)
            assert store.let.is_set()
            await beating

    asyncio.run(main())


@every_wait
def test_the_end_of_async_with_does_not_block_the_loop_and_waits_for_what_is_written(
    holds: Any,
) -> None:
    store = Gated(holds)

    async def main() -> Turn:
        async with ActorSystem(Agent("agent", model=lambda request: "hi"), store=store) as system:
            turn = system.session("s").send("go")
            beating = asyncio.create_task(beat(store))
        assert store.let.is_set()
        await beating
        return turn

    assert asyncio.run(main()).done()
    topics = [each.topic for each in store.read("s")]
    assert {"input_queued", "turn_started"} <= set(topics)


def test_after_async_with_no_thread_and_no_open_file_is_left(tmp_path: Path) -> None:
    def opened() -> list[str]:
        links = (each for each in Path("/proc/self/fd").glob("*") if each.exists())
        return [str(each.resolve()) for each in links if str(tmp_path) in str(each.resolve())]

    async def main() -> None:
        agent = Agent("agent", model=lambda request: "hi")
        async with ActorSystem(agent, store=f"sqlite:///{tmp_path}/s.db") as system:
            await system.session("s").send("go")
            assert opened() or sys.platform != "linux"
        assert not opened()

    before = set(threading.enumerate())
    asyncio.run(main())
    left = [each.name for each in threading.enumerate() if each not in before]
    assert not [name for name in left if name.startswith("turnstream")]


@on_durable_stores
def test_what_was_sent_before_close_is_on_disk_when_that_returns(address: str) -> None:
    command = [sys.executable, "-c", CLOSING, address]
    child = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=True)

    with closing(open_store(address)) as store:
        queued = [each for each in store.read("s") if each.topic == "input_queued"]
    assert child.stdout.strip() in [CODEC.recorded(each).event.input_id for each in queued]


CLOSING = """
import os, sys
from turnstream import ActorSystem, Agent

system = ActorSystem(Agent("agent", model=lambda request: "hi"), store=sys.argv[1])
turn = system.session("s").send("go")
system.close()
print(turn.accepted().result(), flush=True)
os._exit(0)
"""
