"""The rows beside the streams: sessions in a listing, tombstones, generations."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from msgspec.json import Decoder

from ..events.approvals import load_approvals
from ..events.session import Status
from .port import SessionRow

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

LISTING = (
    "SELECT json_group_array("
    "json_array(id, version, status, agent, tenant, created, updated, approvals)) "
    "FROM (SELECT * FROM sessions WHERE deleted IS NULL "
    "AND (:status IS NULL OR status = :status) "
    "AND (:agent IS NULL OR agent = :agent) "
    "AND (:tenant IS NULL OR tenant = :tenant) "
    "ORDER BY updated DESC, id LIMIT :most)"
)
FIND = (
    "SELECT id, version, status, agent, tenant, created, updated, approvals FROM sessions "
    "WHERE id = ? AND deleted IS NULL"
)
BURY = (
    "UPDATE sessions SET deleted = ?, status = '', agent = '', tenant = '', approvals = '' "
    "WHERE id = ? AND deleted IS NULL"
)
FORGET = "DELETE FROM stored_events WHERE originator_id = ?"
DRAW = "UPDATE generations SET last = last + 1"
DRAWN = "SELECT last FROM generations"

Listed: TypeAlias = tuple[str, int, Status, str, str, int, int, str]
_listed = Decoder(list[Listed]).decode


def find_session(cursor: sqlite3.Cursor, session_id: str) -> SessionRow | None:
    """The session's row; None where there is none or it was deleted."""
    row = cursor.execute(FIND, (session_id,)).fetchone()
    return None if row is None else _session_row(row)


def list_sessions(
    cursor: sqlite3.Cursor,
    status: Status | None,
    agent: str | None,
    tenant: str | None,
    limit: int | None,
) -> Sequence[SessionRow]:
    """Rows that match every filter given, the last updated first."""
    most = -1 if limit is None else max(limit, 0)
    wanted = {"status": status, "agent": agent, "tenant": tenant, "most": most}
    (found,) = cursor.execute(LISTING, wanted).fetchone()
    return [_session_row(row) for row in _listed(found)]


def bury(cursor: sqlite3.Cursor, session_id: str, at: datetime) -> int:
    """Delete the session's events and leave a tombstone; how many events went."""
    cursor.execute(BURY, (microseconds(at), session_id))
    if cursor.rowcount == 0:
        return 0
    cursor.execute(FORGET, (session_id,))
    return cursor.rowcount


def draw_generation(cursor: sqlite3.Cursor) -> int:
    """The next generation."""
    cursor.execute(DRAW)
    (last,) = cursor.execute(DRAWN).fetchone()
    return int(last)


def microseconds(time: datetime) -> int:
    """Microseconds since 1970, as times are stored."""
    return (time - EPOCH) // MICROSECOND


def _session_row(row: Listed) -> SessionRow:
    session_id, version, status, agent, tenant, created, updated, approvals = row
    begun, changed = EPOCH + created * MICROSECOND, EPOCH + updated * MICROSECOND
    waiting = load_approvals(approvals)
    return SessionRow(session_id, version, status, agent, tenant, begun, changed, waiting)
