"""Reading a stream to fold it, which is what a session's first message waits for.

As in ``pages``, a page is one row. A fold needs no places, and making a record of each event
would cost more than reading it: so SQLite puts the page together as one document.
"""

from __future__ import annotations

import sqlite3

from ..events.envelope import Replay
from .pages import FIRST_PAGE, LARGEST_PAGE, PAGE_BYTES, read_stream

PAGE = (
    "SELECT count(*), CAST('[' || group_concat("
    "'{\"type\":\"' || topic || '\",' || substr(CAST(state AS TEXT), 2), ',') || ']' AS BLOB) "
    "FROM (SELECT topic, state FROM stored_events "
    "WHERE originator_id = ? AND originator_version > ? ORDER BY originator_version LIMIT ?)"
)


def replay_stream(cursor: sqlite3.Cursor, session_id: str, after: int) -> Replay:
    """A stream's events with versions above ``after``."""
    documents: list[bytes] = []
    version, size = after, FIRST_PAGE
    # One transaction, or a deletion between two pages would leave half a stream.
    cursor.execute("BEGIN")
    try:
        while size:
            count, document = cursor.execute(PAGE, (session_id, version, size)).fetchone()
            if not count:
                break
            version += count
            documents.append(document)
            size = _next_size(count, len(document)) if count == size else 0
    finally:
        cursor.connection.rollback()
    last = read_stream(cursor, session_id, version - 1, version) if documents else ()
    return Replay(documents, last[-1] if last else None)


def _next_size(count: int, length: int) -> int:
    return max(1, min(count * PAGE_BYTES // length, LARGEST_PAGE))
