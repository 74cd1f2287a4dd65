"""A store's database as eventsourcing's recorder, for the library's own tools.

Its event store, notification logs and projections read and write the same streams; what they
write goes through the same compare-and-set and the same group commit as everything else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from eventsourcing.persistence import IntegrityError, StoredEvent, Subscription
from eventsourcing.sqlite import SQLiteApplicationRecorder

from ..events.errors import SessionDeleted, StoreError, WrongExpectedVersion
from ..events.session import Status
from .appending import write_append
from .datastore import SessionDatastore
from .stored_events import RecorderSubscription, append_of, by_stream
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
        streams = by_stream(stored_events)

        def write(cursor: sqlite3.Cursor) -> list[int]:
            return [position for stream in streams for position in _append(cursor, stream)]

        try:
            return self.datastore.writes.write(write) if streams else []
        except (WrongExpectedVersion, SessionDeleted) as error:
            raise IntegrityError(str(error)) from error

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[SessionRecorder]:
        return RecorderSubscription(self, self.datastore.follow(gt or 0), topics)


def _append(cursor: sqlite3.Cursor, stream: Sequence[StoredEvent]) -> Iterator[int]:
    """Append to one stream; the positions."""
    sid = str(stream[0].originator_id)
    status: Status
    status, agent, tenant = cursor.execute(ROW, (sid,)).fetchone() or ("idle", "", "")
    try:
        last = write_append(cursor, append_of(stream, status, agent, tenant)).position
    except StoreError as error:
        raise Undo(error) from error
    return iter(range(last - len(stream) + 1, last + 1))
