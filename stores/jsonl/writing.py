"""What a store is asked to write, as units and new files of a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from ...events.envelope import EncodedEvent
from ...events.errors import SessionDeleted, WrongExpectedVersion
from ...events.terms import ForkOrigin
from ..port import Append, Appended, SessionRow
from .files import opened_file, read_at
from .index import Change, Head, Span
from .lines import (
    CLOSING,
    FORMAT,
    Closing,
    Header,
    Tombstone,
    Unfit,
    event_line,
    opened,
    record_of,
    row_line,
    sealed,
    unit_lines,
)
from .reading import Damage
from .round import Round


def write_append(into: Round, append: Append) -> Appended:
    """Append. Raises ``WrongExpectedVersion`` or ``SessionDeleted``."""
    prefix = _prefix(into, append.copied)
    head = into.head(append.session_id)
    if head.version != (0 if append.copied else append.expected_version):
        return _written_before(into, append, head.version)
    events = (*prefix, *append.events)
    row = row_after(head, append, events)
    return Appended(row.version, into.extend(append.session_id, events, row))


def write_erasure(into: Round, append: Append, payloads: Mapping[int, EncodedEvent]) -> Appended:
    """Append, and put events in the place of others. Raises what ``write_append`` raises."""
    if not payloads:
        return write_append(into, append)
    sid, head, added = append.session_id, into.head(append.session_id), append.events
    appended = None
    if head.version != append.expected_version:
        appended, added = _written_before(into, append, head.version), ()
    into.flush()
    head = into.head(sid)
    position = into.index.last
    content, spans, size = _rewritten(into, sid, head, payloads)
    row = row_after(head, append, added) if added or head.row is None else head.row
    row = replace(row, size=size + sum(len(each.payload) for each in added))
    unit = unit_lines(head.version + 1, position + 1, added, row)
    if added:
        spans.append(Span(position + 1, head.version + 1, len(added), len(content), len(unit)))
    end, edition = len(content) + len(unit), max(head.edition, 0) + 1
    into.files.drop_snapshots(sid)
    into.replace(Change(sid, end, edition, spans, row_line(row)), content + unit)
    return appended or Appended(row.version, position + len(added))


def write_deletion(into: Round, session_id: str, at: datetime, expected_version: int | None) -> int:
    """Leave a tombstone of a session; how many events went. Raises ``WrongExpectedVersion``, and
    ``SessionDeleted`` where a version was expected."""
    try:
        head = into.head(session_id)
    except SessionDeleted:
        if expected_version is not None:
            raise
        return 0
    if expected_version not in (None, head.version):
        raise WrongExpectedVersion(session_id, expected=expected_version, actual=head.version)
    if not head.version:
        return 0
    into.flush()
    header = Header(FORMAT, session_id, head.edition + 1)
    content = sealed(header) + sealed(Tombstone(at, into.index.last))
    into.files.drop_snapshots(session_id)
    into.replace(Change(session_id, len(content), head.edition + 1, deleted=True), content)
    return head.version


def write_row(into: Round, row: SessionRow) -> bool:
    """Put a row beside its stream, if that ends there; whether it does."""
    try:
        head = into.head(row.session_id)
    except SessionDeleted:
        return False
    if not head.version or head.version != row.version:
        return False
    into.extend(row.session_id, (), row)
    return True


def row_after(head: Head, append: Append, events: Sequence[EncodedEvent]) -> SessionRow:
    """The row that an append of these events makes of what was there."""
    change, before = append.row, head.row
    size = sum(len(each.payload) for each in events)
    if before is None:
        created, origin = change.created or change.at, append.copied or change.forked_from
    else:
        created, origin, size = before.created, before.forked_from, size + before.size
    return SessionRow(
        append.session_id,
        head.version + len(events),
        change.status,
        change.agent,
        change.tenant,
        created,
        change.at,
        change.approvals,
        change.head,
        size,
        origin,
    )


def _prefix(into: Round, origin: ForkOrigin | None) -> Sequence[EncodedEvent]:
    if origin is None:
        return ()
    sid, version = origin.session_id, origin.version
    if (actual := into.head(sid).version) < version:
        raise WrongExpectedVersion(sid, expected=version, actual=actual)
    return [EncodedEvent(each.topic, each.payload) for each in into.read(sid, 0, version)]


def _written_before(into: Round, append: Append, actual: int) -> Appended:
    """Our own append whose acknowledgement was lost, or ``WrongExpectedVersion``."""
    sid, first = append.session_id, append.expected_version
    ours = list(into.read(sid, first, first + len(append.events)))
    if [(each.topic, each.payload) for each in ours] != [tuple(each) for each in append.events]:
        raise WrongExpectedVersion(sid, expected=0 if append.copied else first, actual=actual)
    return Appended(ours[-1].version, ours[-1].position)


def _rewritten(
    into: Round, session_id: str, head: Head, payloads: Mapping[int, EncodedEvent]
) -> tuple[bytes, list[Span], int]:
    """The session's file in its next edition with these payloads in their places, where its units
    stand, and how many bytes all payloads are."""
    path = into.files.path_of(session_id)
    with opened_file(path) as descriptor:
        lines = read_at(descriptor, 0, head.end).split(b"\n")[1:-1]
    pieces = [sealed(Header(FORMAT, session_id, head.edition + 1))]
    spans: list[Span] = []
    written = begun = len(pieces[0])
    first = version = size = 0
    for line in lines:
        try:
            if line.startswith(CLOSING):
                closing = opened(line, Closing)
                # Questions hold arguments, and those may be what is erased.
                bare = replace(closing.row, approvals="")
                piece = sealed(Closing(closing.events, bare))
            else:
                record = record_of(line, session_id)
                event = payloads.get(record.version, EncodedEvent(record.topic, record.payload))
                piece = b"".join(event_line(record.version, record.position, event))
                version, size = record.version, size + len(event.payload)
                first = first or record.position
        except Unfit as error:
            raise Damage(path, session_id, version + 1, str(error)).told() from error
        pieces.append(piece)
        written += len(piece)
        if line.startswith(CLOSING):
            if first:
                done = spans[-1].version + spans[-1].events - 1 if spans else 0
                spans.append(Span(first, done + 1, version - done, begun, written - begun))
            begun, first = written, 0
    return b"".join(pieces), spans, size
