"""Whatever is sent, steered, stopped, lost and resumed, and in whatever order: the guarantees
hold."""

from __future__ import annotations

import pytest
from hypothesis import settings
from stating import StatingMachine

from turnstream.stores import EventStore, MemoryStore, SQLiteStore


class MemoryMachine(StatingMachine):
    def open_store(self) -> EventStore:
        return MemoryStore()


class SQLiteMachine(StatingMachine):
    def open_store(self) -> EventStore:
        return SQLiteStore(self.directory / "streams.db", synchronous="normal")


QUICK = settings(max_examples=15, stateful_step_count=30, deadline=None)
LONG = settings(max_examples=25, stateful_step_count=50, deadline=None)


class TestMemory(MemoryMachine.TestCase):
    settings = QUICK


class TestSQLite(SQLiteMachine.TestCase):
    settings = QUICK


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestMemoryAtLength(MemoryMachine.TestCase):
    settings = LONG


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestSQLiteAtLength(SQLiteMachine.TestCase):
    settings = LONG
