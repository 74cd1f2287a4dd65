"""Several processes on one file: locks, races, kills."""

import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import monotonic

import pytest

from turnstream.events.errors import StoreBusy
from turnstream.stores import SQLiteStore
from turnstream.stores.specimens import PATIENCE, append_of, following, texts

StartChild = Callable[..., "subprocess.Popen[str]"]

APPEND_FOR_EVER = """
import sys
from turnstream.stores import open_store
from turnstream.stores.specimens import append_of
store = open_store(sys.argv[1])
size, version = int(sys.argv[2]), 0
while True:
    texts = [f"{version // size}." + "x" * 2000] * size
    version = store.append(append_of("s", version, *texts)).version
    print(version, flush=True)
"""
APPEND_FROM_THREADS = """
import sys
from turnstream.events.errors import WrongExpectedVersion
from turnstream.stores import open_store
from turnstream.stores.specimens import append_of, together
url, name, threads, appends = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sys.stdin.readline()

def work(number):
    store, version = open_store(url), 0
    for n in range(appends):
        while True:
            try:
                version = store.append(append_of("s", version, f"{name}.{number}.{n}")).version
                break
            except WrongExpectedVersion as error:
                version = error.actual
    store.close()

together(threads, work)
"""
APPEND_TO_OWN_SESSION = """
import sys
from turnstream.stores import open_store
from turnstream.stores.specimens import append_of
with_store = open_store(sys.argv[1])
sys.stdin.readline()
for n in range(int(sys.argv[3])):
    with_store.append(append_of(sys.argv[2], n, "x" * 300))
with_store.close()
"""
HOLD_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""
DRAW_GENERATIONS = """
import sys
from turnstream.stores import open_store
store = open_store(sys.argv[1])
print([store.next_generation() for _ in range(50)])
"""


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def integrity(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])


@pytest.mark.parametrize("synchronous", ["full", "normal"])
@pytest.mark.parametrize("acknowledged", [1, 7, 40])
def test_what_was_acknowledged_outlives_a_kill_and_nothing_is_half(
    acknowledged: int, synchronous: str, path: Path, start_child: StartChild
) -> None:
    killed_while_appending(path, start_child, acknowledged, f"?synchronous={synchronous}")


@pytest.mark.slow
def test_what_was_acknowledged_outlives_many_kills_at_any_moment(
    tmp_path: Path, start_child: StartChild
) -> None:
    for n in range(40):
        killed_while_appending(tmp_path / f"{n}.db", start_child, 1 + n * 13 % 61)


def killed_while_appending(
    path: Path, start_child: StartChild, acknowledged: int, options: str = ""
) -> None:
    child = start_child(APPEND_FOR_EVER, url(path) + options, 3)
    assert child.stdout is not None
    for _ in range(acknowledged):
        assert child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    told = [int(line) for line in child.stdout.read().split()] or [3 * acknowledged]
    with closing(SQLiteStore(path)) as store:
        records = store.read("s")
        assert len(records) >= told[-1]
        assert len(records) % 3 == 0
        assert texts(records) == [f"{n // 3}." + "x" * 2000 for n in range(len(records))]
        row = store.session("s")
        assert row is not None
        assert row.version == len(records)
        assert store.append(append_of("s", row.version, "on")).version == row.version + 1
    assert integrity(path) == "ok"


@pytest.mark.parametrize(
    ("processes", "threads", "appends"),
    [(3, 4, 5), pytest.param(4, 16, 5, marks=pytest.mark.slow)],
)
def test_first_writers_of_a_new_session_in_a_new_file_all_get_through(
    processes: int, threads: int, appends: int, path: Path, start_child: StartChild
) -> None:
    children = [
        start_child(APPEND_FROM_THREADS, url(path) + "?timeout=30", k, threads, appends)
        for k in range(processes)
    ]
    release(children)
    with closing(SQLiteStore(path)) as store:
        records = store.read("s")
        assert [record.version for record in records] == [*range(1, len(records) + 1)]
        assert sorted(texts(records)) == sorted(
            f"{k}.{t}.{n}" for k in range(processes) for t in range(threads) for n in range(appends)
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "appends"), [(4, 50), pytest.param(16, 250, marks=pytest.mark.slow)]
)
def test_processes_that_write_at_once_wait_for_each_other(
    processes: int, appends: int, path: Path, start_child: StartChild
) -> None:
    children = [
        start_child(APPEND_TO_OWN_SESSION, url(path), f"s{k}", appends) for k in range(processes)
    ]
    release(children)
    with closing(SQLiteStore(path)) as store:
        assert [row.version for row in store.sessions()] == [appends] * processes
    assert integrity(path) == "ok"


