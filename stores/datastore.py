"""A database of sessions, opened: connections that read, and one that writes.

In a file, readers have connections of their own and never wait for the writer. In memory there
is one connection, and one at a time has it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, TypeAlias

from eventsourcing.persistence import ConnectionPoolClosedError
from eventsourcing.sqlite import SQLiteConnection, SQLiteConnectionPool, SQLiteDatastore

from ..events.envelope import StoredRecord
from ..events.errors import StoreClosed
from .committer import Committer, Write
from .connections import MEMORY, DataVersion, connect, create
from .faults import store_errors
from .pages import read_log
from .schema import prepare
from .subscription import Listeners, LogSubscription
from .transaction import Writer

Synchronous: TypeAlias = Literal["full", "normal"]

POOL_SECONDS = 30.0
_SYNCHRONOUS = {"full": "PRAGMA synchronous = FULL", "normal": "PRAGMA synchronous = NORMAL"}


class SessionConnection(SQLiteConnection):
    """A connection with a cursor whose rows are plain tuples, beside the library's own."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, max_age=None)
        self.plain = connection.cursor()
        connection.row_factory = sqlite3.Row


class SessionPool(SQLiteConnectionPool):
    """Connections that read. ``close`` waits for those in use to come back."""

    def __init__(self, path: Path | None, *, timeout: float) -> None:
        alone = path is None
        super().__init__(
            db_name=MEMORY if path is None else str(path),
            pool_size=1 if alone else 5,
            max_overflow=0 if alone else 10,
            pool_timeout=POOL_SECONDS,
        )
        self._path = path
        self._timeout = timeout
        self._draining = False

    def get_connection(
        self, timeout: float | None = None, *, is_writer: bool | None = None
    ) -> SessionConnection:
        if self._draining:
            raise ConnectionPoolClosedError
        connection = super().get_connection(timeout, is_writer=is_writer)
        assert isinstance(connection, SessionConnection)
        return connection

    def close(self) -> None:
        with self._put_condition:
            self._draining = True
            self._put_condition.wait_for(lambda: not self._in_use, POOL_SECONDS)
        super().close()

    def _create_connection(self) -> SessionConnection:
        return SessionConnection(connect(self._path, self._timeout))


class SessionDatastore(SQLiteDatastore):
    """The database in the file at ``path``, made if there is none; without a path, in memory.

    ``timeout`` is how long, in seconds, to wait for other processes' writers. Raises
    ``NotAStore``, ``StoreTooNew``, ``StoreBusy`` or ``StoreUnavailable``.
    """

    def __init__(self, path: Path | None, *, synchronous: Synchronous, timeout: float) -> None:
        super().__init__(MEMORY if path is None else str(path), originator_id_type="text")
        self.pool: SessionPool = SessionPool(path, timeout=timeout)
        self.place = "the in-memory store" if path is None else str(path)
        self.pid = os.getpid()
        self.listeners = Listeners()
        self._path, self._timeout = path, timeout
        self._own = None if path is None else _open_writer(path, synchronous, timeout)
        if path is None:
            with self.reading() as cursor:
                prepare(cursor.connection, self.place, timeout)
        self._writer = Writer(self._lend, self.place, timeout)
        self.writes = Committer(self._commit)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Cursor]:
        """A cursor that is this thread's alone for the while; what fails is a ``StoreError``."""
        if os.getpid() != self.pid:
            raise StoreClosed(f"{self.place} was opened before a fork; open it in this process")
        with store_errors(self.place):
            connection = self.pool.get_connection()
            try:
                yield connection.plain
            finally:
                self.pool.put_connection(connection)

    def follow(self, after: int) -> LogSubscription:
        """All events with positions above ``after``, and then those that come."""
        foreign = None if self._path is None else DataVersion(self._path, self._timeout)
        return LogSubscription(self._read_log, self.listeners, after=after, foreign=foreign)

    def close(self) -> None:
        """Finish what was submitted, then release everything. May be called more than once."""
        self.listeners.close()
        self.writes.close()
        self.pool.close()
        if self._own is not None:
            self._own.connection.close()

    def __del__(self) -> None:
        """Nothing: the library would close here, and wait, in whatever thread collects it."""

    def _lend(self) -> AbstractContextManager[sqlite3.Cursor]:
        return self.reading() if self._own is None else nullcontext(self._own)

    def _read_log(self, after: int, limit: int) -> Sequence[StoredRecord]:
        with self.reading() as cursor:
            return read_log(cursor, after, limit)

    def _commit(self, writes: Sequence[Write[Any]]) -> Sequence[object]:
        outcomes = self._writer.commit(writes)
        self.listeners.notify()
        return outcomes


def _open_writer(path: Path, synchronous: Synchronous, timeout: float) -> sqlite3.Cursor:
    """The cursor of the connection that writes."""
    with store_errors(str(path)), ExitStack() as undo:
        connection = create(path, timeout)
        undo.callback(connection.close)
        prepare(connection, str(path), timeout)
        connection.execute(_SYNCHRONOUS[synchronous])
        connection.execute("PRAGMA journal_size_limit = 16000000")
        # The writer waits for others in its own way.
        connection.execute("PRAGMA busy_timeout = 0")
        undo.pop_all()
        return connection.cursor()
