"""Connections to the server: one that appends, and a pool for everything else."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import Any, TypeAlias

import psycopg
from eventsourcing.postgres import ConnectionPool
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, dict_row, tuple_row

from .address import Place
from .arrays import register
from .faults import closed
from .silence import WatchedConnection

Connection: TypeAlias = psycopg.Connection[Any]
Cursor: TypeAlias = psycopg.Cursor[TupleRow]

# A role or a database may have other defaults, under which an append would not see what came
# before it. The library's recorders name the schema, our statements do not.
SETTINGS = """SELECT set_config('search_path', %s, false), set_config('lock_timeout', %s, false),
    set_config('default_transaction_isolation', 'read committed', false)"""

POOL_WORKERS = 1
LONGEST_WAIT_SECONDS = 30.0


def connect(place: Place) -> Connection:
    """A connection, in autocommit. Raises ``psycopg.Error``."""
    connection = WatchedConnection.connect(**place.parameters, autocommit=True)
    try:
        _set_up(connection, place)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: Connection, place: Place) -> None:
    assert isinstance(connection, WatchedConnection)
    connection.watch(place)
    register(connection.adapters)
    lock_timeout = max(1, int(place.timeout * 1000))
    connection.execute(SETTINGS, (place.search_path, str(lock_timeout)))


def open_pool(place: Place, size: int) -> ConnectionPool[Connection]:
    """A pool of at most ``size`` connections, made in the background as they are needed. Their
    rows are mappings, as the library's recorders want them."""

    def set_up(connection: Connection) -> None:
        connection.autocommit = True
        _set_up(connection, place)

    return ConnectionPool(
        connection_class=WatchedConnection,
        kwargs={**place.parameters, "row_factory": dict_row},
        configure=set_up,
        min_size=1,
        max_size=size,
        timeout=max(place.timeout, 0.1),
        # It waits longer after each failure, and is to be there soon after the server is.
        reconnect_timeout=2.0,
        num_workers=POOL_WORKERS,
        name="turnstream",
        open=True,
    )


def read_on(connection: Connection) -> Cursor:
    """A cursor whose rows are tuples, sent as bytes."""
    return connection.cursor(row_factory=tuple_row, binary=True)


class AppendConnection:
    """The connection that appends, which is made again when it was lost."""

    def __init__(self, place: Place, connection: Connection) -> None:
        self._place = place
        self._lock = Lock()
        self._closed = False
        self._cursor: Cursor | None = read_on(connection)

    def __enter__(self) -> Cursor:
        """A cursor of it, for this thread alone. Raises ``psycopg.Error`` or ``StoreClosed``."""
        self._lock.acquire()
        try:
            return self._opened()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *exc: object) -> None:
        cursor = self._cursor
        if cursor and cursor.connection.pgconn.transaction_status != TransactionStatus.IDLE:
            self._drop()
        self._lock.release()

    def close(self) -> None:
        """Close it when it is not in use. May be called more than once."""
        with self._lock:
            self._closed = True
            self._drop()

    def _opened(self) -> Cursor:
        if self._closed:
            raise closed(self._place)
        if self._cursor is None:
            self._cursor = read_on(connect(self._place))
        return self._cursor

    def _drop(self) -> None:
        if self._cursor is not None:
            with suppress(psycopg.Error):
                self._cursor.connection.close()
        self._cursor = None
