"""Long streams, large events and many sessions in files."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from threading import Thread
from time import perf_counter

import pytest

from turnstream.events.envelope import EncodedEvent
from turnstream.stores import Append, Appended, JSONLStore, RowChange
from turnstream.stores.jsonl import journal, reading
from turnstream.stores.specimens import NOON, PATIENCE, append_of, texts

ROW = RowChange("idle", "planner", NOON)
TEXT = b'{"text":"%s"}' % (b"x" * 300)


def append_blobs(store: JSONLStore, sid: str, expected: int, *payloads: bytes) -> None:
    events = tuple(EncodedEvent("tool_result_recorded", payload) for payload in payloads)
    store.append(Append(sid, expected, events, ROW))


def seconds(work: Callable[[], object]) -> float:
    begun = perf_counter()
    work()
    return perf_counter() - begun


def size_of(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "streams"


def test_bytes_on_disk_are_in_proportion_to_what_was_appended(place: Path) -> None:
    sizes = []
    for begun in (0, 500):
        with closing(JSONLStore(place, sync=False)) as store:
            for version in range(begun, begun + 500):
                append_blobs(store, "5f0c9d1e-4c1b-4f0e-9f57-0123456789ab", version, TEXT)
        sizes.append(size_of(place))
    assert sizes[1] < 2.1 * sizes[0]


def test_an_event_costs_less_than_700_bytes_beside_its_payload(place: Path) -> None:
    """Most of it is the row, which stands in the file and in the log."""
    with closing(JSONLStore(place, sync=False)) as store:
        for version in range(0, 300, 2):
            append_blobs(store, "5f0c9d1e-4c1b-4f0e-9f57-0123456789ab", version, TEXT, TEXT)
    assert size_of(place) / 300 - len(TEXT) < 700


def test_an_append_to_a_long_stream_costs_what_it_costs_at_its_beginning(place: Path) -> None:
    with closing(JSONLStore(place, sync=False)) as store:
        times = [
            seconds(lambda version=version: append_blobs(store, "s", version, TEXT))
            for version in range(3000)
        ]
    assert median(times[-500:]) < 3 * median(times[:500])


def test_large_events_are_read_beside_small_ones(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PAGE_BYTES", 50_000)
    monkeypatch.setattr(journal, "LARGEST", 2_000_000)
    sizes = [*[10] * 70, 1_000_000, *[0] * 200, 5_000_000, *[3000] * 30]
    payloads = [bytes([n % 256]) * size for n, size in enumerate(sizes)]
    with closing(JSONLStore(place, sync=False)) as store:
        for version, payload in enumerate(payloads):
            append_blobs(store, "s", version, payload)
        assert [record.payload for record in store.read("s")] == payloads
        assert [record.payload for record in store.read_all()] == payloads
        pages = [page.payloads for page in store.replay("s", after=3)]
        assert len(pages) > 1 and [each for page in pages for each in page] == payloads[3:]


def test_appends_of_many_sessions_share_one_wait_for_the_disk(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, waits = SimpleQueue[object](), SimpleQueue[int]()
    fsync = os.fsync
    with closing(JSONLStore(place, timeout=30)) as store:
        store.append(append_of("s", 0, "a"))
        monkeypatch.setattr(os, "fsync", lambda each: (waits.put(each), fsync(each)))
        with store._directory.files.lock.held():
            first = Thread(target=store.submit, args=(append_of("s", 1, "b"), answers.put))
            first.start()
            while not store._directory.writes._leader:
                first.join(0.001)
            for n in range(100):
                store.submit(append_of(f"s{n}", 0, "a"), answers.put)
        assert {type(answers.get(timeout=PATIENCE)) for _ in range(101)} == {Appended}
        first.join(PATIENCE)
        assert waits.qsize() == 2
        monkeypatch.undo()


def test_a_page_of_the_log_costs_the_same_wherever_it_is(place: Path) -> None:
    with closing(JSONLStore(place, sync=False)) as store:
        append_blobs(store, "s", 0, *[TEXT] * 500)
        for version in range(500, 6000, 5):
            append_blobs(store, "s", version, *[TEXT] * 5)
        pages = [
            min(seconds(lambda n=n: store.read_all(after=n, limit=50)) for _ in range(5))
            for n in (1000, 5900)
        ]
        assert pages[1] < 5 * pages[0]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_store_of_ten_thousand_sessions_opens_quickly_and_keeps_no_payloads(
    place: Path,
) -> None:
    import tracemalloc

    with closing(JSONLStore(place, sync=False)) as store:
        for n in range(10_000):
            store.submit(append_of(f"s{n}", 0, "x" * 2000, "y" * 2000), lambda _: None)
        assert len(store.sessions()) == 10_000
        assert seconds(lambda: store.sessions(status="idle")) < 2
    tracemalloc.start()
    try:
        begun = perf_counter()
        store = JSONLStore(place)
        took, (_, peak) = perf_counter() - begun, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    with closing(store):
        assert took < 10, "with every allocation traced"
        assert peak < 40_000_000
        assert texts(store.read("s5000")) == ["x" * 2000, "y" * 2000]
