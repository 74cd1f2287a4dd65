"""Content erased on request: replaced in the stream, and said so in the same transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from ..events.chain import digest, link
from ..events.codec import CODEC
from ..events.envelope import EncodedEvent, StoredRecord
from ..events.erasing import erased
from ..events.errors import ErasureRefused, SessionNotFound, WrongExpectedVersion
from ..events.session import (
    AgentConfigured,
    AnyEvent,
    ApprovalResolved,
    ContentErased,
    InputQueued,
    ModelTurnRecorded,
    StepRecorded,
    UnknownEvent,
)
from ..projections import INITIAL, fold
from ..stores import EventStore
from ..stores.port import Append
from .recording import MAX_CONFLICTS, Known, append_after

FINISH_FIRST = "the open turn still needs it: finish or discard the turn first"
USE_FIRST = "the input still waits: withdraw it, or let it be used first"
TOO_NEW = "a newer turnstream wrote it: upgrade, then erase it"


def erase_content(
    store: EventStore,
    session_id: str,
    versions: Iterable[int],
    at: datetime,
    *,
    reason: str = "",
    by: str = "",
) -> int:
    """Erase the content of the events at these versions; of how many. Those without content, or
    without it by now, are left as they are; a ``ContentErased`` names the others.

    Raises ``SessionNotFound``, ``ErasureRefused`` and the store's errors.
    """
    wanted = sorted(set(versions))
    for left in reversed(range(MAX_CONFLICTS)):
        records = store.read(session_id)
        if not records:
            raise SessionNotFound(f"there is no session {session_id!r}", session_id=session_id)
        payloads = dict(_payloads(records, wanted))
        if not payloads:
            return 0
        left_there = tuple(digest(topic, n, body) for n, (topic, body) in payloads.items())
        said = ContentErased(at=at, versions=tuple(payloads), left=left_there, reason=reason, by=by)
        try:
            store.erase(_append(records, payloads, said), payloads)
        except WrongExpectedVersion:
            if not left:
                raise
        else:
            return len(payloads)
    raise AssertionError("the last try returns or raises")


def _append(
    records: Sequence[StoredRecord], payloads: Mapping[int, EncodedEvent], said: ContentErased
) -> Append:
    """The append whose row is that of the stream without the content."""
    events = [
        CODEC.decode(*payloads.get(each.version, EncodedEvent(each.topic, each.payload)))
        for each in records
    ]
    last = records[-1]
    known = Known(INITIAL, last.version, link(last.topic, last.version, last.payload))
    append, _ = append_after(known, last.session_id, [said], fold([*events, said]))
    return append


def _payloads(
    records: Sequence[StoredRecord], versions: Iterable[int]
) -> Iterator[tuple[int, EncodedEvent]]:
    """What is to stand at the versions from now on."""
    events = [CODEC.recorded(record).event for record in records]
    needed = _needed(events)
    for version in versions:
        if not 0 < version <= len(events):
            there = f"the stream has versions 1 to {len(events)}"
            raise _refused(records, version, there)
        event = events[version - 1]
        if isinstance(event, UnknownEvent):
            raise _refused(records, version, TOO_NEW)
        without = erased(event)
        if event.erased or without == event:
            continue
        if version in needed:
            raise _refused(records, version, needed[version])
        _, _, _, topic, payload = records[version - 1]
        marked = replace(without, erased=digest(topic, version, payload))
        yield version, CODEC.encode(marked, event.prev)


def _needed(events: Sequence[AnyEvent]) -> Mapping[int, str]:
    """The versions whose content is still to be used, and what to do first."""
    state = fold(events)
    turn, waiting = state.turn, {each.input_id for each in state.queued}
    needed = {
        version: USE_FIRST
        for version, event in enumerate(events, 1)
        if isinstance(event, InputQueued) and event.input_id in waiting
    }
    if turn is not None:
        needed |= dict.fromkeys(_last(events, AgentConfigured), FINISH_FIRST)
    if turn is not None:
        needed |= {
            version: FINISH_FIRST
            for version, event in enumerate(events, 1)
            if isinstance(event, StepRecorded) and not event.call_id
            if event.turn_id == turn.turn_id
        }
    if turn is not None and turn.calls:
        (asked,) = _last(events, ModelTurnRecorded)
        needed[asked] = FINISH_FIRST
        for version, event in enumerate(events[asked:], asked + 1):
            if isinstance(event, ApprovalResolved | StepRecorded):
                needed[version] = FINISH_FIRST
    return needed


def _last(events: Sequence[AnyEvent], kind: type[AnyEvent]) -> list[int]:
    """The version of the last event of this kind, if there is one."""
    return [version for version, event in enumerate(events, 1) if isinstance(event, kind)][-1:]


def _refused(records: Sequence[StoredRecord], version: int, why: str) -> ErasureRefused:
    session_id = records[0].session_id
    return ErasureRefused(
        f"version {version} of session {session_id!r} can't be erased: {why}",
        session_id=session_id,
    )
