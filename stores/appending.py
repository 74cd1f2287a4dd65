"""An append as SQL: compare-and-set of the session's row first, then its events."""

from __future__ import annotations

import sqlite3
from functools import cache

from ..events.approvals import dump_approvals
from ..events.errors import WrongExpectedVersion
from ..events.terms import ForkOrigin
from .port import Append, Appended
from .rows import head_of, microseconds, refused

START = (
    "INSERT INTO sessions (version, status, agent, tenant, updated, approvals, head, size, "
    "id, created, parent, shared) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
ADVANCE = (
    "UPDATE sessions SET version = ?, status = ?, agent = ?, tenant = ?, updated = ?, "
    "approvals = ?, head = ?, size = size + ? "
    "WHERE id = ? AND version = ? AND deleted IS NULL"
)
COPY = (
    "INSERT INTO stored_events (originator_id, originator_version, topic, state) "
    "SELECT ?, originator_version, topic, state FROM stored_events "
    "WHERE originator_id = ? AND originator_version <= ? ORDER BY originator_version"
)
WEIGH = (
    "SELECT sum(length(state)) FROM stored_events "
    "WHERE originator_id = ? AND originator_version <= ?"
)
INSERT = "INSERT INTO stored_events (originator_id, originator_version, topic, state) VALUES "
ROW = "(?, ?, ?, ?)"
MOST_ROWS = 200
WRITTEN = (
    "SELECT rowid, topic, state FROM stored_events "
    "WHERE originator_id = ? AND originator_version > ? AND originator_version <= ? "
    "ORDER BY originator_version"
)


def write_append(cursor: sqlite3.Cursor, append: Append) -> Appended:
    """Write the append, or raise ``WrongExpectedVersion`` or ``SessionDeleted``."""
    copied = append.copied
    if copied is not None:
        _check_origin(cursor, copied)
    _set_row(cursor, append)
    if cursor.rowcount != 1:
        expected = 0 if copied is not None else append.expected_version
        raise refused(cursor, append.session_id, expected)
    if copied is not None:
        cursor.execute(COPY, (append.session_id, copied.session_id, copied.version))
    return Appended(append.expected_version + len(append.events), _insert(cursor, append))


def write_once(cursor: sqlite3.Cursor, append: Append) -> Appended:
    """The same; but if these very events stand there, it was us, and the acknowledgement was
    lost."""
    try:
        return write_append(cursor, append)
    except WrongExpectedVersion as conflict:
        if conflict.session_id != append.session_id:
            raise
        sid, version = append.session_id, append.expected_version + len(append.events)
        found = cursor.execute(WRITTEN, (sid, append.expected_version, version)).fetchall()
        if [(topic, payload) for _, topic, payload in found] != list(append.events):
            raise
        return Appended(version, found[-1][0])


def _set_row(cursor: sqlite3.Cursor, append: Append) -> None:
    sid, expected, row = append.session_id, append.expected_version, append.row
    version, at = expected + len(append.events), microseconds(row.at)
    size = sum([len(payload) for _, payload in append.events])
    waiting = dump_approvals(row.approvals)
    change = (version, row.status, row.agent, row.tenant, at, waiting, row.head)
    if expected > 0 and append.copied is None:
        cursor.execute(ADVANCE, (*change, size, sid, expected))
        return
    created = at if row.created is None else microseconds(row.created)
    origin = append.copied or row.forked_from
    parent = (None, None) if origin is None else (origin.session_id, origin.version)
    size += _weight(cursor, append.copied)
    cursor.execute(START, (*change, size, sid, created, *parent))


def _weight(cursor: sqlite3.Cursor, copied: ForkOrigin | None) -> int:
    if copied is None:
        return 0
    (size,) = cursor.execute(WEIGH, (copied.session_id, copied.version)).fetchone()
    return int(size)


def _check_origin(cursor: sqlite3.Cursor, origin: ForkOrigin) -> None:
    if (head_of(cursor, origin.session_id) or 0) < origin.version:
        raise refused(cursor, origin.session_id, origin.version)


def _insert(cursor: sqlite3.Cursor, append: Append) -> int:
    """Insert the events; the position of the last."""
    sid, version = append.session_id, append.expected_version
    for start in range(0, len(append.events), MOST_ROWS):
        events = append.events[start : start + MOST_ROWS]
        values: list[str | int | bytes] = []
        for topic, payload in events:
            version += 1
            values += (sid, version, topic, payload)
        cursor.execute(_insert_rows(len(events)), values)
    assert cursor.lastrowid is not None
    return cursor.lastrowid


@cache
def _insert_rows(count: int) -> str:
    # One statement for many rows, for the reason that ``pages`` gives.
    return INSERT + ", ".join([ROW] * count)
