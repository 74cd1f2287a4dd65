"""What the same rows cost with nothing but sqlite3.

A run of the product is recorded, append by append, and then written again by a loop of bare
statements: the same tables, pragmas, payloads and commits.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rounds import Cost, cost
from workload import address, agent, run_sessions

from turnstream.actors import ActorSystem
from turnstream.stores import open_store

_ROW = (
    "INSERT INTO sessions (id, version, status, agent, tenant, created, updated) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_MOVED = "UPDATE sessions SET version = ?, status = ?, updated = ? WHERE id = ? AND version = ?"
_EVENT = (
    "INSERT INTO stored_events (originator_id, originator_version, topic, state) "
    "VALUES (?, ?, ?, ?)"
)


class _Recording:
    """A store that keeps what is appended to it."""

    def __init__(self, url: str) -> None:
        self._store = open_store(url)
        self.appends: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, append: Any, done: Callable[[Any], None]) -> None:
        self.appends.append(append)
        self._store.submit(append, done)


class Floor:
    """The appends of ``sessions`` sessions of ``turns`` turns, ready to be written again."""

    def __init__(self, sessions: int, turns: int) -> None:
        with tempfile.TemporaryDirectory(prefix="turnstream-") as directory:
            recording: Any = _Recording(address(Path(directory), "normal"))
            with ActorSystem(agent(), store=recording) as system:
                asyncio.run(run_sessions(system, sessions, turns))
            recording.close()
            self.schema = _schema(Path(directory) / "benchmark.db")
        self.transactions = [_statements(append) for append in recording.appends]

    def write(self, directory: Path, synchronous: str) -> Cost:
        """Write them all, one transaction an append."""
        path = directory / "floor.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            for statement in self.schema:
                connection.execute(statement)
            return cost(lambda: self._write(connection))

    def _write(self, connection: sqlite3.Connection) -> None:
        execute = connection.execute
        for statements in self.transactions:
            execute("BEGIN IMMEDIATE")
            for sql, parameters in statements:
                execute(sql, parameters)
            execute("COMMIT")


def _schema(path: Path) -> Sequence[str]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
        )
        return [sql for (sql,) in found]


def _statements(append: Any) -> Sequence[tuple[str, tuple[Any, ...]]]:
    sid, expected, row = append.session_id, append.expected_version, append.row
    version, at = expected + len(append.events), int(row.at.timestamp() * 1_000_000)
    moved: tuple[str, tuple[Any, ...]] = (_MOVED, (version, row.status, at, sid, expected))
    if not expected:
        moved = (_ROW, (sid, version, row.status, row.agent, row.tenant, at, at))
    events = enumerate(append.events, expected + 1)
    return [moved, *((_EVENT, (sid, v, topic, payload)) for v, (topic, payload) in events)]
