"""Forks with stores open: neither side takes anything from the other."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from turnstream.events.errors import StoreClosed
from turnstream.stores import MemoryStore, SQLiteStore
from turnstream.stores.specimens import PATIENCE, append_of, following, texts

pytestmark = pytest.mark.filterwarnings("ignore:.*is multi-threaded:DeprecationWarning")


class Child:
    """A forked process that does one thing after the other when it is told to."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        (self._told, tell), (answer, self._answer) = os.pipe(), os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            for step in steps:
                os.read(self._told, 1)
                os.write(self._answer, outcome(step).encode())
            os._exit(0)
        self._tell, self._answered = tell, answer

    def step(self) -> str:
        """What the next step came to: ``done``, or the name of the error it raised."""
        os.write(self._tell, b".")
        return os.read(self._answered, 100).decode()

    def ended(self) -> bool:
        return os.waitpid(self._pid, 0)[1] == 0


def outcome(step: Callable[[], object]) -> str:
    try:
        step()
    except BaseException as error:
        return type(error).__name__
    return "done"


@contextmanager
def at_work(*works: Callable[[], object]) -> Iterator[None]:
    """Each of these, again and again, in a thread of its own."""
    over = Event()

    def repeat(work: Callable[[], object]) -> None:
        while not over.is_set():
            work()

    threads = [Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def appending(store: SQLiteStore, sid: str) -> Callable[[], None]:
    version = 0

    def append() -> None:
        nonlocal version
        version = store.append(append_of(sid, version, str(version))).version

    return append


def integrity(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])


def test_a_store_opened_before_a_fork_works_in_the_child_and_in_the_parent(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        store.append(append_of("s", 0, "parent"))
        child = Child(lambda: store.append(append_of("s", 1, "child")), store.close)
        assert [child.step(), child.step()] == ["done", "done"]
        assert texts(store.read("s")) == ["parent", "child"]
        assert store.append(append_of("s", 2, "parent")).version == 3
        assert child.ended()
    assert integrity(path) == "ok"


def test_a_parent_that_closes_takes_no_log_from_under_its_child(path: Path) -> None:
    store = SQLiteStore(path)
    store.append(append_of("s", 0, "parent"))
    store.read("s")
    child = Child(*(lambda n=n: store.append(append_of("s", n, "child")) for n in (1, 2)))
    assert child.step() == "done"
    store.close()
    assert child.step() == "done"
    with closing(SQLiteStore(path)) as other:
        assert texts(other.read("s")) == ["parent", "child", "child"]
    assert child.ended()
    assert integrity(path) == "ok"


def test_a_child_that_closes_takes_no_log_from_under_its_parent(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        store.append(append_of("s", 0, "parent"))
        child = Child(lambda: store.append(append_of("s", 1, "child")), store.close)
        store.append(append_of("t", 0, "parent"))
        assert [child.step(), child.step()] == ["done", "done"]
        assert child.ended()
        store.append(append_of("t", 1, "parent"))
        with closing(SQLiteStore(path)) as other:
            assert [len(other.read(sid)) for sid in "st"] == [2, 2]


@pytest.mark.slow
def test_a_fork_in_the_middle_of_everything_disturbs_nobody(path: Path) -> None:
    with closing(SQLiteStore(path, synchronous="normal")) as store:
        follower = store.subscribe()
        followed = following(follower)
        works = [appending(store, f"parent{n}") for n in range(4)]
        reads = [lambda: store.read("parent0"), store.read_all, store.sessions]
        with at_work(*works, *reads):
            for n in range(6):
                child = Child(*[appending(store, f"child{n}")] * 5)
                assert [child.step() for _ in range(5)] == ["done"] * 5
                assert child.ended()
        log = store.read_all(limit=10**6)
        for record in log:
            assert followed.get(timeout=PATIENCE) == record
        for row in store.sessions():
            records = store.read(row.session_id)
            assert texts(records) == [str(v) for v in range(row.version)]
        assert sum(row.version == 5 for row in store.sessions() if "child" in row.session_id) == 6
        follower.close()
    assert integrity(path) == "ok"


def test_what_belongs_to_the_parent_says_so_in_the_child(path: Path) -> None:
    with closing(SQLiteStore(path)) as store, store.subscribe() as follower:
        store.append(append_of("s", 0, "a"))
        recorder = store.recorder
        child = Child(
            lambda: next(iter(follower)),
            lambda: recorder.insert_events([]),
            follower.close,
            lambda: store.read("s"),
        )
        assert [child.step() for _ in range(4)] == ["StoreClosed", "done", "done", "done"]
        assert child.ended()
        assert next(iter(follower)).payload == b"a"


@pytest.mark.parametrize("opened", [SQLiteStore, MemoryStore])
def test_a_store_in_memory_is_as_it_was_for_the_parent(
    opened: type[SQLiteStore] | type[MemoryStore],
) -> None:
    with closing(opened()) as store:
        store.append(append_of("s", 0, "a"))
        child = Child(lambda: store.append(append_of("s", 1, "b")))
        child.step()
        assert child.ended()
        assert texts(store.read("s")) == ["a"]


def test_a_sqlite_store_in_memory_stays_with_its_process_and_says_so() -> None:
    with closing(SQLiteStore()) as store:
        child = Child(lambda: store.read("s"), store.next_generation, store.close)
        assert [child.step() for _ in range(3)] == ["StoreClosed", "StoreClosed", "done"]
        assert child.ended()


def test_a_closed_store_stays_closed_in_a_child(path: Path) -> None:
    store = SQLiteStore(path)
    store.close()
    child = Child(lambda: store.read("s"))
    assert child.step() == StoreClosed.__name__
    assert child.ended()
