"""Reading a stream to fold it, which is what a session's first message waits for.

As in ``pages``, a page is one row. A fold needs no places, and making a record of each event
would cost more than reading it: topics and payloads come as lines. Where one of them holds a line
break there are more lines than events, and the page is cut by the payloads' lengths instead.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ..events.envelope import Replay
from .pages import END, FIRST_PAGE, STREAM, next_size, unpack

LINES = (
    "SELECT count(*), group_concat(topic, char(10)), "
    "CAST(group_concat(CAST(state AS TEXT), char(10)) AS BLOB) "
    "FROM (SELECT topic, state FROM stored_events "
    "WHERE originator_id = ? AND originator_version > ? ORDER BY originator_version LIMIT ?)"
)


def replay_stream(cursor: sqlite3.Cursor, session_id: str, after: int) -> Iterator[Replay]:
    """A stream's events with versions above ``after``, page by page: one that is folded before
    the next is read leaves its memory to it."""
    size = FIRST_PAGE
    # One transaction, or a deletion between two pages would leave half a stream.
    cursor.execute("BEGIN")
    try:
        while size:
            try:
                page = _page(cursor, session_id, after, size)
            except sqlite3.DataError:
                # More than the gigabyte that SQLite takes in one value.
                if size == 1:
                    raise
                size = 1
                continue
            if page.topics:
                yield page
            size = next_size(page.payloads) if len(page.topics) == size else 0
            after = page.version
    finally:
        cursor.connection.rollback()


def _page(cursor: sqlite3.Cursor, session_id: str, after: int, size: int) -> Replay:
    count, topics, payloads = cursor.execute(LINES, (session_id, after, size)).fetchone()
    if not count:
        return Replay(session_id, after, (), ())
    names, bodies = topics.split("\n"), payloads.split(b"\n")
    if not len(names) == len(bodies) == count:
        place = (session_id, after, END, size)
        records = unpack(cursor.execute(STREAM, place).fetchone())
        names, bodies = [each.topic for each in records], [each.payload for each in records]
    return Replay(session_id, after, names, bodies)
