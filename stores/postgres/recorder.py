"""A store's database as eventsourcing's recorder, for the library's own tools.

Its event store, notification logs and projections read and write the same streams. It reads with
the library's own statements; what it writes goes through the same call as every append.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from eventsourcing.persistence import IntegrityError, Notification, StoredEvent, Subscription
from eventsourcing.postgres import PostgresApplicationRecorder

from ...events.chain import digest
from ...events.envelope import EncodedEvent
from ...events.errors import SessionDeleted, WrongExpectedVersion
from ...events.session import Status
from ..port import Append, RowChange
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
        streams = [list(stream) for _, stream in groupby(stored_events, _originator)]
        if not all(map(_is_contiguous, streams)):
            raise IntegrityError("the events of a stream have consecutive versions")

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
        return RecorderSubscription(self, gt=gt, topics=topics)


class RecorderSubscription(Subscription[PostgresSessionRecorder]):
    """A ``LogSubscription`` in the library's words."""

    def __init__(
        self, recorder: PostgresSessionRecorder, gt: int | None = None, topics: Sequence[str] = ()
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


def _append(cursor: Cursor, stream: Sequence[StoredEvent], *, again: bool) -> Sequence[int]:
    """Append to one stream, whose row keeps what it says; the positions. The library wants what
    stands there already refused, but for what was written just now and not acknowledged."""
    sid, first = str(stream[0].originator_id), stream[0].originator_version
    status: Status
    row = cursor.execute(ROW, (sid,)).fetchone() or (first - 1, "idle", "", "")
    version, status, agent, tenant = row
    if version >= first and not again:
        raise WrongExpectedVersion(sid, expected=first - 1, actual=version)
    events = tuple(EncodedEvent(event.topic, event.state) for event in stream)
    head = digest(events[-1].topic, stream[-1].originator_version, events[-1].payload)
    change = RowChange(status, agent, datetime.now(UTC), tenant, head=head)
    last = call(cursor, Append(sid, first - 1, events, change)).position
    return range(last - len(stream) + 1, last + 1)
