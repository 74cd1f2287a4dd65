"""How a database is opened: the file at a path, or, without one, memory."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from threading import Lock

from ..events.errors import NotAStore, StoreUnavailable
from .faults import store_errors

MEMORY = ":memory:"


def connect(path: Path | None, timeout: float) -> sqlite3.Connection:
    """A connection to a database that exists, for any thread, one at a time. ``timeout`` is in
    seconds."""
    return _connect(MEMORY if path is None else _uri(path, "rw"), timeout)


def create(path: Path, timeout: float) -> sqlite3.Connection:
    """The same; the file and its directories are made if there are none."""
    if path.is_file():
        return connect(path, timeout)
    if path.exists():
        raise NotAStore(f"{path} is no regular file; give the path of one, old or new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"the directory of {path} can't be made: {error.strerror}; choose another path"
        ) from error
    return _connect(_uri(path, "rwc"), timeout)


class DataVersion:
    """What other connections commit to the file at ``path``, as ``ForeignCommits``."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._place = str(path)
        self._lock = Lock()
        self._last = 0
        with store_errors(self._place):
            self._connection: sqlite3.Connection | None = connect(path, timeout)

    def mark(self) -> int:
        with self._lock, store_errors(self._place):
            if self._connection is not None:
                (self._last,) = self._connection.execute("PRAGMA data_version").fetchone()
            return self._last

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


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
