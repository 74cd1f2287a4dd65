"""Reading a stream to fold it, which is what a session's first message waits for.

As in ``pages``, a page is one row. A fold needs no places, and making a record of each event
would cost more than reading it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import accumulate, pairwise

from msgspec.json import Decoder

from ..events.envelope import Replay
from .pages import FIRST_PAGE, next_size

PAGE = (
    "SELECT json_group_array(topic), group_concat(length(state)), "
    "CAST(group_concat(CAST(state AS TEXT), '') AS BLOB) "
    "FROM (SELECT topic, state FROM stored_events "
    "WHERE originator_id = ? AND originator_version > ? ORDER BY originator_version LIMIT ?)"
)

_topics = Decoder(list[str]).decode


def replay_stream(cursor: sqlite3.Cursor, session_id: str, after: int) -> Replay:
    """A stream's events with versions above ``after``."""
    topics: list[str] = []
    payloads: list[bytes] = []
    size = FIRST_PAGE
    # One transaction, or a deletion between two pages would leave half a stream.
    cursor.execute("BEGIN")
    try:
        while size:
            place = (session_id, after + len(topics), size)
            try:
                names, lengths, joined = cursor.execute(PAGE, place).fetchone()
            except sqlite3.DataError:
                # More than the gigabyte that SQLite takes in one value.
                if size == 1:
                    raise
                size = 1
                continue
            found = _cut(joined, lengths) if lengths else ()
            topics += _topics(names)
            payloads += found
            size = next_size(found) if len(found) == size else 0
    finally:
        cursor.connection.rollback()
    return Replay(session_id, after, topics, payloads)


def _cut(joined: bytes, lengths: str) -> Sequence[bytes]:
    ends = accumulate(map(int, str(lengths).split(",")), initial=0)
    return [joined[start:end] for start, end in pairwise(ends)]
