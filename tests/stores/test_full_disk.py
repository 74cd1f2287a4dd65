"""A disk that fills while the store is open, and is freed again."""

import resource
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import pytest

from turnstream.events.errors import StoreUnavailable
from turnstream.stores import Appended, SQLiteStore
from turnstream.stores.specimens import PATIENCE, append_of, texts


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def fill(store: SQLiteStore, sid: str = "s") -> tuple[int, StoreUnavailable]:
    """Append until the disk is full; how many events were acknowledged, and the error."""
    row = store.session(sid)
    for version in count(row.version if row else 0):
        try:
            store.append(append_of(sid, version, "x" * 3000))
        except StoreUnavailable as error:
            return version, error
    raise AssertionError


def check(store: SQLiteStore, acknowledged: int, sid: str = "s") -> None:
    assert texts(store.read(sid)) == ["x" * 3000] * acknowledged
    row = store.session(sid)
    assert row is not None
    assert row.version == acknowledged


def integrity(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])


def test_a_full_disk_is_named_and_once_freed_the_same_store_goes_on(
    mount: Callable[[str], Path],
) -> None:
    medium = mount("size=1m")
    path = medium / "streams.db"
    ballast = medium / "ballast"
    ballast.write_bytes(b"x" * 300_000)
    with closing(SQLiteStore(path)) as store:
        acknowledged, error = fill(store)
        assert acknowledged > 10
        assert str(path) in str(error)
        check(store, acknowledged)
        ballast.unlink()
        store.append(append_of("s", acknowledged, "x" * 3000))
        check(store, acknowledged + 1)
    with closing(SQLiteStore(path)) as store:
        check(store, acknowledged + 1)
    assert integrity(path) == "ok"


def test_a_file_that_may_not_grow_is_named_and_later_the_same_store_goes_on(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        store.append(append_of("s", 0, "x" * 3000))
        with files_limited_to(200_000):
            acknowledged, error = fill(store)
            assert str(path) in str(error)
            check(store, acknowledged)
        store.append(append_of("s", acknowledged, "x" * 3000))
        check(store, acknowledged + 1)
    assert integrity(path) == "ok"


def test_every_append_of_a_round_that_does_not_fit_is_told(path: Path) -> None:
    answers = SimpleQueue[object]()
    with closing(SQLiteStore(path)) as store:
        store.append(append_of("first", 0, "x"))
        appends = [append_of(f"s{n}", 0, "x" * 3000) for n in range(50)]

        def submit_rest(_: object) -> None:
            for append in appends:
                store.submit(append, answers.put)

        with files_limited_to(150_000):
            store.submit(append_of("first", 1, "y"), submit_rest)
            told = [answers.get(timeout=PATIENCE) for _ in appends]
        assert {type(answer) for answer in told} == {Appended, StoreUnavailable}
        stored = {record.session_id for record in store.read_all()} - {"first"}
        assert stored == {
            append.session_id
            for append, answer in zip(appends, told, strict=True)
            if isinstance(answer, Appended)
        }


def test_opening_a_store_on_a_full_disk_names_the_path(mount: Callable[[str], Path]) -> None:
    medium = mount("size=100k")
    (medium / "ballast").write_bytes(b"x" * 100 * 1024)
    with pytest.raises(StoreUnavailable) as error:
        SQLiteStore(medium / "streams.db")
    assert str(medium) in str(error.value)
