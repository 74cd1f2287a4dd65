"""Reading a stream to fold it, which is what a session's first message waits for.

As in ``pages``, a page is one row. A fold needs no places, and making a record of each event
would cost more than reading it. Payloads are cut by their stored lengths and never by what is in
them: damaged ones must not change where the others begin.
"""

from __future__ import annotations

import sqlite3
from itertools import accumulate, pairwise

from msgspec.json import Decoder

from ..events.envelope import Replay
from .pages import FIRST_PAGE, LARGEST_PAGE, PAGE_BYTES

PAGE = (
    "SELECT json_group_array(topic), json_group_array(length(state)), "
    "CAST(group_concat(CAST(state AS TEXT), '') AS BLOB) "
    "FROM (SELECT topic, state FROM stored_events "
    "WHERE originator_id = ? AND originator_version > ? ORDER BY originator_version LIMIT ?)"
)

_topics = Decoder(list[str]).decode
_lengths = Decoder(list[int]).decode


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
            ends = [*accumulate(_lengths(lengths), initial=0)]
            topics += _topics(names)
            payloads += [joined[start:end] for start, end in pairwise(ends)]
            size = _next_size(len(ends) - 1, ends[-1]) if len(ends) > size else 0
    finally:
        cursor.connection.rollback()
    return Replay(session_id, after, topics, payloads)


def _next_size(count: int, length: int) -> int:
    return max(1, min(count * PAGE_BYTES // (length + 1), LARGEST_PAGE))
