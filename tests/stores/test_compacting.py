"""A SQLite file made small: what is in the way, what is interrupted, what others do meanwhile."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from typing import TypeAlias

import pytest

from turnstream.events.errors import StoreBusy, StoreUnavailable
from turnstream.stores import SQLiteStore
from turnstream.stores.specimens import PATIENCE, append_of, texts

Child: TypeAlias = "subprocess.Popen[str]"


def full_of_holes(path: Path, streams: int = 40) -> SQLiteStore:
    store = SQLiteStore(path, timeout=0.05)
    for number in range(streams):
        store.append(append_of(f"s{number:03}", 0, *["x" * 2000] * 20))
    for number in range(1, streams):
        store.delete(f"s{number:03}")
    return store


def test_what_was_deleted_is_given_back(path: Path) -> None:
    with closing(full_of_holes(path)) as store:
        before, records = path.stat().st_size, store.read_all()
        given = store.compact()
        assert path.stat().st_size < before / 5
        assert given >= before - path.stat().st_size - 1
        assert store.compact() == 0
        assert store.read_all() == records
        assert store.append(append_of("next", 0, "x")).position == 801


def test_positions_of_what_was_deleted_are_not_given_out_again(path: Path) -> None:
    with closing(full_of_holes(path)) as store:
        store.delete("s000")
        store.compact()
        assert store.append(append_of("next", 0, "x")).position == 801


def test_one_who_writes_for_too_long_is_named(path: Path) -> None:
    with (
        closing(full_of_holes(path)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as writer,
    ):
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match=path.name):
            store.compact()
        writer.rollback()
        assert store.compact() > 0


def test_one_who_reads_what_was_before_is_named_and_keeps_reading_it(path: Path) -> None:
    with (
        closing(full_of_holes(path)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as reader,
    ):
        reader.execute("BEGIN")
        count = reader.execute("SELECT count(*) FROM stored_events").fetchone()
        store.append(append_of("s000", 20, "y"))
        with pytest.raises(StoreBusy, match="read"):
            store.compact()
        assert reader.execute("SELECT count(*) FROM stored_events").fetchone() == count
        assert len(store.read("s000")) == 21
        reader.rollback()
        assert store.compact() >= 0
        assert len(store.read("s000")) == 21


def test_a_disk_without_room_for_the_copy_is_named_and_nothing_is_lost(
    mount: Callable[[str], Path],
) -> None:
    path = mount("size=6m") / "streams.db"
    with closing(SQLiteStore(path)) as store:
        store.append(append_of("s", 0, *["x" * 1000] * 1500))
        ballast = path.with_name("ballast")
        with suppress(OSError):  # it is full
            ballast.write_bytes(b"x" * 6_000_000)
        with pytest.raises(StoreUnavailable, match=str(path)):
            store.compact()
        assert len(store.read("s")) == 1500
        ballast.unlink()
        assert list(store.check()) == []
        store.append(append_of("s", 1500, "y"))


def test_only_the_newest_snapshot_of_a_session_is_kept(path: Path) -> None:
    with (
        closing(full_of_holes(path)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as connection,
    ):
        for version in (3, 9, 20):
            connection.execute("INSERT INTO snapshots VALUES ('s000', ?, 1, x'00')", (version,))
        store.compact()
        assert connection.execute("SELECT version FROM snapshots").fetchall() == [(20,)]


def test_subscriptions_and_readers_go_on_over_it(path: Path) -> None:
    with closing(full_of_holes(path)) as store, store.subscribe(after=800) as log:
        store.compact()
        store.append(append_of("s000", 20, "y"))
        assert next(iter(log)).payload == b"y"


WRITE = """
import sys
from turnstream.stores import SQLiteStore
from turnstream.stores.specimens import append_of

store, version = SQLiteStore(sys.argv[1]), 0
print("begun", flush=True)
while True:
    store.append(append_of(sys.argv[2], version, str(version)))
    version += 1
    print(version, flush=True)
"""

COMPACT = """
import sys
from turnstream.stores import SQLiteStore

store = SQLiteStore(sys.argv[1])
print("begun", flush=True)
while True:
    store.compact()
    print("again", flush=True)
"""


def lines(child: Child, count: int) -> str:
    assert child.stdout is not None
    return [child.stdout.readline().strip() for _ in range(count)][-1]


def test_what_other_processes_append_meanwhile_is_kept(
    path: Path, start_child: Callable[..., Child]
) -> None:
    with closing(full_of_holes(path)):
        pass
    writers = [start_child(WRITE, path, name) for name in ("a", "b")]
    for each in writers:
        lines(each, 5)
    with closing(SQLiteStore(path)) as store:
        for _ in range(5):
            store.compact()
        acknowledged = [int(lines(each, 20)) for each in writers]
        for each in writers:
            each.kill()
            each.wait()
        for name, count in zip(("a", "b"), acknowledged, strict=True):
            written = texts(store.read(name))
            assert written == [str(n) for n in range(len(written))]
            assert len(written) >= count
        assert list(store.check()) == []


@pytest.mark.slow
def test_a_process_killed_in_the_middle_has_changed_nothing(
    path: Path, start_child: Callable[..., Child]
) -> None:
    with closing(full_of_holes(path, 60)) as store:
        for number in range(60, 90):
            store.append(append_of(f"s{number}", 0, *["y" * 2000] * 20))
        records, rows = store.read_all(limit=10**6), store.sessions()
    for rounds in range(1, 9):
        child = start_child(COMPACT, path)
        lines(child, rounds)
        child.kill()
        child.wait()
        with closing(SQLiteStore(path)) as store:
            assert store.read_all(limit=10**6) == records
            assert store.sessions() == rows
            assert list(store.check()) == []


def test_sessions_of_this_process_wait_and_lose_nothing(path: Path) -> None:
    answers: list[object] = []
    with closing(full_of_holes(path)) as store:
        compactor = Thread(target=store.compact)
        compactor.start()
        for number in range(200):
            store.submit(append_of("w", number, str(number)), answers.append)
        compactor.join(PATIENCE)
    with closing(SQLiteStore(path)) as store:
        assert texts(store.read("w")) == [str(n) for n in range(200)]
    assert len(answers) == 200
