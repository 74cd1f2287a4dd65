"""Connections that read: eventsourcing's pool, with our connections in it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from eventsourcing.persistence import ConnectionPoolClosedError
from eventsourcing.sqlite import SQLiteConnection, SQLiteConnectionPool

from .connections import MEMORY, connect

POOL_SECONDS = 30.0


class SessionConnection(SQLiteConnection):
    """A connection with a cursor whose rows are plain tuples, beside the library's own."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, max_age=None)
        self.plain: sqlite3.Cursor = connection.cursor()
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
        connection = super().get_connection(timeout, is_writer=is_writer)
        assert isinstance(connection, SessionConnection)
        return connection

    def close(self) -> None:
        with self._put_condition:
            self._draining = True
            self._put_condition.notify_all()
            self._put_condition.wait_for(lambda: self.closed or not self._in_use, POOL_SECONDS)
            super().close()
            self._put_condition.notify_all()

    def suspend(self) -> None:
        """Close every connection when it has come back, and let whoever wants one wait."""
        self._get_semaphore.acquire()
        with self._put_condition:
            self._put_condition.wait_for(lambda: not self._in_use, POOL_SECONDS)
            while self._pool:
                self._pool.popleft().close()
            self._put_condition.notify_all()

    def resume(self) -> None:
        """Let whoever wants a connection have one."""
        self._get_semaphore.release()

    def __del__(self) -> None:
        """Close without waiting: the library would wait for what is in use, in whatever thread
        collects it."""
        super().close()

    def _get_connection(self, timeout: float = 0.0) -> SQLiteConnection:
        with self._put_condition:
            if self._draining:
                raise ConnectionPoolClosedError
            return super()._get_connection(timeout)

    def _create_connection(self) -> SessionConnection:
        return SessionConnection(connect(self._path, self._timeout))
