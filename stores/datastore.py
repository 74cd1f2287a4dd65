"""A database of sessions, opened: connections that read, and one that writes.

In a file, readers have connections of their own and never wait for the writer. In memory there
is one connection, and one at a time has it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from eventsourcing.sqlite import SQLiteDatastore

from ..events.envelope import StoredRecord
from ..events.errors import StoreClosed, StoreError
from .committer import Committer, Write
from .connections import MEMORY, DataVersion, Synchronous, WriteConnection
from .faults import store_errors
from .forking import ProcessBound
from .pages import read_log
from .pool import SessionPool
from .replaying import replay_stream
from .schema import prepare
from .subscription import Listeners, LogSubscription
from .transaction import Writer
from .upkeep import Compaction


class SessionDatastore(SQLiteDatastore, ProcessBound):
    """The database in the file at ``path``, made if there is none; without a path, in memory.

    ``timeout`` is how long, in seconds, to wait for other processes' writers. Raises
    ``NotAStore``, ``StoreTooNew``, ``StoreBusy`` or ``StoreUnavailable``.
    """

    _own: WriteConnection | None = None

    def __init__(self, path: Path | None, *, synchronous: Synchronous, timeout: float) -> None:
        SQLiteDatastore.__init__(self, str(path or MEMORY), originator_id_type="text")
        ProcessBound.__init__(self)
        self.place: str = str(path or "the in-memory store")
        self.pool: SessionPool = SessionPool(path, timeout=timeout)
        self.listeners: Listeners = Listeners()
        self._path, self._timeout = path, timeout
        if path is None:
            lend = self.reading
            with lend() as cursor:
                prepare(cursor.connection, self.place, timeout)
        else:
            self._own = WriteConnection(path, synchronous, timeout)
            lend = self._own.lend
        self._writer = Writer(lend, self.place, timeout)
        self._committer = Committer(self._commit)
        self._compaction = Compaction(lend, path, self.place, timeout)
        self._connect_a_reader()

    def _connect_a_reader(self) -> None:
        """And have it do what it will be asked first, so that the first session need not wait.
        What is wrong with the file is told to whoever reads."""
        with suppress(StoreError), self.reading() as cursor:
            for _ in replay_stream(cursor, "", 0):
                pass

    @property
    def writes(self) -> Committer:
        """What takes the writes."""
        self._check_process()
        return self._committer

    @property
    def compaction(self) -> Compaction:
        """What makes it small."""
        self._check_process()
        return self._compaction

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Cursor]:
        """A cursor that is this thread's alone for the while; what fails is a ``StoreError``."""
        self._check_process()
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
        self._committer.close()
        self.pool.close()
        if self._own is not None:
            self._own.close()

    def suspend(self) -> None:
        if self._own is not None:
            self._own.suspend()
            self.pool.suspend()

    def resume(self) -> None:
        if self._own is not None:
            self.pool.resume()
            self._own.resume()

    def __del__(self) -> None:
        """Nothing: the library would close here, and wait, in whatever thread collects it."""

    def _check_process(self) -> None:
        if self.inherited:
            raise StoreClosed(f"{self.place} was opened before a fork; open it in this process")

    def _read_log(self, after: int, limit: int) -> Sequence[StoredRecord]:
        with self.reading() as cursor:
            return read_log(cursor, after, limit)

    def _commit(self, writes: Sequence[Write[Any]]) -> Sequence[object]:
        outcomes = self._writer.commit(writes)
        self.listeners.notify()
        return outcomes
