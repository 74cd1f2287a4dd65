"""eventsourcing's own test cases pass on the recorder of a store."""

import tempfile
from pathlib import Path
from uuid import uuid4

import pytest
from eventsourcing.persistence import IntegrityError, StoredEvent
from eventsourcing.tests import persistence as cases
from turnstream.stores import SQLiteStore
from turnstream.stores.recorder import SessionRecorder
from turnstream.stores.specimens import append_of, texts


class OnFile:
    """Gives the library's test cases a recorder, and ids that are text."""

    def create_recorder(self) -> SessionRecorder:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return self.recorder_of(SQLiteStore(Path(directory.name) / "streams.db"))

    def recorder_of(self, store: SQLiteStore) -> SessionRecorder:
        self.addCleanup(store.close)
        return store.recorder

    def new_originator_id(self) -> str:
        return f"session-{uuid4().hex}"


class InMemory(OnFile):
    def create_recorder(self) -> SessionRecorder:
        return self.recorder_of(SQLiteStore())


class ApplicationRecorderCases(cases.ApplicationRecorderTestCase):
    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class AggregateRecorderCases(cases.AggregateRecorderTestCase):
    @pytest.mark.skip(reason="it wants no positions; our recorder, an application's, returns them")
    def test_insert_and_select(self) -> None: ...


class TestApplicationRecorderOnFile(OnFile, ApplicationRecorderCases): ...


class TestApplicationRecorderInMemory(InMemory, ApplicationRecorderCases): ...


class TestAggregateRecorderOnFile(OnFile, AggregateRecorderCases): ...


class TestPositionsOnFile(OnFile, cases.NonInterleavingNotificationIDsBaseCase):
    insert_num = 100


class TestPositionsInMemory(InMemory, cases.NonInterleavingNotificationIDsBaseCase):
    insert_num = 100


del ApplicationRecorderCases, AggregateRecorderCases


@pytest.fixture
def store(path: Path):
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
