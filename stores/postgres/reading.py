"""Reading streams and the log. One statement sees one moment, however much it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from psycopg import capabilities
from psycopg.types.numeric import Int8

from ...events.envelope import Replay, StoredRecord
from .connections import Cursor
from .text import restored

FIRST_PAGE = 256
PAGE = 1024
END = 2**62

_COLUMNS = "SELECT notification_id, originator_id, originator_version, topic, state "
STREAM = _COLUMNS + (
    "FROM stored_events WHERE originator_id = %b AND originator_version > %b "
    "AND originator_version <= %b ORDER BY originator_version"
)
LOG = _COLUMNS + ("FROM stored_events WHERE notification_id > %b ORDER BY notification_id LIMIT %b")
REPLAY = (
    "SELECT topic, state FROM stored_events WHERE originator_id = %b AND originator_version > %b "
    "ORDER BY originator_version LIMIT %b"
)


def read_stream(
    cursor: Cursor, session_id: str, after: int, upto: int | None
) -> Sequence[StoredRecord]:
    """A stream's events with versions above ``after``, up to and including ``upto``."""
    last = END if upto is None else min(upto, END)
    cursor.execute(STREAM, (session_id, Int8(after), Int8(last)), prepare=True)
    return _records(cursor)


def read_log(cursor: Cursor, after: int, limit: int) -> Sequence[StoredRecord]:
    """Events of all streams with positions above ``after``, at most ``limit``."""
    cursor.execute(LOG, (Int8(after), Int8(max(limit, 0))), prepare=True)
    return _records(cursor)


def first_page(cursor: Cursor, session_id: str, after: int) -> Replay | None:
    """All events of a stream with versions above ``after``, where they are few; None where they
    are more than fit a page."""
    cursor.execute(REPLAY, (session_id, Int8(after), Int8(FIRST_PAGE + 1)), prepare=True)
    rows = cursor.fetchall()
    return None if len(rows) > FIRST_PAGE else _page(session_id, after, rows)


def replay_stream(cursor: Cursor, session_id: str, after: int) -> Iterator[Replay]:
    """The same of a long stream, page by page: one that is folded before the next is read leaves
    its memory to it."""
    size = PAGE if capabilities.has_stream_chunked() else 1
    place = (session_id, Int8(after), Int8(END))
    rows = cursor.stream(REPLAY, place, binary=True, size=size)
    while page := list(islice(rows, PAGE)):
        yield _page(session_id, after, page)
        after += len(page)


def _page(session_id: str, after: int, rows: Sequence[tuple[str, bytes]]) -> Replay:
    topics = [restored(topic) for topic, _ in rows]
    return Replay(session_id, after, topics, [payload for _, payload in rows])


def _records(cursor: Cursor) -> Sequence[StoredRecord]:
    return [
        StoredRecord(position, session_id, version, restored(topic), payload)
        for position, session_id, version, topic, payload in cursor.fetchall()
    ]
