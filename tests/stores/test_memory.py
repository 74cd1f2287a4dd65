"""The memory store keeps the contract."""

from pathlib import Path

from turnstream.stores import MemoryStore
from turnstream.stores.conformance import StoreConformance


class TestMemoryStore(StoreConformance):
    durable = False

    def open_store(self, tmp_path: Path) -> MemoryStore:
        return MemoryStore()
