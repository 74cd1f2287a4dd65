"""The store in files keeps the contract, whether it waits for the disk or not."""

from pathlib import Path

from turnstream.stores import JSONLStore
from turnstream.stores.conformance import StoreConformance


class TestFullSync(StoreConformance):
    durable = True

    def open_store(self, tmp_path: Path) -> JSONLStore:
        return JSONLStore(tmp_path / "streams")


class TestNoSync(StoreConformance):
    durable = True

    def open_store(self, tmp_path: Path) -> JSONLStore:
        return JSONLStore(tmp_path / "streams", sync=False)
