"""The rows beside the streams: sessions in a listing, tombstones, generations."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from msgspec.json import Decoder

from ..events.approvals import load_approvals
from ..events.errors import SessionDeleted, WrongExpectedVersion
from ..events.session import Status
from ..events.terms import ForkOrigin
from .port import SessionRow

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

LISTING = (
    "SELECT json_group_array(json_array(id, version, status, agent, tenant, created, updated, "
    "approvals, head, size, parent, shared)) "
    "FROM (SELECT * FROM sessions WHERE deleted IS NULL "
    "AND (:status IS NULL OR status = :status) "
    "AND (:agent IS NULL OR agent = :agent) "
    "AND (:tenant IS NULL OR tenant = :tenant) "
    "AND (:parent IS NULL OR parent = :parent) "
    "ORDER BY updated DESC, id LIMIT :most)"
)
FIND = (
    "SELECT id, version, status, agent, tenant, created, updated, approvals, head, size, "
    "parent, shared FROM sessions WHERE id = ? AND deleted IS NULL"
)
BURY = (
    "UPDATE sessions SET deleted = ?, status = '', agent = '', tenant = '', approvals = '', "
    "head = '', size = 0, parent = NULL, shared = NULL "
    "WHERE id = ? AND deleted IS NULL AND (? IS NULL OR version = ?)"
)
HEAD = "SELECT version, deleted FROM sessions WHERE id = ?"
FORGET = "DELETE FROM stored_events WHERE originator_id = ?"
FORGET_SNAPSHOTS = "DELETE FROM snapshots WHERE id = ?"
ERASE = (
    "UPDATE stored_events SET topic = ?, state = ? "
    "WHERE originator_id = ? AND originator_version = ?"
)
WEIGH_ANEW = (
    "UPDATE sessions SET size = (SELECT sum(length(state)) FROM stored_events "
    "WHERE originator_id = sessions.id) WHERE id = ?"
)
DRAW = "UPDATE generations SET last = last + 1"
DRAWN = "SELECT last FROM generations"

Listed: TypeAlias = tuple[
    str, int, Status, str, str, int, int, str, str, int, str | None, int | None
]
_listed = Decoder(list[Listed]).decode


def find_session(cursor: sqlite3.Cursor, session_id: str) -> SessionRow | None:
    """The session's row; None where there is none or it was deleted."""
    row = cursor.execute(FIND, (session_id,)).fetchone()
    return None if row is None else _session_row(row)


def list_sessions(
    cursor: sqlite3.Cursor, filters: Mapping[str, str | None], limit: int | None
) -> Sequence[SessionRow]:
    """Rows that match every one of the ``filters`` (by ``status``, ``agent``, ``tenant`` and
    ``parent``) that is not None, the last updated first."""
    most = -1 if limit is None else max(limit, 0)
    (found,) = cursor.execute(LISTING, {**filters, "most": most}).fetchone()
    return [_session_row(row) for row in _listed(found)]


def bury(
    cursor: sqlite3.Cursor, session_id: str, at: datetime, expected_version: int | None
) -> int:
    """Delete the session's events and leave a tombstone; how many events went. Raises
    ``WrongExpectedVersion`` where the stream is not at that version."""
    expected = (expected_version, expected_version)
    cursor.execute(BURY, (microseconds(at), session_id, *expected))
    if cursor.rowcount == 0:
        if expected_version not in (None, head_of(cursor, session_id)):
            raise refused(cursor, session_id, expected_version or 0)
        return 0
    cursor.execute(FORGET_SNAPSHOTS, (session_id,))
    cursor.execute(FORGET, (session_id,))
    return cursor.rowcount


def head_of(cursor: sqlite3.Cursor, session_id: str) -> int | None:
    """The stream's version, 0 where there is none; None where it was deleted."""
    version, deleted = cursor.execute(HEAD, (session_id,)).fetchone() or (0, None)
    return version if deleted is None else None


def refused(
    cursor: sqlite3.Cursor, session_id: str, expected: int
) -> WrongExpectedVersion | SessionDeleted:
    """Why a stream is not at the version expected."""
    version = head_of(cursor, session_id)
    if version is None:
        return SessionDeleted(session_id)
    return WrongExpectedVersion(session_id, expected=expected, actual=version)


def draw_generation(cursor: sqlite3.Cursor) -> int:
    """The next generation."""
    cursor.execute(DRAW)
    (last,) = cursor.execute(DRAWN).fetchone()
    return int(last)


def microseconds(time: datetime) -> int:
    """Microseconds since 1970, as times are stored."""
    return (time - EPOCH) // MICROSECOND


def _session_row(row: Listed) -> SessionRow:
    session_id, version, status, agent, tenant, created, updated, approvals = row[:8]
    head, size, parent, shared = row[8:]
    return SessionRow(
        session_id,
        version,
        status,
        agent,
        tenant,
        EPOCH + created * MICROSECOND,
        EPOCH + updated * MICROSECOND,
        load_approvals(approvals),
        head,
        size,
        None if parent is None else ForkOrigin(parent, shared or 0),
    )
