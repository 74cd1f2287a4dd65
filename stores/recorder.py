"""A store's database as eventsourcing's recorder, for the library's own tools.

Its event store, notification logs and projections read and write the same streams; what they
write goes through the same compare-and-set and the same group commit as everything else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from eventsourcing.persistence import IntegrityError, Notification, StoredEvent, Subscription
from eventsourcing.sqlite import SQLiteApplicationRecorder

from ..events.chain import digest
from ..events.envelope import EncodedEvent
from ..events.errors import SessionDeleted, StoreError, WrongExpectedVersion
from ..events.session import Status
from .appending import write_append
from .datastore import SessionDatastore
from .port import Append, RowChange
from .transaction import Undo

ROW = "SELECT status, agent, tenant FROM sessions WHERE id = ?"


class SessionRecorder(SQLiteApplicationRecorder):
    """Reads and writes the events of an open ``SessionDatastore``."""

    datastore: SessionDatastore

    def __init__(self, datastore: SessionDatastore) -> None:
        super().__init__(datastore)

    def create_table(self) -> None:
        """Nothing: the tables came with the datastore."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int]:
        """Append the events to their streams, all or none; their positions. Raises
        ``IntegrityError`` where they do not follow the last event of their stream."""
        streams = [list(stream) for _, stream in groupby(stored_events, _originator)]
        if not all(map(_is_contiguous, streams)):
            raise IntegrityError("the events of a stream have consecutive versions")

        def write(cursor: sqlite3.Cursor) -> list[int]:
            return [position for stream in streams for position in _append(cursor, stream)]

        try:
            return self.datastore.writes.write(write) if streams else []
        except (WrongExpectedVersion, SessionDeleted) as error:
            raise IntegrityError(str(error)) from error

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[SessionRecorder]:
        return RecorderSubscription(self, gt=gt, topics=topics)


class RecorderSubscription(Subscription[SessionRecorder]):
    """A ``LogSubscription`` in the library's words."""

    def __init__(
        self, recorder: SessionRecorder, gt: int | None = None, topics: Sequence[str] = ()
    ) -> None:
        super().__init__(recorder, gt, topics)
        self._log = recorder.datastore.follow(gt or 0)

    def stop(self) -> None:
        super().stop()
        self._log.close()

    def __next__(self) -> Notification:
        for position, session_id, version, topic, payload in self._log:
            if not self._topics or topic in self._topics:
                return Notification(session_id, version, topic, payload, position)
        raise StopIteration


_originator = attrgetter("originator_id")


def _is_contiguous(stream: Sequence[StoredEvent]) -> bool:
    first = stream[0].originator_version
    return all(event.originator_version == v for v, event in enumerate(stream, first))


def _append(cursor: sqlite3.Cursor, stream: Sequence[StoredEvent]) -> Iterator[int]:
    """Append to one stream, whose row keeps what it says; the positions."""
    sid, first = str(stream[0].originator_id), stream[0].originator_version
    status: Status
    status, agent, tenant = cursor.execute(ROW, (sid,)).fetchone() or ("idle", "", "")
    events = tuple(EncodedEvent(event.topic, event.state) for event in stream)
    head = digest(events[-1].topic, stream[-1].originator_version, events[-1].payload)
    change = RowChange(status, agent, datetime.now(UTC), tenant, head=head)
    try:
        last = write_append(cursor, Append(sid, first - 1, events, change)).position
    except StoreError as error:
        raise Undo(error) from error
    return iter(range(last - len(stream) + 1, last + 1))
