"""A whole store looked over: its medium, each stream, and the row beside each.

Streams are read page by page, one after the other. Others may go on writing meanwhile: what looks
wrong is looked at again where the row has moved on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from ..events.chain import link, verify
from ..events.codec import CODEC
from ..events.errors import CorruptEvent, StoreBusy, StoreClosed
from ..events.identifiers import check_session_id
from ..events.session import ContentErased
from ..projections.auditing import RuleKind
from ..stores import EventStore, SessionRow
from .walking import PAGE, Walk, disagreements, shared_version, told

Kind: TypeAlias = (
    Literal["medium", "unreadable", "chain", "row", "snapshot", "origin", "unknown"] | RuleKind
)
Said: TypeAlias = list[tuple[int, ContentErased]]

LOOKS = 5
FALSE_SNAPSHOT = (
    "its snapshot is not what its events fold to: drop it, snapshots.drop(id) of the store does"
)


class Finding(Struct, frozen=True):
    """What was found. ``session_id`` and ``version`` say where, as far as it can be told (empty
    and 0)."""

    kind: Kind
    session_id: str
    version: int
    reason: str

    @property
    def is_fault(self) -> bool:
        """Whether something is wrong; otherwise it is something to know."""
        return self.kind != "unknown"


class Audited(Struct, frozen=True):
    """What a look at one session, or at what belongs to none, came to."""

    session_id: str
    events: int
    findings: Sequence[Finding]


def audit_store(store: EventStore, ids: Sequence[str] = ()) -> Iterator[Audited]:
    """Look at the store's medium and at every session, or at those of these ``ids``: what each
    came to, as it is known.

    Raises ``InvalidSessionId``, ``StoreClosed`` and ``StoreBusy``; whatever else keeps something
    from being read is a finding.
    """
    for each in ids:
        check_session_id(each)
    yield Audited("", 0, [Finding("medium", "", 0, reason) for reason in store.check()])
    if ids:
        for session_id in ids:
            yield audit_session(store, session_id)
        return
    seen = set[str]()
    for found in _each_stream(store):
        seen.add(found.session_id)
        yield found
    yield Audited("", 0, _rows_without_streams(store, seen))


def audit_session(store: EventStore, session_id: str) -> Audited:
    """What is wrong with one session; looked at again for as long as others write to it. Raises
    ``StoreClosed`` and ``StoreBusy``."""
    looked = Audited(session_id, 0, ())
    for _ in range(LOOKS):
        row, unreadable = _row(store, session_id)
        try:
            looked = _looked(store, session_id, row, unreadable)
        except (StoreClosed, StoreBusy):
            raise
        except Exception as error:  # as in a session that it was forked from
            return Audited(session_id, 0, [Finding("unreadable", session_id, 0, told(error))])
        if not looked.findings or unreadable or row == _row(store, session_id)[0]:
            break
    return looked


def _each_stream(store: EventStore) -> Iterator[Audited]:
    last = ""
    while True:
        try:
            page = store.stream_ids(after=last, limit=PAGE)
        except (StoreClosed, StoreBusy):
            raise
        except Exception as error:  # whatever damaged bytes make of a read is to be told
            reason = f"the streams after {last!r} can't be listed: {told(error)}"
            yield Audited("", 0, [Finding("unreadable", "", 0, reason)])
            return
        if not page:
            return
        for last in page:
            yield audit_session(store, last)


def _rows_without_streams(store: EventStore, seen: set[str]) -> list[Finding]:
    try:
        ids = [row.session_id for row in store.sessions() if row.session_id not in seen]
        bare = [each for each in ids if not store.read(each, upto=1) and store.session(each)]
    except (StoreClosed, StoreBusy):
        raise
    except Exception as error:  # as above
        return [Finding("unreadable", "", 0, f"the rows can't be listed: {told(error)}")]
    return [Finding("row", each, 0, "it has a row, and its stream is missing") for each in bare]


def _row(store: EventStore, session_id: str) -> tuple[SessionRow | None, str]:
    """The session's row, and why it can't be read."""
    try:
        return store.session(session_id), ""
    except (StoreClosed, StoreBusy):
        raise
    except Exception as error:  # as above
        return None, f"its row can't be read: {told(error)}"


def _looked(store: EventStore, session_id: str, row: SessionRow | None, unreadable: str) -> Audited:
    def finding(kind: Kind, version: int, reason: str) -> Finding:
        return Finding(kind, session_id, version, reason)

    walk = Walk(store, session_id, row)
    fault = verify(walk.records(), "" if row is None else row.head)
    found = [finding("row", 0, unreadable)] if unreadable else []
    if walk.unread is not None:
        found.append(finding("unreadable", *walk.unread))
    elif fault is not None:
        found.append(finding("chain", *fault))
    else:
        found += [finding(*each) for each in _against_the_rules(walk)]
        found += [finding(*each) for each in _not_vouched(store, row, walk)]
        if not found:
            found += [finding("row", walk.count, each) for each in disagreements(row, walk)]
        if walk.false_snapshot:
            found.append(finding("snapshot", walk.false_snapshot, FALSE_SNAPSHOT))
        found += [finding(*each) for each in _of_another_origin(store, row, walk)]
    if walk.audit.unknown:
        told_unknown = f"{len(walk.audit.unknown)} events of a newer turnstream are not judged"
        found.append(finding("unknown", walk.audit.unknown[0], told_unknown))
    return Audited(session_id, walk.count, found)


def _against_the_rules(walk: Walk) -> Iterator[tuple[Kind, int, str]]:
    if walk.corrupt is not None:
        yield "unreadable", walk.corrupt.version, walk.corrupt.reason
    elif walk.audit.breach is not None:
        yield walk.audit.breach


def _not_vouched(
    store: EventStore, row: SessionRow | None, walk: Walk
) -> Iterator[tuple[Kind, int, str]]:
    if not walk.audit.unvouched([]):
        return
    shared = 0 if row is None else shared_version(row)
    elsewhere, complete = _said_by_origins(store, row)
    for version in walk.audit.unvouched(elsewhere):
        reason = "its content was erased, and no ContentErased vouches for what stands there"
        if version > shared or complete:
            yield "erasure", version, reason
        else:
            yield "unknown", version, f"{reason}; the session it was forked from is gone"


def _said_by_origins(store: EventStore, row: SessionRow | None) -> tuple[Said, bool]:
    """What the sessions that a fork comes from say of erased content, and whether all of them
    are still there."""
    said: Said = []
    while row is not None and row.forked_from is not None:
        origin = row.forked_from.session_id
        row = store.session(origin)
        if row is None:
            return said, False
        for record in Walk(store, origin, row).records():
            try:
                event = CODEC.decode(record.topic, record.payload)
            except CorruptEvent:
                continue
            if isinstance(event, ContentErased):
                said.append((record.version, event))
    return said, True


def _of_another_origin(
    store: EventStore, row: SessionRow | None, walk: Walk
) -> Iterator[tuple[Kind, int, str]]:
    if row is None or row.forked_from is None or not walk.shared:
        return
    origin, version = row.forked_from.session_id, row.forked_from.version
    there = store.read(origin, after=version - 1, upto=version)
    if there and link(there[0].topic, version, there[0].payload) != walk.shared:
        yield "origin", version, f"its first {version} events are not those of {origin!r}"
