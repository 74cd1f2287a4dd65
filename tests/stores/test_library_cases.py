"""eventsourcing's own test cases pass on the recorder of a store."""

import tempfile
from pathlib import Path
from uuid import uuid4

import pytest

from turnstream.stores import SQLiteStore
from turnstream.stores.recorder import SessionRecorder

pytest.importorskip("Crypto", reason="eventsourcing's test cases import pycryptodome")
from eventsourcing.tests import persistence as cases


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
