"""Events as eventsourcing has them, and as stores do: for the recorders of databases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from eventsourcing.persistence import (
    ApplicationRecorder,
    IntegrityError,
    Notification,
    StoredEvent,
    Subscription,
)

from ..events.chain import digest
from ..events.envelope import EncodedEvent
from ..events.session import Status
from . import port
from .port import Append, RowChange

RecorderT = TypeVar("RecorderT", bound=ApplicationRecorder)


class RecorderSubscription(Subscription[RecorderT]):
    """A subscription to a store's ``log`` in the library's words."""

    def __init__(self, recorder: RecorderT, log: port.Subscription, topics: Sequence[str]) -> None:
        super().__init__(recorder, None, topics)
        self._log = log

    def stop(self) -> None:
        super().stop()
        self._log.close()

    def __next__(self) -> Notification:
        for position, session_id, version, topic, payload in self._log:
            if not self._topics or topic in self._topics:
                return Notification(session_id, version, topic, payload, position)
        raise StopIteration


def by_stream(stored_events: Sequence[StoredEvent]) -> Sequence[Sequence[StoredEvent]]:
    """The events, those of one stream together. Raises ``IntegrityError`` where one of them does
    not follow the one before it."""
    streams = [list(stream) for _, stream in groupby(stored_events, attrgetter("originator_id"))]
    for stream in streams:
        first = stream[0].originator_version
        if any(event.originator_version != v for v, event in enumerate(stream, first)):
            raise IntegrityError("the events of a stream have consecutive versions")
    return streams


def append_of(stream: Sequence[StoredEvent], status: Status, agent: str, tenant: str) -> Append:
    """The events of one stream as an append, after which its row says what it said."""
    last, before = stream[-1], stream[0].originator_version - 1
    events = tuple(EncodedEvent(event.topic, event.state) for event in stream)
    head = digest(last.topic, last.originator_version, last.state)
    change = RowChange(status, agent, datetime.now(UTC), tenant, head=head)
    return Append(str(last.originator_id), before, events, change)
