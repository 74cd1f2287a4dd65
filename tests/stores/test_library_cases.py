"""eventsourcing's own test cases pass on the recorder of a store."""

import tempfile
from pathlib import Path
from uuid import uuid4

import pytest
from eventsourcing.persistence import ApplicationRecorder
from servers import NUMBERS, Server

from turnstream.stores import PostgresStore, SQLiteStore

pytest.importorskip("Crypto", reason="eventsourcing's test cases import pycryptodome")
from eventsourcing.tests import persistence as cases


class OnFile:
    """Gives the library's test cases a recorder, and ids that are text."""

    def create_recorder(self) -> ApplicationRecorder:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return self.recorder_of(SQLiteStore(Path(directory.name) / "streams.db"))

    def recorder_of(self, store: SQLiteStore | PostgresStore) -> ApplicationRecorder:
        self.addCleanup(store.close)
        return store.recorder

    def new_originator_id(self) -> str:
        return f"session-{uuid4().hex}"


class InMemory(OnFile):
    def create_recorder(self) -> ApplicationRecorder:
        return self.recorder_of(SQLiteStore())


class OnServer(OnFile):
    @pytest.fixture(autouse=True)
    def _on_a_server(self, postgres_server: Server) -> None:
        self.server = postgres_server

    def create_recorder(self) -> ApplicationRecorder:
        return self.recorder_of(PostgresStore(self.server.url(), schema=f"cases_{next(NUMBERS)}"))


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


class TestApplicationRecorderOnServer(OnServer, ApplicationRecorderCases): ...


class TestAggregateRecorderOnServer(OnServer, AggregateRecorderCases): ...


class TestPositionsOnServer(OnServer, cases.NonInterleavingNotificationIDsBaseCase):
    insert_num = 100


del ApplicationRecorderCases, AggregateRecorderCases
