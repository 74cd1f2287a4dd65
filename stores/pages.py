"""Reading many events in few steps.

CPython's sqlite3 lets go of the interpreter lock at every row, and where other threads compute it
gets it back only milliseconds later: ten thousand rows then take ten seconds. So a page of events
comes as one row: their places as JSON, their payloads end to end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from msgspec.json import Decoder

from ..events.envelope import StoredRecord

FIRST_PAGE = 256
LARGEST_PAGE = 1024
PAGE_BYTES = 100_000
"""Above 128 kB the C library asks the system for new memory each time, page by page."""
END = 2**63 - 1

STREAM = (
    "SELECT json_group_array(json_array("
    "rowid, originator_id, originator_version, topic, length(state))), "
    "CAST(group_concat(CAST(state AS TEXT), '') AS BLOB) "
    "FROM (SELECT rowid, originator_id, originator_version, topic, state FROM stored_events "
    "WHERE originator_id = ? AND originator_version > ? AND originator_version <= ? "
    "ORDER BY originator_version LIMIT ?)"
)
LOG = (
    "SELECT json_group_array(json_array("
    "rowid, originator_id, originator_version, topic, length(state))), "
    "CAST(group_concat(CAST(state AS TEXT), '') AS BLOB) "
    "FROM (SELECT rowid, originator_id, originator_version, topic, state FROM stored_events "
    "WHERE rowid > ? ORDER BY rowid LIMIT ?)"
)

_places = Decoder(list[tuple[int, str, int, str, int]]).decode


def read_stream(
    cursor: sqlite3.Cursor, session_id: str, after: int, upto: int | None
) -> Sequence[StoredRecord]:
    """A stream's events with versions above ``after``, up to and including ``upto``."""
    last = END if upto is None else upto

    def page(after: int, limit: int) -> Sequence[StoredRecord]:
        return unpack(cursor.execute(STREAM, (session_id, after, last, limit)).fetchone())

    # One transaction, or a deletion between two pages would leave half a stream.
    cursor.execute("BEGIN")
    try:
        return _read(page, lambda record: record.version, after, END)
    finally:
        cursor.connection.rollback()


def read_log(cursor: sqlite3.Cursor, after: int, limit: int) -> Sequence[StoredRecord]:
    """Events of all streams with positions above ``after``, at most ``limit``."""

    def page(after: int, limit: int) -> Sequence[StoredRecord]:
        return unpack(cursor.execute(LOG, (after, limit)).fetchone())

    return _read(page, lambda record: record.position, after, limit)


def _read(
    page: Callable[[int, int], Sequence[StoredRecord]],
    place: Callable[[StoredRecord], int],
    after: int,
    limit: int,
) -> Sequence[StoredRecord]:
    records: list[StoredRecord] = []
    size = FIRST_PAGE
    while len(records) < limit:
        wanted = min(size, limit - len(records))
        try:
            found = page(after, wanted)
        except sqlite3.DataError:
            # More than the gigabyte that SQLite takes in one value.
            if wanted == 1:
                raise
            size = 1
            continue
        records += found
        if len(found) < wanted:
            break
        after = place(found[-1])
        size = next_size([record.payload for record in found])
    return records


def next_size(payloads: Sequence[bytes]) -> int:
    """How many events like these make a page."""
    average = sum(map(len, payloads)) // len(payloads) + 1
    return max(1, min(PAGE_BYTES // average, LARGEST_PAGE))


def unpack(row: tuple[str, bytes]) -> Sequence[StoredRecord]:
    """The events of a page."""
    records, start = [], 0
    places, payloads = row
    for position, session_id, version, topic, length in _places(places):
        end = start + length
        records.append(StoredRecord(position, session_id, version, topic, payloads[start:end]))
        start = end
    return records
