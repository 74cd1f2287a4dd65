"""What is kept in memory of a store: rows, and where in its file each unit of a stream stands.

It is made from the lines of the log, one line a change, and holds no payloads.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter
from threading import RLock
from typing import NamedTuple

from msgspec import Struct

from ...events.errors import SessionDeleted
from ...events.session import Status
from ..port import SessionRow
from .lines import RowLine, Unfit, row_line, row_of

MERGED_BYTES = 32_000
"""Units that follow one another, in their file and in the order of all events, are kept as one
up to this size."""


class Span(Struct, frozen=True, gc=False, array_like=True):
    """Events that stand together: the first one's position and version, how many there are, and
    the place of their lines in the file."""

    position: int
    version: int
    events: int
    offset: int
    length: int


class Change(Struct, frozen=True, omit_defaults=True):
    """A line of the log: what a session is from now on. ``end`` is how long its file is. With
    an ``edition`` that is not yet known, the spans are all there are."""

    session: str
    end: int
    edition: int = 1
    spans: list[Span] = []
    row: RowLine | None = None
    deleted: bool = False


class Head(NamedTuple):
    """Where a stream ends, and how long its file is."""

    version: int
    row: SessionRow | None
    end: int
    edition: int


class Extract(NamedTuple):
    """Where events of one stream are to be read: its edition, how long the first line of its
    file is, and spans."""

    session_id: str
    edition: int
    header: int
    spans: Sequence[Span]


NOTHING = Head(0, None, 0, 0)


class _Stream:
    """A stream, as it grows."""

    __slots__ = ("edition", "end", "gone", "row", "session_id", "spans")

    def __init__(self, session_id: str, edition: int) -> None:
        self.session_id, self.edition = session_id, edition
        self.end, self.gone = 0, False
        self.row: SessionRow | None = None
        self.spans: list[Span] = []

    @property
    def version(self) -> int:
        return self.spans[-1].version + self.spans[-1].events - 1 if self.spans else 0


class Index:
    """Every stream of a store. Its methods may be called from any thread; who changes more than
    one thing at a time holds the ``lock`` meanwhile."""

    def __init__(self) -> None:
        self.lock: RLock = RLock()
        self.clear()

    def clear(self, position: int = 0) -> None:
        """Forget everything; the last position given out was this one."""
        with self.lock:
            self._streams: dict[str, _Stream] = {}
            self._deleted: set[str] = set()
            self._positions = array("q")
            self._owners: list[tuple[_Stream, Span]] = []
            self._last = position

    @property
    def last(self) -> int:
        """The last position given out."""
        return self._last

    def reach(self, position: int) -> None:
        """Give out no position up to this one."""
        self._last = max(self._last, position)

    def end(self) -> int:
        """The position of the last event that is there."""
        with self.lock:
            for stream, span in reversed(self._owners):
                if not stream.gone:
                    return span.position + span.events - 1
            return 0

    def apply(self, change: Change) -> None:
        """Take in a change. Raises ``Unfit`` where it does not follow what came before."""
        with self.lock:
            if change.deleted:
                self._remove(change.session)
                self._deleted.add(change.session)
                return
            stream = self._stream_of(change)
            for span in change.spans:
                if span.version != stream.version + 1 or span.offset < stream.end:
                    raise Unfit("this line does not follow those before it")
                self._put(stream, span)
                stream.end = span.offset + span.length
            stream.end = change.end
            if change.row is not None:
                stream.row = row_of(change.session, change.row)

    def head(self, session_id: str) -> Head:
        """Where a stream ends. Raises ``SessionDeleted``."""
        with self.lock:
            if session_id in self._deleted:
                raise SessionDeleted(session_id)
            stream = self._streams.get(session_id)
            if stream is None:
                return NOTHING
            return Head(stream.version, stream.row, stream.end, stream.edition)

    def state(self, session_id: str) -> object:
        """Something that changes with everything that becomes of a session."""
        with self.lock:
            stream = self._streams.get(session_id)
            buried = session_id in self._deleted
            return buried if stream is None else (stream.edition, stream.end)

    def knows(self, session_id: str) -> bool:
        """Whether there is a stream, or was one."""
        with self.lock:
            return session_id in self._streams or session_id in self._deleted

    def row(self, session_id: str) -> SessionRow | None:
        """The row of a session, if there is one."""
        stream = self._streams.get(session_id)
        return None if stream is None else stream.row

    def rows(
        self, status: Status | None, agent: str | None, tenant: str | None, parent: str | None
    ) -> Sequence[SessionRow]:
        """Rows that match, the last updated first."""
        with self.lock:
            rows = [
                row
                for stream in self._streams.values()
                if (row := stream.row) is not None
                and status in (None, row.status)
                and agent in (None, row.agent)
                and tenant in (None, row.tenant)
                and parent in (None, row.forked_from and row.forked_from.session_id)
            ]
        rows.sort(key=attrgetter("session_id"))
        rows.sort(key=attrgetter("updated"), reverse=True)
        return rows

    def session_ids(self) -> set[str]:
        """The ids of all streams."""
        with self.lock:
            return set(self._streams)

    def deleted(self) -> set[str]:
        """The ids of all sessions that were deleted."""
        with self.lock:
            return set(self._deleted)

    def extract(self, session_id: str, after: int, upto: int) -> Extract | None:
        """Where to read events with versions above ``after``, up to ``upto``; None where there
        are none."""
        with self.lock:
            stream = self._streams.get(session_id)
            if stream is None or not stream.spans or upto <= after:
                return None
            spans = stream.spans
            first = bisect_right(spans, after + 1, key=attrgetter("version")) - 1
            past = bisect_right(spans, upto, key=attrgetter("version"))
            found = spans[max(first, 0) : past]
            return Extract(session_id, stream.edition, spans[0].offset, found) if found else None

    def page(self, after: int, limit: int) -> Sequence[Extract]:
        """Where to read so many events of all streams with positions above ``after``, or more."""
        found: list[Extract] = []
        with self.lock:
            at = bisect_right(self._positions, after + 1) - 1
            while at > 0 and self._owners[at][0].gone:
                at -= 1
            at = max(at, 0)
            while at < len(self._owners) and limit > 0:
                stream, span = self._owners[at]
                at += 1
                if stream.gone or span.position + span.events - 1 <= after:
                    continue
                header = stream.spans[0].offset
                found.append(Extract(stream.session_id, stream.edition, header, (span,)))
                limit -= span.events - max(after + 1 - span.position, 0)
        return found

    def changes(self) -> Sequence[Change]:
        """As few lines of a log as say all of this."""
        with self.lock:
            streams = [
                Change(
                    sid,
                    stream.end,
                    stream.edition,
                    list(stream.spans),
                    None if stream.row is None else row_line(stream.row),
                )
                for sid, stream in self._streams.items()
            ]
            return [*streams, *(Change(sid, 0, deleted=True) for sid in sorted(self._deleted))]

    def _stream_of(self, change: Change) -> _Stream:
        stream = self._streams.get(change.session)
        if stream is None or stream.edition != change.edition:
            self._remove(change.session)
            stream = _Stream(change.session, change.edition)
            self._streams[change.session] = stream
        return stream

    def _remove(self, session_id: str) -> None:
        stream = self._streams.pop(session_id, None)
        if stream is not None:
            stream.gone = True

    def _put(self, stream: _Stream, span: Span) -> None:
        if self._owners and stream.spans:
            owner, last = self._owners[-1]
            if owner is stream and last is stream.spans[-1] and _follows(last, span):
                merged = Span(
                    last.position,
                    last.version,
                    last.events + span.events,
                    last.offset,
                    last.length + span.length,
                )
                stream.spans[-1] = merged
                self._owners[-1] = (stream, merged)
                self._last = max(self._last, span.position + span.events - 1)
                return
        stream.spans.append(span)
        at = len(self._positions)
        if at and self._positions[-1] >= span.position:
            at = bisect_left(self._positions, span.position)
            self._drop_from(at)
        self._positions.insert(at, span.position)
        self._owners.insert(at, (stream, span))
        self._last = max(self._last, span.position + span.events - 1)

    def _drop_from(self, at: int) -> None:
        """Forget what stood at this place, if its stream is gone."""
        if self._owners[at][0].gone:
            del self._positions[at], self._owners[at]


def _follows(last: Span, span: Span) -> bool:
    return (
        last.position + last.events == span.position
        and last.offset + last.length == span.offset
        and last.length + span.length <= MERGED_BYTES
    )
