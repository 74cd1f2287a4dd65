"""Reading a stream to fold it, which is what a session's first message waits for.

As in ``pages``, a page is one row. A fold needs no places, and making a record of each event
would cost more than reading it. The payloads come as one JSON array, which msgspec cuts without
looking into them; where it can't, they are no JSON, and are read one by one.
"""

from __future__ import annotations

import sqlite3

from msgspec import MsgspecError, Raw
from msgspec.json import Decoder

from ..events.envelope import Replay
from .pages import FIRST_PAGE, next_size, read_stream

PAGE = (
    "SELECT json_group_array(topic), "
    "CAST('[' || group_concat(CAST(state AS TEXT), ',') || ']' AS BLOB) "
    "FROM (SELECT topic, state FROM stored_events "
    "WHERE originator_id = ? AND originator_version > ? ORDER BY originator_version LIMIT ?)"
)

_topics = Decoder(list[str]).decode
_payloads = Decoder(list[Raw]).decode


def replay_stream(cursor: sqlite3.Cursor, session_id: str, after: int) -> Replay:
    """A stream's events with versions above ``after``."""
    # One transaction, or a deletion between two pages would leave half a stream.
    cursor.execute("BEGIN")
    try:
        return _replay(cursor, session_id, after)
    except (MsgspecError, ValueError, sqlite3.DataError):
        pass
    finally:
        cursor.connection.rollback()
    records = read_stream(cursor, session_id, after, None)
    topics, payloads = [each.topic for each in records], [each.payload for each in records]
    return Replay(session_id, after, topics, payloads)


def _replay(cursor: sqlite3.Cursor, session_id: str, after: int) -> Replay:
    topics: list[str] = []
    payloads: list[bytes] = []
    size = FIRST_PAGE
    while size:
        place = (session_id, after + len(topics), size)
        names, joined = cursor.execute(PAGE, place).fetchone()
        if joined is None:
            break
        found = [*map(bytes, _payloads(joined))]
        topics += _topics(names)
        payloads += found
        if len(topics) != len(payloads):
            raise ValueError("a payload that is not one JSON value")
        size = next_size(found) if len(found) == size else 0
    return Replay(session_id, after, topics, payloads)
