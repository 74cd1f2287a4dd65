"""Several processes on one directory of files: locks, races, kills."""

import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from random import Random
from threading import Thread

import pytest

from turnstream.events.errors import StoreBusy
from turnstream.stores import JSONLStore
from turnstream.stores.specimens import PATIENCE, append_of, following, texts

StartChild = Callable[..., "subprocess.Popen[str]"]

APPEND_FOR_EVER = """
import sys
from turnstream.stores import open_store
from turnstream.stores.specimens import append_of
store = open_store(sys.argv[1])
sid, size, version = sys.argv[2], int(sys.argv[3]), 0
row = store.session(sid)
version = row.version if row else 0
while True:
    texts = [f"{version // size}." + "x" * 2000] * size
    version = store.append(append_of(sid, version, *texts)).version
    print(version, flush=True)
"""
LIVE = """
import sys
from turnstream.events.envelope import EncodedEvent
from turnstream.stores import open_store
from turnstream.stores.specimens import append_of
store = open_store(sys.argv[1] + "?timeout=30")
name, begun = sys.argv[2], int(sys.argv[3])
for n in range(begun, begun + 10_000):
    a, b = f"{name}-{n}-a", f"{name}-{n}-b"
    store.append(append_of(a, 0, "secret", "2"))
    store.append(append_of(b, 0, *["x" * 3000] * 3))
    print("appended", a, 2, flush=True)
    print("appended", b, 3, flush=True)
    store.erase(append_of(a, 2, "3"), {1: EncodedEvent("noted", b"gone")})
    print("erased", a, 3, flush=True)
    store.delete(b)
    print("deleted", b, 0, flush=True)
    if n % 7 == 6:
        store.compact()
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
store = open_store(sys.argv[1] + "?timeout=30")
sys.stdin.readline()
for n in range(int(sys.argv[3])):
    store.append(append_of(sys.argv[2], n, "x" * 300))
store.close()
"""
HOLD_THE_LOCK = """
import sys
from turnstream.stores import open_store
store = open_store(sys.argv[1])
with store._directory.files.lock.held():
    print("held", flush=True)
    sys.stdin.readline()
"""
DRAW_GENERATIONS = """
import sys
from turnstream.stores import open_store
store = open_store(sys.argv[1])
print([store.next_generation() for _ in range(50)])
"""


def url(path: Path) -> str:
    return f"jsonl:///{path}"


def checked(store: JSONLStore) -> None:
    """Nothing is wrong, all positions rise, and the log and the streams say the same."""
    log = store.read_all(limit=10**6)
    positions = [record.position for record in log]
    assert positions == sorted({*positions})
    streams = [record for sid in store.stream_ids(limit=10**6) for record in store.read(sid)]
    assert sorted(streams) == log
    assert {row.session_id: row.version for row in store.sessions()} == {
        record.session_id: record.version for record in log
    }
    assert [line for line in store.check() if ".torn" not in line] == []


@pytest.mark.parametrize("acknowledged", [1, 7, 40])
def test_what_was_acknowledged_outlives_a_kill_and_nothing_is_half(
    acknowledged: int, tmp_path: Path, start_child: StartChild
) -> None:
    killed_while_appending(tmp_path / "streams", start_child, acknowledged)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_was_acknowledged_outlives_many_kills_at_any_moment(
    tmp_path: Path, start_child: StartChild
) -> None:
    for n in range(40):
        killed_while_appending(tmp_path / str(n), start_child, 1 + n * 13 % 61)


def killed_while_appending(path: Path, start_child: StartChild, acknowledged: int) -> None:
    child = start_child(APPEND_FOR_EVER, url(path), "s", 3)
    assert child.stdout is not None
    for _ in range(acknowledged):
        assert child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    told = [int(line) for line in child.stdout.read().split()] or [3 * acknowledged]
    with closing(JSONLStore(path)) as store:
        records = store.read("s")
        assert len(records) >= told[-1]
        assert len(records) % 3 == 0
        assert texts(records) == [f"{n // 3}." + "x" * 2000 for n in range(len(records))]
        row = store.session("s")
        assert row is not None
        assert row.version == len(records)
        assert store.append(append_of("s", row.version, "on")).version == row.version + 1
        checked(store)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_of_processes_killed_at_random_moments_nothing_acknowledged_is_lost(
    tmp_path: Path, start_child: StartChild
) -> None:
    """Three at a time append, erase, delete and compact; one after the other is killed, and the
    others go on beside what it left."""
    path, random = tmp_path / "streams", Random(7)
    living = [start_child(LIVE, url(path), f"p{k}", 0) for k in range(3)]
    told: list[str] = []
    for n in range(30):
        victim = living[n % 3]
        assert victim.stdout is not None
        for _ in range(random.randrange(1, 25)):
            line = victim.stdout.readline()
            assert line, "a process died by itself"
            told.append(line)
        victim.kill()
        told += victim.stdout.readlines()
        living[n % 3] = start_child(LIVE, url(path), f"q{n}", 0)
    for child in living:
        child.kill()
        assert child.stdout is not None
        told += child.stdout.readlines()
    with closing(JSONLStore(path)) as store:
        stands = {words[1]: words for line in told if len(words := line.split()) == 3}
        assert len(stands) > 100
        for sid, (what, _, count) in stands.items():
            held(store, sid, what, int(count))
        checked(store)


