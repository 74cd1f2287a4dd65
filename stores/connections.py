"""How a database is opened: the file at a path, or, without one, memory."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Literal, TypeAlias

from ..events.errors import NotAStore, StoreClosed, StoreUnavailable
from .faults import store_errors
from .forking import ProcessBound
from .schema import prepare

Synchronous: TypeAlias = Literal["full", "normal"]

LOG_BYTES = 4_000_000
MEMORY = ":memory:"
_SYNCHRONOUS = {"full": "PRAGMA synchronous = FULL", "normal": "PRAGMA synchronous = NORMAL"}


def connect(path: Path | None, timeout: float) -> sqlite3.Connection:
    """A connection to a database that exists, for any thread, one at a time. ``timeout`` is in
    seconds."""
    return _connect(MEMORY if path is None else _uri(path, "rw"), timeout)


def create(path: Path, timeout: float) -> sqlite3.Connection:
    """The same; the file and its directories are made if there are none."""
    if path.exists():
        if not path.is_file():
            raise NotAStore(f"{path} is no regular file; give the path of one, old or new")
        return connect(path, timeout)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"the directory of {path} can't be made: {error.strerror}; choose another path"
        ) from error
    return _connect(_uri(path, "rwc"), timeout)


class WriteConnection:
    """The connection that writes to the file at ``path``, which is made a store if it is none."""

    def __init__(self, path: Path, synchronous: Synchronous, timeout: float) -> None:
        self._path = path
        self._synchronous = synchronous
        self._timeout = timeout
        self._lock = Lock()
        self._cursor: sqlite3.Cursor | None = self._opened(create)

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Cursor]:
        """A cursor of it, for this thread alone."""
        with self._lock:
            if self._cursor is None:
                self._cursor = self._opened(connect)
            yield self._cursor

    def suspend(self) -> None:
        """Close it, and let whoever wants it wait."""
        self._lock.acquire()
        if self._cursor is not None:
            self._cursor.connection.close()
        self._cursor = None

    def resume(self) -> None:
        """Let whoever wants it have it, opened again."""
        self._lock.release()

    def close(self) -> None:
        """Close it when it is not in use."""
        self.suspend()
        self.resume()

    def _opened(self, opener: Callable[[Path, float], sqlite3.Connection]) -> sqlite3.Cursor:
        with store_errors(str(self._path)), ExitStack() as undo:
            connection = opener(self._path, self._timeout)
            undo.callback(connection.close)
            prepare(connection, str(self._path), self._timeout)
            connection.execute(_SYNCHRONOUS[self._synchronous])
            connection.execute("PRAGMA journal_size_limit = 16000000")
            # The writer waits for others in its own way.
            connection.execute("PRAGMA busy_timeout = 0")
            # What is deleted or erased is to be gone, not only forgotten.
            connection.execute("PRAGMA secure_delete = ON")
            grow_log(connection, self._path)
            undo.pop_all()
            return connection.cursor()


def grow_log(connection: sqlite3.Connection, path: Path) -> None:
    """Make a new log as long as it gets before it is used again from its start. Until then each
    commit makes it longer, and waits for the file system to record that too."""
    with suppress(OSError, sqlite3.OperationalError):  # then it grows as it is used
        if Path(f"{path}-wal").stat().st_size < LOG_BYTES:
            connection.execute("PRAGMA cache_size = 10")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE filler (bytes)")
            connection.execute("INSERT INTO filler VALUES (zeroblob(?))", (LOG_BYTES,))
    if connection.in_transaction:
        connection.rollback()
    connection.execute("PRAGMA cache_size = -2000")


class DataVersion(ProcessBound):
    """What other connections commit to the file at ``path``, as ``ForeignCommits``."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__()
        self._path = path
        self._timeout = timeout
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._connected = 0
        self._closed = False

    def mark(self) -> object:
        if self.inherited:
            raise StoreClosed(f"{self._path} was followed before a fork; follow it anew")
        with self._lock, store_errors(str(self._path)):
            # The number means nothing to any other connection.
            return None if self._closed else (self._version(), self._connected)

    def close(self) -> None:
        self._closed = True
        if not self.inherited:
            self.suspend()
            self.resume()

    def suspend(self) -> None:
        self._lock.acquire()
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def resume(self) -> None:
        self._lock.release()

    def _version(self) -> int:
        if self._connection is None:
            self._connection = connect(self._path, self._timeout)
            self._connected += 1
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


def _connect(database: str, timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(
        database,
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
    )


def _uri(path: Path, mode: str) -> str:
    # On a medium that nobody can write, SQLite can't keep the shared memory of its log either,
    # and needs to be told that the file does not change.
    still = _is_read_only(path) and not Path(f"{path}-wal").exists()
    return path.as_uri() + ("?immutable=1" if still else f"?mode={mode}")


def _is_read_only(path: Path) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except (AttributeError, OSError):
        return False
