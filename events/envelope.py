"""An event on its way into a stream, as it is stored, and as it is read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from .session import AnyEvent, UnknownEvent


class EncodedEvent(NamedTuple):
    """An event to be appended: its topic and the bytes of its payload."""

    topic: str
    payload: bytes


class StoredRecord(NamedTuple):
    """An event as it is stored. ``position`` is its place in the order of all events,
    ``version`` its place in its stream, both from 1."""

    position: int
    session_id: str
    version: int
    topic: str
    payload: bytes


class Replay(NamedTuple):
    """Some of a stream in bulk, for a fold: topics and payloads of the events that follow
    version ``after``, each as it is stored."""

    session_id: str
    after: int
    topics: Sequence[str]
    payloads: Sequence[bytes]

    @property
    def version(self) -> int:
        """The version of the last event; ``after`` where there is none."""
        return self.after + len(self.topics)

    def records(self) -> Iterator[StoredRecord]:
        """The events as records, whose positions are not known: 0."""
        stored = zip(self.topics, self.payloads, strict=True)
        for version, (topic, payload) in enumerate(stored, self.after + 1):
            yield StoredRecord(0, self.session_id, version, topic, payload)


class RecordedEvent(NamedTuple):
    """A stored event, decoded."""

    position: int
    session_id: str
    version: int
    topic: str
    event: AnyEvent

    @property
    def at(self) -> datetime | None:
        """When it happened (UTC); None for an event this version does not know."""
        return None if isinstance(self.event, UnknownEvent) else self.event.at
