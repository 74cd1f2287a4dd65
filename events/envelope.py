"""An event on its way into a stream, as it is stored, and as it is read back."""

from __future__ import annotations

from collections.abc import Sequence
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
    """The end of a stream in bulk, for a fold: JSON arrays of the payloads, each with its topic
    spliced in as ``type``, and the last event as it is stored; None where there is none."""

    documents: Sequence[bytes]
    last: StoredRecord | None


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
