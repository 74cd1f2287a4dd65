"""A stream's events, as quickly as they can be had."""

from __future__ import annotations

from collections.abc import Sequence

from ..events.codec import CODEC
from ..events.envelope import StoredRecord
from ..events.session import AnyEvent
from ..stores import EventStore


def replayed(
    store: EventStore, session_id: str, *, after: int = 0
) -> tuple[Sequence[AnyEvent], StoredRecord | None]:
    """The events with versions above ``after``, and the last of them as it is stored; None where
    there are none. Raises ``CorruptEvent``, which names the version."""
    replay = store.replay(session_id, after=after)
    events = CODEC.replayed(replay)
    if events is not None:
        return events, replay.last
    records = store.read(session_id, after=after)
    return [CODEC.recorded(each).event for each in records], records[-1] if records else None
