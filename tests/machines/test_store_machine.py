"""Every store behaves as a dictionary of streams does, whatever is done to it."""

import pytest
from hypothesis import settings
from servers import NUMBERS, Server
from storing import StoreMachine

from turnstream.stores import JSONLStore, MemoryStore, PostgresStore, SQLiteStore


class MemoryMachine(StoreMachine):
    def open_store(self) -> MemoryStore:
        return MemoryStore()


class SQLiteMachine(StoreMachine):
    durable = True

    def open_store(self) -> SQLiteStore:
        return SQLiteStore(self.directory / "streams.db", synchronous="normal")


class InMemorySQLiteMachine(StoreMachine):
    def open_store(self) -> SQLiteStore:
        return SQLiteStore()


class JSONLMachine(StoreMachine):
    durable = True

    def open_store(self) -> JSONLStore:
        return JSONLStore(self.directory / "streams", sync=False)


class PostgresMachine(StoreMachine):
    durable = True
    server: Server

    def __init__(self) -> None:
        self.schema = f"machine_{next(NUMBERS)}"
        super().__init__()

    def open_store(self) -> PostgresStore:
        return PostgresStore(self.server.url(), schema=self.schema)


QUICK = settings(max_examples=25, stateful_step_count=30, deadline=None)
LONG = settings(max_examples=120, stateful_step_count=60, deadline=None)


class TestMemory(MemoryMachine.TestCase):
    settings = QUICK


class TestSQLite(SQLiteMachine.TestCase):
    settings = QUICK


class TestSQLiteInMemory(InMemorySQLiteMachine.TestCase):
    settings = QUICK


class TestJSONL(JSONLMachine.TestCase):
    settings = QUICK


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestMemoryAtLength(MemoryMachine.TestCase):
    settings = LONG


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestSQLiteAtLength(SQLiteMachine.TestCase):
    settings = LONG


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestJSONLAtLength(JSONLMachine.TestCase):
    settings = LONG


class TestPostgres(PostgresMachine.TestCase):
    settings = QUICK

    @pytest.fixture(autouse=True)
    def _on_a_server(self, postgres_server: Server) -> None:
        PostgresMachine.server = postgres_server
