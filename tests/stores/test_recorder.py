"""eventsourcing's tools and the store work on the same streams."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from eventsourcing.persistence import IntegrityError, StoredEvent

from turnstream.stores import SQLiteStore
from turnstream.stores.specimens import append_of, texts


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(path)
    yield store
    store.close()


def stored(session_id: str, version: int, text: str = "x") -> StoredEvent:
    return StoredEvent(session_id, version, "noted", text.encode())


def test_events_of_several_streams_are_recorded_together_or_not_at_all(store: SQLiteStore) -> None:
    recorder = store.recorder
    positions = recorder.insert_events([stored("a", 1), stored("b", 1), stored("b", 2)])
    with pytest.raises(IntegrityError):
        recorder.insert_events([stored("a", 2), stored("b", 2)])
    assert [record.position for record in store.read_all()] == positions
    assert [len(store.read(sid)) for sid in "ab"] == [1, 2]


def test_what_the_library_records_leaves_the_sessions_row_as_it_was(store: SQLiteStore) -> None:
    store.append(append_of("s", 0, "a", status="running", agent="coder", tenant="t"))
    store.recorder.insert_events([stored("s", 2, "b")])
    assert texts(store.read("s")) == ["a", "b"]
    row = store.session("s")
    assert row is not None
    assert (row.version, row.status, row.agent, row.tenant) == (2, "running", "coder", "t")


def test_the_library_can_not_write_to_a_deleted_session(store: SQLiteStore) -> None:
    store.recorder.insert_events([stored("s", 1)])
    store.delete("s")
    for version in (1, 2):
        with pytest.raises(IntegrityError):
            store.recorder.insert_events([stored("s", version)])
    assert list(store.recorder.select_events("s")) == []


def test_the_library_reads_what_the_store_wrote(store: SQLiteStore) -> None:
    store.append(append_of("s", 0, *"abc"))
    recorder = store.recorder
    assert [event.state for event in recorder.select_events("s", gt=1)] == [b"b", b"c"]
    found = recorder.select_notifications(2, 10)
    assert [(note.id, note.originator_version, note.state) for note in found] == [
        (2, 2, b"b"),
        (3, 3, b"c"),
    ]
