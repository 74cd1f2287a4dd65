"""Streams in this process's memory: the specification of a store, and it runs.

Everything in here is immutable but the containers, and no container leaves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from operator import attrgetter
from threading import RLock

from ..events.envelope import Replay, StoredRecord
from ..events.errors import SessionDeleted, StoreClosed, StoreError, WrongExpectedVersion
from ..events.identifiers import check_session_id
from ..events.session import Status
from .port import Append, Appended, SessionRow
from .subscription import Listeners, LogSubscription
from .validity import check_append


class MemoryStore:
    """A store that lives as long as the process (``memory://``)."""

    durable = False

    def __init__(self) -> None:
        self._lock = RLock()
        self._log: list[StoredRecord] = []
        self._streams: dict[str, list[StoredRecord]] = {}
        self._rows: dict[str, SessionRow] = {}
        self._tombstones: set[str] = set()
        self._position = self._generation = 0
        self._closed = False
        self._listeners = Listeners()

    def append(self, append: Append) -> Appended:
        check_append(append)
        with self._opened():
            stream = self._streams.get(append.session_id, [])
            if append.session_id in self._tombstones:
                raise SessionDeleted(append.session_id)
            if append.expected_version != len(stream):
                return _written_before(append, stream)
            records = self._records(append)
            self._log += records
            self._streams.setdefault(append.session_id, []).extend(records)
            self._rows[append.session_id] = self._row(append, records[-1].version)
            self._position += len(records)
        self._listeners.notify()
        return Appended(records[-1].version, records[-1].position)

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        try:
            outcome: Appended | StoreError = self.append(append)
        except StoreError as error:
            outcome = error
        done(outcome)

    def read(
        self, session_id: str, *, after: int = 0, upto: int | None = None
    ) -> Sequence[StoredRecord]:
        check_session_id(session_id)
        with self._opened():
            stream = self._streams.get(session_id, [])
            last = len(stream) if upto is None else max(upto, 0)
            return tuple(stream[max(after, 0) : last])

    def replay(self, session_id: str, *, after: int = 0) -> Generator[Replay, None, None]:
        if stream := self.read(session_id, after=after):
            topics, payloads = [r.topic for r in stream], [r.payload for r in stream]
            yield Replay(session_id, max(after, 0), topics, payloads)

    def read_all(self, *, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        with self._opened():
            first = bisect_right(self._log, after, key=attrgetter("position"))
            return tuple(self._log[first : first + max(limit, 0)])

    def subscribe(self, *, after: int = 0) -> LogSubscription:
        with self._opened():
            return LogSubscription(self._page, self._listeners, after=after)

    def session(self, session_id: str) -> SessionRow | None:
        check_session_id(session_id)
        with self._opened():
            return self._rows.get(session_id)

    def sessions(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        with self._opened():
            rows = [
                row
                for row in self._rows.values()
                if status in (None, row.status)
                and agent in (None, row.agent)
                and tenant in (None, row.tenant)
            ]
        rows.sort(key=attrgetter("session_id"))
        rows.sort(key=attrgetter("updated"), reverse=True)
        return tuple(rows if limit is None else rows[: max(limit, 0)])

    def delete(self, session_id: str) -> int:
        check_session_id(session_id)
        with self._opened():
            stream = self._streams.pop(session_id, [])
            if stream:
                del self._rows[session_id]
                self._tombstones.add(session_id)
                self._log = [record for record in self._log if record.session_id != session_id]
            return len(stream)

    def next_generation(self) -> int:
        with self._opened():
            self._generation += 1
            return self._generation

    def close(self) -> None:
        self._closed = True
        self._listeners.close()

    def _opened(self) -> RLock:
        if self._closed:
            raise StoreClosed("the memory store was closed; make a new one")
        return self._lock

    def _page(self, after: int, limit: int) -> Sequence[StoredRecord]:
        return self.read_all(after=after, limit=limit)

    def _records(self, append: Append) -> list[StoredRecord]:
        sid, position, version = append.session_id, self._position, append.expected_version
        return [
            StoredRecord(position + n, sid, version + n, topic, bytes(payload))
            for n, (topic, payload) in enumerate(append.events, 1)
        ]

    def _row(self, append: Append, version: int) -> SessionRow:
        sid, row = append.session_id, append.row
        created = self._rows[sid].created if sid in self._rows else row.at
        return SessionRow(
            sid, version, row.status, row.agent, row.tenant, created, row.at, row.approvals
        )


def _written_before(append: Append, stream: Sequence[StoredRecord]) -> Appended:
    """Our own append whose acknowledgement was lost, or ``WrongExpectedVersion``."""
    ours = stream[append.expected_version :][: len(append.events)]
    if [(r.topic, r.payload) for r in ours] != [tuple(e) for e in append.events]:
        raise WrongExpectedVersion(
            append.session_id, expected=append.expected_version, actual=len(stream)
        )
    return Appended(ours[-1].version, ours[-1].position)
