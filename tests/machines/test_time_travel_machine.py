"""Whatever is forked, rewound, trimmed and cleared, and in whatever order: a conversation is what
a list would be, and no other session is touched."""

from __future__ import annotations

import pytest
from hypothesis import settings
from travels import TravelMachine

from turnstream.stores import EventStore, MemoryStore, SQLiteStore


class MemoryMachine(TravelMachine):
    def open_store(self) -> EventStore:
        return MemoryStore()


class SQLiteMachine(TravelMachine):
    def open_store(self) -> EventStore:
        return SQLiteStore(self.directory / "streams.db", synchronous="normal")


QUICK = settings(max_examples=30, stateful_step_count=30, deadline=None)
LONG = settings(max_examples=100, stateful_step_count=60, deadline=None)


class TestMemory(MemoryMachine.TestCase):
    settings = QUICK


class TestSQLite(SQLiteMachine.TestCase):
    settings = settings(QUICK, max_examples=12)


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestMemoryAtLength(MemoryMachine.TestCase):
    settings = LONG


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestSQLiteAtLength(SQLiteMachine.TestCase):
    settings = settings(LONG, max_examples=40)
