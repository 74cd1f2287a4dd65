"""A store's database as eventsourcing's recorder, for the library's own tools.

Its event store, notification logs and projections read and write the same streams. It reads with
the library's own statements; what it writes goes through the same call as every append.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eventsourcing.persistence import IntegrityError, StoredEvent, Subscription
from eventsourcing.postgres import PostgresApplicationRecorder

from ...events.errors import SessionDeleted, WrongExpectedVersion
from ..stored_events import RecorderSubscription, append_of, by_stream
from .appending import call
from .connections import Cursor
from .datastore import PostgresSessions
from .functions import LOCK_THE_LOG

ROW = "SELECT version, status, agent, tenant FROM sessions WHERE id = %b"


class PostgresSessionRecorder(PostgresApplicationRecorder):
    """Reads and writes the events of an open ``PostgresSessions``."""

    datastore: PostgresSessions

    def __init__(self, datastore: PostgresSessions) -> None:
        super().__init__(datastore)

    def create_table(self) -> None:
        """Nothing: the tables came with the datastore."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int]:
        """Append the events to their streams, all or none; their positions. Raises
        ``IntegrityError`` where they do not follow the last event of their stream."""
        streams = by_stream(stored_events)

        def write(cursor: Cursor, again: object) -> list[int]:
            cursor.execute(LOCK_THE_LOG)
            return [
                position
                for stream in streams
                for position in _append(cursor, stream, again=bool(again))
            ]

        try:
            positions = self.datastore.transact(write) if streams else []
        except (WrongExpectedVersion, SessionDeleted) as error:
            raise IntegrityError(str(error)) from error
        self.datastore.listeners.notify()
        return positions

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[PostgresSessionRecorder]:
        return RecorderSubscription(self, self.datastore.follow(gt or 0), topics)


def _append(cursor: Cursor, stream: Sequence[StoredEvent], *, again: bool) -> Sequence[int]:
    """Append to one stream; the positions. The library wants what stands there already refused,
    but for what was written just now and not acknowledged."""
    sid, before = str(stream[0].originator_id), stream[0].originator_version - 1
    row = cursor.execute(ROW, (sid,)).fetchone() or (before, "idle", "", "")
    version, status, agent, tenant = row
    if version > before and not again:
        raise WrongExpectedVersion(sid, expected=before, actual=version)
    last = call(cursor, append_of(stream, status, agent, tenant)).position
    return range(last - len(stream) + 1, last + 1)
