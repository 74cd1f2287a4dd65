"""Streams in a SQLite database: one file, or this process's memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock

from ..events.envelope import EncodedEvent, Replay, StoredRecord
from ..events.errors import NotAStore, StoreClosed, StoreError
from ..events.identifiers import check_session_id
from ..events.session import Status
from .appending import write_once
from .connections import Synchronous
from .datastore import SessionDatastore
from .erasing import write_erasure
from .faults import closed
from .pages import read_log, read_stream
from .port import Append, Appended, SessionRow
from .read_models import ReadModelTables
from .recorder import SessionRecorder
from .replaying import replay_stream
from .restoring import restore
from .rows import bury, draw_generation, find_session, list_sessions
from .snapshots import SQLiteSnapshots
from .sqlite_tables import SQLiteTables
from .subscription import LogSubscription
from .upkeep import examine, list_stream_ids
from .validity import check_append, check_erasure


class SQLiteStore:
    """A store in the file at ``path``, made with its directories if there is none; without a
    path, in memory. Several threads and processes may use one file.

    An acknowledged append outlives a power cut with ``synchronous="full"``. With ``"normal"``
    it outlives a crash of the process, and a power cut may take the last ones. ``timeout`` is
    how long, in seconds, to wait for other processes' writers before ``StoreBusy``. After a fork
    the child opens the file anew on first use; a store in memory stays with the parent.

    Raises ``NotAStore``, ``StoreTooNew``, ``StoreBusy`` or ``StoreUnavailable``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        synchronous: Synchronous = "full",
        timeout: float = 5.0,
    ) -> None:
        self._path = None if path is None else _absolute(os.fspath(path))
        self._open = partial(SessionDatastore, self._path, synchronous=synchronous, timeout=timeout)
        self._reopening = Lock()
        self._closed = False
        self._datastore = self._open()
        self.snapshots: SQLiteSnapshots = SQLiteSnapshots(self._opened)

    @property
    def durable(self) -> bool:
        return self._path is not None

    @property
    def read_models(self) -> ReadModelTables:
        return SQLiteTables(self._opened)

    @property
    def recorder(self) -> SessionRecorder:
        """The same streams, for eventsourcing's own tools."""
        return SessionRecorder(self._opened())

    def append(self, append: Append) -> Appended:
        check_append(append)
        return self._opened().writes.write(partial(write_once, append=append))

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        check_append(append)
        try:
            writes = self._opened().writes
        except StoreError as error:
            done(error)
        else:
            writes.submit(partial(write_once, append=append), done)

    def read(
        self, session_id: str, *, after: int = 0, upto: int | None = None
    ) -> Sequence[StoredRecord]:
        check_session_id(session_id)
        with self._opened().reading() as cursor:
            return read_stream(cursor, session_id, after, upto)

    def replay(self, session_id: str, *, after: int = 0) -> Generator[Replay, None, None]:
        check_session_id(session_id)
        with self._opened().reading() as cursor:
            yield from replay_stream(cursor, session_id, after)

    def read_all(self, *, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        with self._opened().reading() as cursor:
            return read_log(cursor, after, limit)

    def subscribe(self, *, after: int = 0) -> LogSubscription:
        return self._opened().follow(after)

    def session(self, session_id: str) -> SessionRow | None:
        check_session_id(session_id)
        with self._opened().reading() as cursor:
            return find_session(cursor, session_id)

    def sessions(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        forked_from: str | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        wanted = {"status": status, "agent": agent, "tenant": tenant, "parent": forked_from}
        with self._opened().reading() as cursor:
            return list_sessions(cursor, wanted, limit)

    def restore(self, row: SessionRow) -> bool:
        check_session_id(row.session_id)
        return self._opened().writes.write(partial(restore, row=row))

    def delete(self, session_id: str, *, expected_version: int | None = None) -> int:
        check_session_id(session_id)
        at = datetime.now(UTC)
        forget = partial(bury, session_id=session_id, at=at, expected_version=expected_version)
        return self._opened().writes.write(forget)

    def erase(self, append: Append, payloads: Mapping[int, EncodedEvent]) -> Appended:
        check_erasure(append, payloads)
        erasure = partial(write_erasure, append=append, payloads=payloads)
        return self._opened().writes.write(erasure)

    def stream_ids(self, *, after: str = "", limit: int = 1000) -> Sequence[str]:
        with self._opened().reading() as cursor:
            return list_stream_ids(cursor, after, limit)

    def check(self) -> Sequence[str]:
        with self._opened().reading() as cursor:
            return examine(cursor)

    def compact(self) -> int:
        return self._opened().compaction.run()

    def next_generation(self) -> int:
        return self._opened().writes.write(draw_generation)

    def close(self) -> None:
        self._closed = True
        if not self._datastore.inherited:
            self._datastore.close()

    def _opened(self) -> SessionDatastore:
        if self._closed:
            raise closed(self._datastore.place)
        if self._datastore.inherited:
            self._reopen()
        return self._datastore

    def _reopen(self) -> None:
        if self._path is None:
            raise StoreClosed("an in-memory store stays with the process that opened it")
        with self._reopening:
            if self._datastore.inherited:
                self._datastore = self._open()


def _absolute(path: str) -> Path:
    if not path or "\0" in path:
        raise NotAStore("a store needs the path of a file; without a path it is in memory")
    return Path(path).absolute()
