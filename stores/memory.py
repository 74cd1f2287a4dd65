"""Streams in this process's memory: the specification of a store, and it runs.

Everything in here is immutable but the containers, and no container leaves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Mapping, Sequence
from operator import attrgetter
from threading import RLock

from msgspec.structs import replace

from ..events.envelope import EncodedEvent, Replay, StoredRecord
from ..events.errors import SessionDeleted, StoreClosed, StoreError, WrongExpectedVersion
from ..events.identifiers import check_session_id
from ..events.session import Status
from ..events.terms import ForkOrigin
from .memory_snapshots import MemorySnapshots
from .memory_tables import MemoryTables
from .port import Append, Appended, SessionRow
from .read_models import ReadModelTables
from .subscription import Listeners, LogSubscription
from .validity import check_append, check_erasure


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
        self.snapshots: MemorySnapshots = MemorySnapshots(self._opened, self._version_of)
        self.read_models: ReadModelTables = MemoryTables(self._opened, self._end)

    def append(self, append: Append) -> Appended:
        check_append(append)
        with self._opened():
            prefix = self._prefix(append.copied)
            stream = self._streams.get(append.session_id, [])
            if append.session_id in self._tombstones:
                raise SessionDeleted(append.session_id)
            if len(stream) != (0 if append.copied else append.expected_version):
                return _written_before(append, stream)
            records = self._records(append, prefix)
            self._log += records
            self._streams.setdefault(append.session_id, []).extend(records)
            self._rows[append.session_id] = self._row(append, records)
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
        forked_from: str | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        with self._opened():
            rows = [
                row
                for row in self._rows.values()
                if status in (None, row.status)
                and agent in (None, row.agent)
                and tenant in (None, row.tenant)
                and forked_from in (None, row.forked_from and row.forked_from.session_id)
            ]
        rows.sort(key=attrgetter("session_id"))
        rows.sort(key=attrgetter("updated"), reverse=True)
        return tuple(rows if limit is None else rows[: max(limit, 0)])

    def restore(self, row: SessionRow) -> bool:
        with self._opened():
            stands = 0 < len(self._streams.get(row.session_id, ())) == row.version
            if stands:
                self._rows[row.session_id] = row
            return stands

    def delete(self, session_id: str, *, expected_version: int | None = None) -> int:
        check_session_id(session_id)
        with self._opened():
            if expected_version is not None and session_id in self._tombstones:
                raise SessionDeleted(session_id)
            actual = len(self._streams.get(session_id, []))
            if expected_version not in (None, actual):
                raise WrongExpectedVersion(session_id, expected=expected_version, actual=actual)
            stream = self._streams.pop(session_id, [])
            if stream:
                del self._rows[session_id]
                self._tombstones.add(session_id)
                self._log = [record for record in self._log if record.session_id != session_id]
                self.snapshots.drop(session_id)
            return len(stream)

    def erase(self, append: Append, payloads: Mapping[int, EncodedEvent]) -> Appended:
        check_erasure(append, payloads)
        with self._opened():
            appended = self.append(append)
            for version, (topic, payload) in payloads.items():
                self._put(append.session_id, version, topic, bytes(payload))
            return appended

    def stream_ids(self, *, after: str = "", limit: int = 1000) -> Sequence[str]:
        with self._opened():
            above = sorted(each for each in self._streams if each > after)
            return tuple(above[: max(limit, 0)])

    def check(self) -> Sequence[str]:
        with self._opened():
            return ()

    def compact(self) -> int:
        with self._opened():
            return 0

    def next_generation(self) -> int:
        with self._opened():
            self._generation += 1
            return self._generation

    def close(self) -> None:
        self._closed = True
        self._listeners.close()

    def _put(self, session_id: str, version: int, topic: str, payload: bytes) -> None:
        stream, row = self._streams[session_id], self._rows[session_id]
        before = stream[version - 1]
        record = before._replace(topic=topic, payload=payload)
        stream[version - 1] = record
        self._log[bisect_left(self._log, record.position, key=attrgetter("position"))] = record
        grown = len(payload) - len(before.payload)
        self._rows[session_id] = replace(row, size=row.size + grown)

    def _opened(self) -> RLock:
        if self._closed:
            raise StoreClosed("the memory store was closed; make a new one")
        return self._lock

    def _version_of(self, session_id: str) -> int:
        return len(self._streams.get(session_id, ()))

    def _end(self) -> int:
        return self._log[-1].position if self._log else 0

    def _page(self, after: int, limit: int) -> Sequence[StoredRecord]:
        return self.read_all(after=after, limit=limit)

    def _prefix(self, origin: ForkOrigin | None) -> Sequence[StoredRecord]:
        if origin is None:
            return ()
        if origin.session_id in self._tombstones:
            raise SessionDeleted(origin.session_id)
        stream = self._streams.get(origin.session_id, [])
        if len(stream) < origin.version:
            raise WrongExpectedVersion(
                origin.session_id, expected=origin.version, actual=len(stream)
            )
        return stream[: origin.version]

    def _records(self, append: Append, prefix: Sequence[StoredRecord]) -> list[StoredRecord]:
        sid, position = append.session_id, self._position
        first = append.expected_version - len(prefix) + 1
        events = [*((each.topic, each.payload) for each in prefix), *append.events]
        return [
            StoredRecord(position + n, sid, version, topic, bytes(payload))
            for n, (version, (topic, payload)) in enumerate(enumerate(events, first), 1)
        ]

    def _row(self, append: Append, records: Sequence[StoredRecord]) -> SessionRow:
        sid, row = append.session_id, append.row
        size = sum(len(each.payload) for each in records)
        before = self._rows.get(sid)
        if before is None:
            created, forked_from = row.created or row.at, append.copied or row.forked_from
        else:
            created, forked_from = before.created, before.forked_from
            size += before.size
        return SessionRow(
            sid,
            records[-1].version,
            row.status,
            row.agent,
            row.tenant,
            created,
            row.at,
            row.approvals,
            row.head,
            size,
            forked_from,
        )


def _written_before(append: Append, stream: Sequence[StoredRecord]) -> Appended:
    """Our own append whose acknowledgement was lost, or ``WrongExpectedVersion``."""
    ours = stream[append.expected_version :][: len(append.events)]
    if [(r.topic, r.payload) for r in ours] != [tuple(e) for e in append.events]:
        expected = 0 if append.copied else append.expected_version
        raise WrongExpectedVersion(append.session_id, expected=expected, actual=len(stream))
    return Appended(ours[-1].version, ours[-1].position)
