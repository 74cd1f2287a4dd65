"""A SQLite store from opening to closing: threads, handles, event loops, leftovers."""

import asyncio
import gc
import sqlite3
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import pytest

from turnstream.events.errors import StoreClosed, StoreError, StoreUnavailable
from turnstream.stores import Appended, SQLiteStore
from turnstream.stores.specimens import PATIENCE, append_of, following, texts, together


def open_files(path: Path) -> list[Path]:
    """What this process has open in the store's directory."""
    handles = [handle for handle in Path("/proc/self/fd").iterdir() if handle.is_symlink()]
    places = [handle.readlink() for handle in handles]
    return [place for place in places if path.parent in place.parents]


def busy(store: SQLiteStore) -> None:
    """Use everything a store can start or open."""
    together(8, lambda k: [store.append(append_of(f"s{k}", n, "x")) for n in range(10)])
    together(8, lambda k: [store.read(f"s{k}") for _ in range(10)])
    following(store.subscribe()).get(timeout=PATIENCE)


def test_a_closed_store_leaves_no_thread_no_handle_and_no_log(path: Path) -> None:
    before = {*threading.enumerate()}
    store = SQLiteStore(path)
    read = following(store.subscribe())
    busy(store)
    assert open_files(path)
    store.close()
    while read.get(timeout=PATIENCE) is not None:
        pass
    assert open_files(path) == []
    assert {t for t in threading.enumerate() if t.name == "turnstream-committer"} <= before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_store_refused_at_opening_leaves_no_handle(path: Path) -> None:
    path.write_text("no database " * 1000)
    for _ in range(3):
        with pytest.raises(Exception, match="database"):
            SQLiteStore(path)
    assert open_files(path) == []


def test_a_store_that_nobody_closed_is_released_with_its_last_reference(path: Path) -> None:
    store = SQLiteStore(path)
    store.append(append_of("s", 0, "a"))
    store.read("s")
    del store
    gc.collect()
    assert open_files(path) == []


def test_appends_submitted_before_closing_are_durable(path: Path) -> None:
    store, answers = SQLiteStore(path), SimpleQueue[object]()
    together(8, lambda k: [store.submit(append_of(f"s{k}", n, "x"), answers.put) for n in range(9)])
    store.close()
    assert answers.qsize() == 72
    with closing(SQLiteStore(path)) as store:
        assert [row.version for row in store.sessions()] == [9] * 8


def test_a_store_closed_in_the_middle_of_work_answers_everybody(path: Path) -> None:
    store, closing_now = SQLiteStore(path), Event()
    written = [0] * 8

    def work(number: int) -> None:
        try:
            while True:
                store.append(append_of(f"s{number}", written[number], "x"))
                written[number] += 1
                store.read(f"s{number}")
                if number == 0 and written[0] == 20:
                    closing_now.set()
        except StoreClosed:
            pass

    closer = Thread(target=lambda: closing_now.wait(PATIENCE) and store.close())
    closer.start()
    together(8, work)
    closer.join(PATIENCE)
    assert open_files(path) == []
    with closing(SQLiteStore(path)) as again:
        assert [len(again.read(f"s{n}")) for n in range(8)] == written


def test_a_store_made_in_one_thread_is_used_and_closed_in_others(path: Path) -> None:
    made = SimpleQueue[SQLiteStore]()
    Thread(target=lambda: made.put(SQLiteStore(path))).start()
    store = made.get(timeout=PATIENCE)
    together(8, lambda k: [store.append(append_of(f"s{k}", n, "x")) for n in range(5)])
    assert len(store.read_all()) == 40
    closer = Thread(target=store.close)
    closer.start()
    closer.join(PATIENCE)
    with pytest.raises(StoreClosed, match=path.name):
        store.read("s0")


def test_two_event_loops_can_use_one_store(path: Path) -> None:
    async def append(store: SQLiteStore, sid: str) -> None:
        loop = asyncio.get_running_loop()

        def tell(answer: asyncio.Future[Any], outcome: Appended | StoreError) -> None:
            loop.call_soon_threadsafe(answer.set_result, outcome)

        for n in range(10):
            answer = loop.create_future()
            store.submit(append_of(sid, n, "x"), partial(tell, answer))
            assert (await answer).version == n + 1

    async def both(store: SQLiteStore, number: int) -> None:
        await asyncio.gather(append(store, f"a{number}"), append(store, f"b{number}"))

    with closing(SQLiteStore(path)) as store:
        together(2, lambda k: asyncio.run(both(store, k)))
        assert sorted(row.session_id for row in store.sessions()) == ["a0", "a1", "b0", "b1"]
        assert {row.version for row in store.sessions()} == {10}


def test_a_task_cancelled_before_it_appends_leaves_nothing_and_its_sibling_all(path: Path) -> None:
    async def append(store: SQLiteStore, sid: str, gate: asyncio.Event) -> None:
        events = []
        for n in range(3):
            events.append(str(n))
            await gate.wait()
        await asyncio.to_thread(store.append, append_of(sid, 0, *events))

    async def run(store: SQLiteStore) -> None:
        gate = asyncio.Event()
        cancelled = asyncio.create_task(append(store, "cancelled", gate))
        kept = asyncio.create_task(append(store, "kept", gate))
        await asyncio.sleep(0)
        cancelled.cancel()
        gate.set()
        await asyncio.gather(cancelled, kept, return_exceptions=True)

    with closing(SQLiteStore(path)) as store:
        asyncio.run(run(store))
        assert texts(store.read("kept")) == ["0", "1", "2"]
        assert [record.session_id for record in store.read_all()] == ["kept"] * 3


def test_in_memory_stores_keep_everything_for_every_thread_and_are_independent() -> None:
    with closing(SQLiteStore()) as one, closing(SQLiteStore()) as other:
        together(8, lambda k: [one.append(append_of(f"s{k}", n, "x")) for n in range(20)])
        together(8, lambda k: one.read(f"s{k}"))
        assert [row.version for row in one.sessions()] == [20] * 8
        assert list(other.read_all()) == []


def test_a_file_that_vanished_is_not_replaced_by_an_empty_one(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        store.append(append_of("s", 0, "a"))
        path.rename(path.with_name("moved.db"))
        with (
            store._datastore.reading(),  # the connection that is there already
            pytest.raises(StoreUnavailable, match=path.name),
        ):
            store.read("s")
        assert not path.exists()


def test_a_reader_at_work_in_the_file_keeps_no_writer_waiting(path: Path) -> None:
    with closing(SQLiteStore(path, timeout=0)) as store:
        store.append(append_of("s", 0, "a"))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM stored_events").fetchone() == (1,)
            assert store.append(append_of("s", 1, "b")).version == 2
            assert reader.execute("SELECT count(*) FROM stored_events").fetchone() == (1,)
