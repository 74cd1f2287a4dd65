"""The SQLite store keeps the contract, in all its modes."""

from pathlib import Path

from turnstream.stores import SQLiteStore
from turnstream.stores.conformance import StoreConformance


class TestFullSynchronous(StoreConformance):
    durable = True

    def open_store(self, tmp_path: Path) -> SQLiteStore:
        return SQLiteStore(tmp_path / "streams.db")


class TestNormalSynchronous(StoreConformance):
    durable = True

    def open_store(self, tmp_path: Path) -> SQLiteStore:
        return SQLiteStore(tmp_path / "streams.db", synchronous="normal")


class TestInMemory(StoreConformance):
    durable = False

    def open_store(self, tmp_path: Path) -> SQLiteStore:
        return SQLiteStore()
