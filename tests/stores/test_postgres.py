"""The PostgreSQL store keeps the contract."""

import hashlib
from pathlib import Path

import pytest
from servers import Server

from turnstream.stores import PostgresStore
from turnstream.stores.conformance import StoreConformance


class TestPostgres(StoreConformance):
    durable = True

    @pytest.fixture(autouse=True)
    def _on_a_server(self, postgres_server: Server) -> None:
        self.server = postgres_server

    def open_store(self, tmp_path: Path) -> PostgresStore:
        schema = f"of_{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:16]}"
        return PostgresStore(self.server.url(), schema=schema)