def release(children: list["subprocess.Popen[str]"]) -> None:
    """Let the children begin, and wait until each has done its work."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [child.wait(PATIENCE * 2) for child in children] == [0] * len(children)


def test_a_writer_waits_for_a_lock_and_readers_do_not(path: Path, start_child: StartChild) -> None:
    with closing(SQLiteStore(path, timeout=30)) as store:
        store.append(append_of("s", 0, "a"))
        holder = hold_lock(path, start_child)
        answers = SimpleQueue[object]()
        waiting = Thread(target=store.submit, args=(append_of("s", 1, "b"), answers.put))
        waiting.start()
        assert texts(store.read("s")) == ["a"]
        assert answers.empty()
        let_go(holder)
        waiting.join(PATIENCE)
        assert texts(store.read("s")) == ["a", "b"]


@pytest.mark.slow
def test_a_lock_held_for_three_seconds_delays_writers_and_nothing_more(
    path: Path, start_child: StartChild
) -> None:
    with closing(SQLiteStore(path)) as store:
        holder = hold_lock(path, start_child)
        answers = SimpleQueue[object]()
        begun = monotonic()
        waiting = [
            Thread(target=store.append, args=(append_of(f"s{n}", 0, "a"),)) for n in range(8)
        ]
        for thread in waiting:
            thread.start()
        waiting[0].join(3)
        let_go(holder)
        for thread in waiting:
            thread.join(PATIENCE)
        assert monotonic() - begun >= 3
        assert len(store.sessions()) == 8
        assert answers.empty()


def test_a_lock_held_beyond_the_timeout_is_store_busy_for_everyone_and_then_all_is_well(
    path: Path, start_child: StartChild
) -> None:
    with closing(SQLiteStore(path, timeout=0.2)) as store:
        holder = hold_lock(path, start_child)
        answers = SimpleQueue[object]()
        threads = [
            Thread(target=store.submit, args=(append_of(f"s{n}", 0, "a"), answers.put))
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        refused = [answers.get(timeout=PATIENCE) for _ in threads]
        assert [type(answer) for answer in refused] == [StoreBusy] * 4
        assert path.name in str(refused[0])
        let_go(holder)
        assert store.append(append_of("s", 0, "a")).version == 1
        assert [row.session_id for row in store.sessions()] == ["s"]


def hold_lock(path: Path, start_child: StartChild) -> "subprocess.Popen[str]":
    holder = start_child(HOLD_THE_LOCK, path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def let_go(holder: "subprocess.Popen[str]") -> None:
    assert holder.stdin is not None
    holder.stdin.write("go\n")
    holder.stdin.flush()


def test_a_lock_whose_holder_is_killed_is_free(path: Path, start_child: StartChild) -> None:
    with closing(SQLiteStore(path, timeout=30)) as store:
        hold_lock(path, start_child).kill()
        assert store.append(append_of("s", 0, "a")).version == 1


def test_generations_rise_across_processes(path: Path, start_child: StartChild) -> None:
    children = [start_child(DRAW_GENERATIONS, url(path)) for _ in range(3)]
    drawn = [number for child in children for number in numbers(child.communicate()[0])]
    assert sorted(drawn) == [*range(1, 151)]


def numbers(printed: str) -> list[int]:
    return [int(number) for number in printed.strip("[]\n").split(",")]


def test_a_subscription_sees_what_other_processes_commit(
    path: Path, start_child: StartChild
) -> None:
    with closing(SQLiteStore(path)) as store, store.subscribe() as log:
        read = following(log)
        children = [start_child(APPEND_TO_OWN_SESSION, url(path), f"s{k}", 50) for k in range(2)]
        release(children)
        records = [read.get(timeout=PATIENCE) for _ in range(100)]
        assert records == store.read_all()
