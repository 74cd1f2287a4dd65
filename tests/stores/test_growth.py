"""Long streams and large events: bytes in proportion, speed that stays."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from threading import Event, Thread
from time import perf_counter

import pytest

from turnstream.events.envelope import EncodedEvent
from turnstream.stores import Append, RowChange, SQLiteStore, pages
from turnstream.stores.specimens import NOON, PATIENCE, append_of, texts

ROW = RowChange("idle", "planner", NOON)


def append_blobs(store: SQLiteStore, sid: str, expected: int, *payloads: bytes) -> None:
    events = tuple(EncodedEvent("tool_result_recorded", payload) for payload in payloads)
    store.append(Append(sid, expected, events, ROW))


def seconds(work: Callable[[], object]) -> float:
    begun = perf_counter()
    work()
    return perf_counter() - begun


@contextmanager
def a_thread_that_computes() -> Iterator[None]:
    over = Event()

    def compute() -> None:
        while not over.is_set():
            sum(range(100))

    thread = Thread(target=compute)
    thread.start()
    yield
    over.set()
    thread.join(PATIENCE)


def test_bytes_on_disk_are_in_proportion_to_what_was_appended(path: Path) -> None:
    sid, payload, sizes = "5f0c9d1e-4c1b-4f0e-9f57-0123456789ab", b"x" * 1000, [0]
    for begun in (0, 1000):
        with closing(SQLiteStore(path, synchronous="normal")) as store:
            for version in range(begun, begun + 1000):
                append_blobs(store, sid, version, payload)
        sizes.append(path.stat().st_size)
    assert sizes[2] < 2.1 * sizes[1] < 2.1 * 1000 * 2 * len(payload)


def test_an_event_of_common_size_costs_less_than_150_bytes_beside_its_payload(path: Path) -> None:
    ids = [f"5f0c9d1e-4c1b-4f0e-9f57-{n:012d}" for n in range(100)]
    with closing(SQLiteStore(path, synchronous="normal")) as store:
        for version in range(0, 60, 2):
            for sid in ids:
                append_blobs(store, sid, version, b"x" * 300, b"y" * 300)
    assert path.stat().st_size / 6000 - 300 < 150


def test_an_append_to_a_long_stream_costs_what_it_costs_at_its_beginning(path: Path) -> None:
    with closing(SQLiteStore(path, synchronous="normal")) as store:
        times = [
            seconds(lambda version=version: append_blobs(store, "s", version, b"x" * 1000))
            for version in range(3000)
        ]
    assert median(times[-500:]) < 3 * median(times[:500])


def test_large_events_are_read_beside_small_ones(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_BYTES", 50_000)
    sizes = [*[10] * 70, 1_000_000, *[0] * 200, 5_000_000, *[3000] * 30]
    payloads = [bytes([n % 256]) * size for n, size in enumerate(sizes)]
    with closing(SQLiteStore(path, synchronous="normal")) as store:
        append_blobs(store, "s", 0, *payloads)
        assert [record.payload for record in store.read("s")] == payloads
        assert [record.payload for record in store.read_all()] == payloads


def test_a_page_too_large_for_one_value_is_read_event_by_event(path: Path) -> None:
    with closing(SQLiteStore()) as store:
        store.append(append_of("s", 0, *(str(n) * 30_000 for n in range(10))))
        with store.recorder.datastore.reading() as cursor:
            limit = cursor.connection.setlimit(0, 100_000)
            try:
                assert texts(pages.read_log(cursor, 0, 10)) == [str(n) * 30_000 for n in range(10)]
            finally:
                cursor.connection.setlimit(0, limit)


@pytest.mark.slow
def test_a_long_stream_is_read_and_written_whatever_another_thread_computes(path: Path) -> None:
    with closing(SQLiteStore(path, synchronous="normal")) as store, a_thread_that_computes():
        assert seconds(lambda: append_blobs(store, "s", 0, *[b"x" * 300] * 10_000)) < 5
        assert seconds(lambda: store.read("s")) < 5


@pytest.mark.slow
def test_ten_thousand_sessions_are_listed_at_once(path: Path) -> None:
    with closing(SQLiteStore(path, synchronous="normal")) as store:
        for n in range(10_000):
            store.submit(append_of(f"s{n}", 0, "x"), lambda _: None)
        assert seconds(lambda: store.sessions(status="idle")) < 2
        assert len(store.sessions()) == 10_000
