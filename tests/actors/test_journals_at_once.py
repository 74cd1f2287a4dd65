"""Runs of one id at once: one has it, and the others are told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest
from places import on_durable_stores
from stepping import WAIT, steps

from turnstream import Journal, JournalRun, StoreError
from turnstream.actors import audit_store
from turnstream.events import RunBusy, StepRefused, StoreUnavailable, TurnTakenOver, WouldDeadlock
from turnstream.stores import MemoryStore, SQLiteStore


class Held:
    """Work whose first step is under way until the test lets it end."""

    def __init__(self) -> None:
        self.begun, self.ends = SimpleQueue[None](), Event()
        self.done: list[str] = []

    def act(self, name: str) -> str:
        if name == "first":
            self.begun.put(None)
            assert self.ends.wait(WAIT)
        self.done.append(name)
        return name

    async def act_async(self, name: str) -> str:
        return await asyncio.to_thread(self.act, name)

    def work(self, run: JournalRun) -> list[str]:
        return [run.step(name, self.act, name) for name in ("first", "second")]


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.ends.set()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def test_in_one_journal_a_second_run_of_the_id_is_refused_and_others_are_not(
    held: Held, threads: ThreadPoolExecutor
) -> None:
    with Journal("memory://") as journal:
        first = threads.submit(journal.run, "r", held.work)
        held.begun.get(timeout=WAIT)
        for refused in (journal.run, journal.resume):
            with pytest.raises(RunBusy, match="under way") as caught:
                refused("r", held.work)
            assert caught.value.session_id == "r"
        with pytest.raises(RunBusy):
            journal.abandon("r")
        assert journal.run("other", lambda run: run.step("s", lambda: 1)) == 1
        held.ends.set()
        assert first.result(WAIT) == ["first", "second"]
        assert held.done == ["first", "second"]


def test_who_waits_comes_next_and_begins_anew(held: Held, threads: ThreadPoolExecutor) -> None:
    store = MemoryStore()
    with Journal(store, wait=WAIT) as journal:
        first = threads.submit(journal.run, "r", held.work)
        held.begun.get(timeout=WAIT)
        run = threads.submit(journal.run, "r", held.work)
        replayed = threads.submit(asyncio.run, resumed(journal, held))
        held.ends.set()
        results: list[Future[Any]] = [first, run, replayed]
        assert [each.result(WAIT) for each in results] == [["first", "second"]] * 3
    assert len(held.done) in (4, 6)
    assert [f for audited in audit_store(store) for f in audited.findings] == []


async def resumed(journal: Journal, held: Held) -> Any:
    async def work(run: JournalRun) -> list[str]:
        return [await run.step(name, held.act_async, name) for name in ("first", "second")]

    return await journal.resume("r", work)


@on_durable_stores
def test_what_another_journal_runs_is_refused_while_that_lives(
    held: Held, threads: ThreadPoolExecutor, address: str
) -> None:
    with Journal(address) as one, Journal(address) as other:
        first = threads.submit(one.run, "r", held.work)
        held.begun.get(timeout=WAIT)
        for refused in (other.run, other.resume):
            with pytest.raises(RunBusy):
                refused("r", held.work)
        with pytest.raises(RunBusy):
            other.abandon("r")
        held.ends.set()
        assert first.result(WAIT) == other.resume("r", held.work) == ["first", "second"]
    assert held.done == ["first", "second"]


@pytest.mark.parametrize("ends", [True, False])
def test_who_lost_its_run_is_told_and_records_nothing(
    held: Held, threads: ThreadPoolExecutor, tmp_path: Path, ends: bool
) -> None:
    path = tmp_path / "j.db"
    there = Held()
    there.ends.set()

    def winner(run: JournalRun) -> Any:
        value = run.step("first", there.act, "first")
        if not ends:
            held.ends.set()
            with pytest.raises(TurnTakenOver):
                loser.result(WAIT)
        return [value, run.step("second", there.act, "second")]

    with Journal(SQLiteStore(path)) as one, Journal(SQLiteStore(path), lease=0) as other:
        loser = threads.submit(one.run, "r", held.work)
        held.begun.get(timeout=WAIT)
        assert other.run("r", winner) == ["first", "second"]
        held.ends.set()
        with pytest.raises(TurnTakenOver, match="taken the run over") as caught:
            loser.result(WAIT)
        assert (caught.value.session_id, caught.value.turn_id) == ("r", "turn-1")
        assert held.done == ["first"]
        assert one.resume("r", held.work) == ["first", "second"]
    store = SQLiteStore(path)
    assert [each.name for each in steps(store.read("r"))] == ["first", "second"]
    assert [f for audited in audit_store(store) for f in audited.findings] == []


def test_an_abandoned_run_records_nothing_more(
    held: Held, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    path = tmp_path / "j.db"
    with Journal(SQLiteStore(path)) as one, Journal(SQLiteStore(path), lease=0) as other:
        loser = threads.submit(one.run, "r", held.work)
        held.begun.get(timeout=WAIT)
        assert other.abandon("r")
        held.ends.set()
        with pytest.raises(TurnTakenOver):
            loser.result(WAIT)
    assert steps(SQLiteStore(path).read("r")) == []


@on_durable_stores
def test_many_that_begin_at_once_run_it_once(threads: ThreadPoolExecutor, address: str) -> None:
    done = list[str]()

    def work(run: JournalRun) -> str:
        return run.step("act", lambda: done.append("acted") or "acted")

    def one() -> str:
        with Journal(address, wait=WAIT) as journal:
            return journal.resume("r", work)

    assert {each.result(WAIT) for each in [threads.submit(one) for _ in range(8)]} == {"acted"}
    assert done == ["acted"]


def test_async_runs_take_steps_side_by_side_and_replay_them() -> None:
    done: list[int] = []
    crash = [False, True]

    async def act(number: int) -> int:
        for _ in range(5 - number):
            await asyncio.sleep(0)
        done.append(number)
        return number

    async def lines(number: int) -> Any:
        for each in range(number):
            yield each

    async def inner(run: JournalRun, number: int) -> int:
        return await run.step("act", act, number)

    async def work(run: JournalRun) -> Any:
        found = await asyncio.gather(
            *(run.step("act", act, each) for each in range(3)),
            *(run.run("inner", inner, each) for each in range(3)),
        )
        read = [each async for each in run.step_stream("lines", lines, 2)]
        if crash.pop():
            raise ConnectionError
        return [found, read]

    async def main() -> Any:
        async with Journal("memory://") as journal:
            with pytest.raises(ConnectionError):
                await journal.run("r", work)
            first = await journal.run("r", work)
            return first, await journal.resume("r", work)

    first, again = asyncio.run(main())
    assert first == again == [[0, 1, 2, 0, 1, 2], [0, 1]]
    assert sorted(done) == [0, 0, 1, 1, 2, 2]


def test_a_cancelled_run_stays_open_and_is_gone_on_with() -> None:
    done: list[str] = []

    async def main() -> Any:
        reached = asyncio.Event()

        async def work(run: JournalRun) -> Any:
            first = await run.step("first", lambda: done.append("first") or "first")
            reached.set()
            if done == ["first"]:
                done.append("waited")
                await asyncio.Event().wait()
            return [first, await run.step("second", lambda: done.append("second"))]

        async with Journal("memory://") as journal:
            task = asyncio.ensure_future(journal.run("r", work))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [each.status for each in journal.runs()] == ["failed"]
            return await journal.run("r", work)

    assert asyncio.run(main()) == ["first", None]
    assert done == ["first", "waited", "second"]


def test_sync_work_does_not_block_an_event_loop() -> None:
    done: list[int] = []

    async def main() -> None:
        with Journal("memory://") as journal, pytest.raises(WouldDeadlock):
            journal.run("r", lambda run: done.append(1))

    asyncio.run(main())
    assert done == []


def test_what_gives_a_coroutine_without_being_async_is_refused() -> None:
    async def later() -> int:
        return 1

    with Journal("memory://") as journal, pytest.raises(StepRefused, match="async def"):
        journal.run("r", lambda run: later())


class Failing:
    """A real store that fails to take events of some topics."""

    def __init__(self, kept: MemoryStore, *topics: str) -> None:
        self._kept, self.topics = kept, topics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    def append(self, append: Any) -> Any:
        if any(each.topic in self.topics for each in append.events):
            raise StoreUnavailable("the disk is full")
        return self._kept.append(append)


@pytest.mark.parametrize(
    "topics",
    [
        ("turn_started",),
        ("step_recorded",),
        ("step_recorded", "turn_failed"),
        ("turn_finished",),
        ("turn_finished", "turn_failed"),
    ],
)
def test_whatever_the_store_fails_to_record_is_told_and_the_run_goes_on_later(
    topics: tuple[str, ...],
) -> None:
    done: list[str] = []
    store = Failing(MemoryStore(), *topics)
    given: list[str] = []

    def work(run: JournalRun) -> str:
        given.append(run.step("act", lambda: done.append("acted") or "acted"))
        return given[-1]

    opened: Any = store
    with Journal(opened) as journal:
        with pytest.raises(StoreError):
            journal.run("r", work)
        told = len(given)
        store.topics = ()
        assert journal.run("r", work) == "acted"
    recorded_before = "step_recorded" not in topics and "turn_started" not in topics
    assert told == recorded_before
    assert len(done) == (2 if "step_recorded" in topics else 1)
    assert [f for audited in audit_store(opened) for f in audited.findings] == []