def held(store: JSONLStore, sid: str, what: str, count: int) -> None:
    """What was told of the session is so, or what came next, and was not told any more, is."""
    records = store.read(sid)
    match what:
        case "deleted":
            assert list(records) == [] and store.session(sid) is None
        case "erased":
            assert texts(records) == ["gone", "2", "3"]
        case _:
            assert texts(records) in (
                ["secret", "2"],
                ["gone", "2", "3"],
                ["x" * 3000] * 3,
                *([[]] if sid.endswith("b") else []),
            )
            assert len(records) >= count or not records


@pytest.mark.parametrize(
    ("processes", "threads", "appends"),
    [(3, 4, 5), pytest.param(4, 16, 5, marks=pytest.mark.slow)],
)
def test_first_writers_of_a_new_session_in_a_new_directory_all_get_through(
    processes: int, threads: int, appends: int, tmp_path: Path, start_child: StartChild
) -> None:
    path = tmp_path / "streams"
    children = [
        start_child(APPEND_FROM_THREADS, url(path) + "?timeout=30", k, threads, appends)
        for k in range(processes)
    ]
    release(children)
    with closing(JSONLStore(path)) as store:
        records = store.read("s")
        assert [record.version for record in records] == [*range(1, len(records) + 1)]
        assert sorted(texts(records)) == sorted(
            f"{k}.{t}.{n}" for k in range(processes) for t in range(threads) for n in range(appends)
        )
        checked(store)


@pytest.mark.parametrize(
    ("processes", "appends"), [(4, 50), pytest.param(16, 250, marks=pytest.mark.slow)]
)
def test_processes_that_write_at_once_wait_for_each_other(
    processes: int, appends: int, tmp_path: Path, start_child: StartChild
) -> None:
    path = tmp_path / "streams"
    children = [
        start_child(APPEND_TO_OWN_SESSION, url(path), f"s{k}", appends) for k in range(processes)
    ]
    release(children)
    with closing(JSONLStore(path)) as store:
        assert [row.version for row in store.sessions()] == [appends] * processes
        checked(store)


def release(children: list["subprocess.Popen[str]"]) -> None:
    """Let the children begin, and wait until each has done its work."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [child.wait(PATIENCE * 2) for child in children] == [0] * len(children)


def test_a_writer_waits_for_a_lock_and_readers_do_not(
    tmp_path: Path, start_child: StartChild
) -> None:
    path = tmp_path / "streams"
    with closing(JSONLStore(path, timeout=30)) as store:
        store.append(append_of("s", 0, "a"))
        holder = hold_lock(path, start_child)
        answers = SimpleQueue[object]()
        waiting = Thread(target=store.submit, args=(append_of("s", 1, "b"), answers.put))
        waiting.start()
        assert texts(store.read("s")) == ["a"]
        assert list(store.read("nobody")) == []
        assert texts(store.read_all()) == ["a"]
        assert answers.empty()
        let_go(holder)
        waiting.join(PATIENCE)
        assert texts(store.read("s")) == ["a", "b"]


@pytest.mark.slow
def test_a_lock_held_beyond_the_timeout_is_store_busy_for_everyone_and_then_all_is_well(
    tmp_path: Path, start_child: StartChild
) -> None:
    path = tmp_path / "streams"
    with closing(JSONLStore(path, timeout=0.2)) as store:
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
        for thread in threads:
            thread.join(PATIENCE)
        holder.wait(PATIENCE)
        assert store.append(append_of("s", 0, "a")).version == 1
        assert [row.session_id for row in store.sessions()] == ["s"]


def hold_lock(path: Path, start_child: StartChild) -> "subprocess.Popen[str]":
    holder = start_child(HOLD_THE_LOCK, url(path))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def let_go(holder: "subprocess.Popen[str]") -> None:
    assert holder.stdin is not None
    holder.stdin.write("go\n")
    holder.stdin.flush()


def test_a_lock_whose_holder_is_killed_is_free(tmp_path: Path, start_child: StartChild) -> None:
    path = tmp_path / "streams"
    with closing(JSONLStore(path, timeout=30)) as store:
        hold_lock(path, start_child).kill()
        assert store.append(append_of("s", 0, "a")).version == 1


def test_generations_rise_across_processes(tmp_path: Path, start_child: StartChild) -> None:
    path = tmp_path / "streams"
    children = [start_child(DRAW_GENERATIONS, url(path)) for _ in range(3)]
    drawn = [number for child in children for number in numbers(child.communicate()[0])]
    assert sorted(drawn) == [*range(1, 151)]


def numbers(printed: str) -> list[int]:
    return [int(number) for number in printed.strip("[]\n").split(",")]


def test_a_subscription_sees_what_other_processes_commit(
    tmp_path: Path, start_child: StartChild
) -> None:
    path = tmp_path / "streams"
    with closing(JSONLStore(path)) as store, store.subscribe() as log:
        read = following(log)
        children = [start_child(APPEND_TO_OWN_SESSION, url(path), f"s{k}", 50) for k in range(2)]
        release(children)
        records = [read.get(timeout=PATIENCE) for _ in range(100)]
        assert records == store.read_all()
