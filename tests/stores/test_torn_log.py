"""A write-ahead log cut at any byte, as a power failure may leave it."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from turnstream.stores import SQLiteStore
from turnstream.stores.specimens import append_of, texts


def copied(path: Path, directory: Path, length: int) -> Path:
    """A copy of the store whose log has only its first bytes."""
    directory.mkdir()
    copy = directory / path.name
    shutil.copyfile(path, copy)
    log = Path(f"{path}-wal").read_bytes()[:length]
    Path(f"{copy}-wal").write_bytes(log)
    return copy


def used_bytes(path: Path) -> int:
    """How far the log of a copy is in use; a store that opens makes it longer than that."""
    with closing(sqlite3.connect(path)) as connection:
        _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        (page,) = connection.execute("PRAGMA page_size").fetchone()
    return 32 + int(frames) * (24 + int(page))


def cut_everywhere(path: Path, step: int) -> None:
    with closing(SQLiteStore(path)) as store:
        for n in range(6):
            store.append(append_of("s", 2 * n, f"{n}.ä😀", f"{n}.b"))
        whole = texts(store.read("s"))
        size = used_bytes(copied(path, path.parent / "whole", -1))
        copies = [
            copied(path, path.parent / str(length), length) for length in range(0, size + 1, step)
        ]
    survivors = [after_a_cut(copy, whole) for copy in [*copies, path]]
    assert survivors == sorted(survivors)
    assert survivors[-1] == len(whole)
    assert len({*survivors}) > 3


def after_a_cut(copy: Path, whole: list[str]) -> int:
    """Check what is left, and that it can be gone on with; how many events are left."""
    with closing(SQLiteStore(copy)) as store:
        left = texts(store.read("s"))
        assert left == whole[: len(left)]
        assert len(left) % 2 == 0
        store.append(append_of("s", len(left), "on"))
    with closing(SQLiteStore(copy)) as store:
        assert texts(store.read("s")) == [*left, "on"]
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return len(left)


def test_a_log_cut_somewhere_costs_whole_appends_from_its_end_and_nothing_else(path: Path) -> None:
    cut_everywhere(path, 4999)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_log_cut_anywhere_costs_whole_appends_from_its_end_and_nothing_else(path: Path) -> None:
    cut_everywhere(path, 101)
