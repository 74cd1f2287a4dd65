"""An append as SQL: compare-and-set of the session's row first, then its events."""

from __future__ import annotations

import sqlite3
from functools import cache

from ..events.approvals import dump_approvals
from ..events.errors import SessionDeleted, WrongExpectedVersion
from .port import Append, Appended
from .rows import microseconds

START = (
    "INSERT INTO sessions (id, version, status, agent, tenant, created, updated, approvals) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
ADVANCE = (
    "UPDATE sessions SET version = ?, status = ?, agent = ?, tenant = ?, updated = ?, "
    "approvals = ? "
    "WHERE id = ? AND version = ? AND deleted IS NULL"
)
INSERT = "INSERT INTO stored_events (originator_id, originator_version, topic, state) VALUES "
ROW = "(?, ?, ?, ?)"
HEAD = "SELECT version, deleted FROM sessions WHERE id = ?"
MOST_ROWS = 200
WRITTEN = (
    "SELECT rowid, topic, state FROM stored_events "
    "WHERE originator_id = ? AND originator_version > ? AND originator_version <= ? "
    "ORDER BY originator_version"
)


def write_append(cursor: sqlite3.Cursor, append: Append) -> Appended:
    """Write the append, or raise ``WrongExpectedVersion`` or ``SessionDeleted``."""
    _set_row(cursor, append)
    if cursor.rowcount != 1:
        raise _conflict(cursor, append)
    return Appended(append.expected_version + len(append.events), _insert(cursor, append))


def write_once(cursor: sqlite3.Cursor, append: Append) -> Appended:
    """The same; but if these very events stand there, it was us, and the acknowledgement was
    lost."""
    try:
        return write_append(cursor, append)
    except WrongExpectedVersion:
        sid, version = append.session_id, append.expected_version + len(append.events)
        found = cursor.execute(WRITTEN, (sid, append.expected_version, version)).fetchall()
        if [(topic, payload) for _, topic, payload in found] != list(append.events):
            raise
        return Appended(version, found[-1][0])


def _set_row(cursor: sqlite3.Cursor, append: Append) -> None:
    sid, expected, row = append.session_id, append.expected_version, append.row
    version, at = expected + len(append.events), microseconds(row.at)
    waiting = dump_approvals(row.approvals)
    if expected > 0:
        change = (version, row.status, row.agent, row.tenant, at, waiting, sid, expected)
        cursor.execute(ADVANCE, change)
    else:
        begun = (sid, version, row.status, row.agent, row.tenant, at, at, waiting)
        cursor.execute(START, begun)


def _conflict(cursor: sqlite3.Cursor, append: Append) -> WrongExpectedVersion | SessionDeleted:
    version, deleted = cursor.execute(HEAD, (append.session_id,)).fetchone() or (0, None)
    if deleted is not None:
        return SessionDeleted(append.session_id)
    return WrongExpectedVersion(append.session_id, expected=append.expected_version, actual=version)


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
