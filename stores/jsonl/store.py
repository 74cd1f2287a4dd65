"""Streams in a directory: one file of JSON lines for each session."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock

from ...events.envelope import EncodedEvent, Replay, StoredRecord
from ...events.errors import NotAStore, StoreError, StoreUnavailable
from ...events.identifiers import check_session_id
from ...events.session import Status
from ..port import Append, Appended, SessionRow
from ..read_models import ReadModelTables
from ..subscription import LogSubscription
from ..validity import check_append, check_erasure
from .directory import StoreDirectory
from .files import disk_errors
from .generations import draw_generation
from .read_models import FileTables
from .round import END, Round
from .snapshots import FileSnapshots
from .upkeep import examine, make_small
from .writing import write_append, write_deletion, write_erasure, write_row


class JSONLStore:
    """A store in the directory at ``path``, made if there is none. Each session is a file that
    any tool can read. Several threads and processes may use one directory.

    An acknowledged append outlives a power cut. Without ``sync`` it outlives a crash of the
    process, and a power cut may take the last ones. ``timeout`` is how long, in seconds, to wait
    for other processes' writers before ``StoreBusy``. After a fork the child opens the directory
    anew on first use.

    Raises ``NotAStore``, ``StoreTooNew``, ``StoreBusy`` or ``StoreUnavailable``.
    """

    durable = True

    def __init__(
        self, path: str | os.PathLike[str], *, sync: bool = True, timeout: float = 5.0
    ) -> None:
        place = _absolute(os.fspath(path))
        self._open = partial(StoreDirectory, place, sync=sync, timeout=timeout)
        self._reopening = Lock()
        self._directory = self._open()
        self.snapshots: FileSnapshots = FileSnapshots(self._opened)
        self.read_models: ReadModelTables = FileTables(self._opened)

    def append(self, append: Append) -> Appended:
        check_append(append)
        return self._opened().writes.write(partial(write_append, append=append))

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        check_append(append)
        try:
            writes = self._opened().writes
        except StoreError as error:
            done(error)
        else:
            writes.submit(partial(write_append, append=append), done)

    def read(
        self, session_id: str, *, after: int = 0, upto: int | None = None
    ) -> Sequence[StoredRecord]:
        check_session_id(session_id)
        return self._opened().read(session_id, max(after, 0), END if upto is None else upto)

    def replay(self, session_id: str, *, after: int = 0) -> Generator[Replay, None, None]:
        check_session_id(session_id)
        first = max(after, 0)
        for records in self._opened().pages(session_id, first):
            topics, payloads = [r.topic for r in records], [r.payload for r in records]
            yield Replay(session_id, first, topics, payloads)
            first += len(records)

    def read_all(self, *, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        return self._opened().read_log(after, limit)

    def subscribe(self, *, after: int = 0) -> LogSubscription:
        return self._opened().follow(after)

    def session(self, session_id: str) -> SessionRow | None:
        check_session_id(session_id)
        return self._opened().row(session_id)

    def sessions(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        forked_from: str | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        directory = self._opened()
        directory.refresh()
        rows = directory.index.rows(status, agent, tenant, forked_from)
        return rows if limit is None else rows[: max(limit, 0)]

    def restore(self, row: SessionRow) -> bool:
        check_session_id(row.session_id)
        return self._opened().writes.write(partial(write_row, row=row))

    def delete(self, session_id: str, *, expected_version: int | None = None) -> int:
        check_session_id(session_id)
        at = datetime.now(UTC)
        delete = partial(
            write_deletion, session_id=session_id, at=at, expected_version=expected_version
        )
        return self._opened().writes.write(delete)

    def erase(self, append: Append, payloads: Mapping[int, EncodedEvent]) -> Appended:
        check_erasure(append, payloads)
        erasure = partial(write_erasure, append=append, payloads=payloads)
        return self._opened().writes.write(erasure)

    def stream_ids(self, *, after: str = "", limit: int = 1000) -> Sequence[str]:
        above = sorted(each for each in self._opened().stream_ids() if each > after)
        return above[: max(limit, 0)]

    def check(self) -> Sequence[str]:
        directory = self._opened()
        directory.refresh()
        with disk_errors(directory.place):
            if not (wrong := examine(directory.files)):
                return ()
        # What others were writing at that moment may have looked wrong.
        return self._examined_at_rest(directory, wrong)

    def compact(self) -> int:
        directory = self._opened()

        def compact(into: Round) -> int:
            return make_small(into, directory.tables(held=True))

        return directory.writes.write(compact)

    def next_generation(self) -> int:
        return self._opened().writes.write(draw_generation)

    def close(self) -> None:
        if not self._directory.inherited:
            self._directory.close()

    def _opened(self) -> StoreDirectory:
        directory = self._directory
        directory.check_open()
        if directory.inherited:
            with self._reopening:
                if self._directory.inherited:
                    self._directory = self._open()
        return self._directory

    def _examined_at_rest(self, directory: StoreDirectory, wrong: Sequence[str]) -> Sequence[str]:
        try:
            return directory.writes.write(lambda into: examine(into.files))
        except StoreUnavailable:
            return wrong


def _absolute(path: str) -> Path:
    if not path or "\0" in path:
        raise NotAStore("a store needs the path of a directory")
    return Path(path).absolute()
