"""Exported streams on their way back into a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from ..events.codec import CODEC
from ..events.envelope import EncodedEvent, StoredRecord
from ..events.session import AnyEvent, SessionEvent, SessionStarted, UnknownEvent
from ..events.terms import ForkOrigin
from ..projections import SessionState, fold
from ..stores import EventStore
from ..stores.port import Append
from .archive import Archive, read_archives
from .recording import row_after


class ImportedSession(Struct, frozen=True):
    """What became of an exported session. ``present`` says that it was there before, with the
    very same events; ``version`` is where what was exported ends."""

    session_id: str
    version: int
    present: bool


def import_events(
    lines: Iterable[bytes], store: EventStore, *, session_id: str | None = None
) -> Sequence[ImportedSession]:
    """Write the sessions of a file that ``export_events`` made, each in one append and byte for
    byte as it was.

    Under another ``session_id`` (of several sessions, how their ids begin) a session is a fork of
    the original: one event more says where it comes from. What is there already is recognised.

    Nothing of a session is written before all of it was checked. Raises ``DamagedFile``, which
    names the line, ``CorruptEvent`` for an event that can't be read, ``WrongExpectedVersion`` where
    the session exists with other events, and ``SessionDeleted``.
    """
    return [restore(archive, store, session_id) for archive in read_archives(lines)]


def restore(archive: Archive, store: EventStore, given: str | None = None) -> ImportedSession:
    """Write one session. Raises what ``import_events`` raises."""
    named = given if given is None or archive.of == 1 else f"{given}-{archive.number}"
    target = archive.session_id if named is None else named
    there = store.session(target)
    events = [CODEC.recorded(record).event for record in archive.records]
    state, at, head = fold(events), _last_time(events), archive.head
    encoded = [EncodedEvent(record.topic, record.payload) for record in archive.records]
    if target != archive.session_id:
        marker = _marker(
            archive, state, store.read(target, after=len(events), upto=len(events) + 1)
        )
        added, head = CODEC.chained([marker], len(events), head)
        encoded, state, at = [*encoded, *added], fold([marker], state), marker.at
        events.append(marker)
    created, origin = _beginning(events)
    row = replace(row_after(state, target, at, head), created=created, forked_from=origin)
    ended = store.append(Append(target, 0, tuple(encoded), row))
    return ImportedSession(target, ended.version, there is not None)


def _beginning(events: Sequence[AnyEvent]) -> tuple[datetime | None, ForkOrigin | None]:
    """When the session began, and where its first events come from, if it is a fork."""
    begun = [event for event in events if isinstance(event, SessionStarted)]
    forks = [event for event in begun if event.forked_from is not None]
    if forks:
        return forks[-1].at, forks[-1].forked_from
    first = next((event for event in events if not isinstance(event, UnknownEvent)), None)
    return None if first is None else first.at, None


def _marker(archive: Archive, state: SessionState, written: Sequence[StoredRecord]) -> SessionEvent:
    """Where the copy comes from; the very event that says so already, where one does."""
    origin = ForkOrigin(archive.session_id, len(archive.records))
    for record in written:
        event = CODEC.recorded(record).event
        if isinstance(event, SessionStarted) and event.forked_from == origin:
            return event
    return SessionStarted(
        at=datetime.now(UTC), agent=state.agent, tenant=state.tenant, forked_from=origin
    )


def _last_time(events: Sequence[AnyEvent]) -> datetime:
    known = (event.at for event in reversed(events) if not isinstance(event, UnknownEvent))
    return next(known, datetime.now(UTC))
