"""The rows beside the streams: sessions in a listing, tombstones, generations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.types.numeric import Int8

from ...events.approvals import dump_approvals, load_approvals
from ...events.envelope import EncodedEvent
from ...events.errors import SessionDeleted, StoreUnavailable, WrongExpectedVersion
from ...events.terms import ForkOrigin
from ..port import Append, Appended, SessionRow
from ..rows import EPOCH, MICROSECOND, microseconds
from .appending import call
from .connections import Cursor
from .functions import LOCK_THE_LOG
from .text import restored, stored

_COLUMNS = (
    "SELECT id, version, status, agent, tenant, created, updated, approvals, head, size, parent, "
    "shared FROM sessions "
)
FIND = _COLUMNS + "WHERE id = %b AND deleted IS NULL"
LISTING = _COLUMNS + (
    "WHERE deleted IS NULL AND (%(status)b::text IS NULL OR status = %(status)b) "
    "AND (%(agent)b::text IS NULL OR agent = %(agent)b) "
    "AND (%(tenant)b::text IS NULL OR tenant = %(tenant)b) "
    "AND (%(parent)b::text IS NULL OR parent = %(parent)b) "
    "ORDER BY updated DESC, id LIMIT %(most)b::bigint"
)
BURY = (
    "UPDATE sessions SET deleted = %b, status = '', agent = '', tenant = '', approvals = '', "
    "head = '', size = 0, parent = NULL, shared = NULL "
    "WHERE id = %b AND deleted IS NULL AND (%b::bigint IS NULL OR version = %b)"
)
HEAD = "SELECT version, deleted FROM sessions WHERE id = %b"
FORGET = "DELETE FROM stored_events WHERE originator_id = %b"
FORGET_SNAPSHOTS = "DELETE FROM snapshots WHERE id = %b"
ERASE = (
    "UPDATE stored_events SET topic = %b, state = %b "
    "WHERE originator_id = %b AND originator_version = %b"
)
WEIGH_ANEW = (
    "UPDATE sessions SET size = (SELECT sum(octet_length(state)) FROM stored_events "
    "WHERE originator_id = sessions.id) WHERE id = %b"
)
VERSION = "SELECT max(originator_version) FROM stored_events WHERE originator_id = %b"
RESTORE = (
    "INSERT INTO sessions (id, version, status, agent, tenant, created, updated, approvals, "
    "head, size, parent, shared) VALUES (%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b) "
    "ON CONFLICT (id) DO UPDATE SET version = excluded.version, status = excluded.status, "
    "agent = excluded.agent, tenant = excluded.tenant, created = excluded.created, "
    "updated = excluded.updated, approvals = excluded.approvals, head = excluded.head, "
    "size = excluded.size, parent = excluded.parent, shared = excluded.shared "
    "WHERE sessions.deleted IS NULL"
)
DRAW = "UPDATE generations SET last = last + 1 RETURNING last"


def find_session(cursor: Cursor, session_id: str) -> SessionRow | None:
    """The session's row; None where there is none or it was deleted."""
    row = cursor.execute(FIND, (session_id,), prepare=True).fetchone()
    return None if row is None else _session_row(row)


def list_sessions(
    cursor: Cursor, filters: Mapping[str, str | None], limit: int | None
) -> Sequence[SessionRow]:
    """Rows that match every one of the ``filters`` (by ``status``, ``agent``, ``tenant`` and
    ``parent``) that is not None, the last updated first."""
    wanted = {key: None if value is None else stored(value) for key, value in filters.items()}
    most = None if limit is None else Int8(max(limit, 0))
    return [_session_row(row) for row in cursor.execute(LISTING, {**wanted, "most": most})]


def bury(
    cursor: Cursor, session_id: str, at: datetime, expected_version: int | None, *, again: bool
) -> int:
    """Delete the session's events and leave a tombstone; how many events went. Done ``again``, a
    tombstone of that moment is our own. Raises ``WrongExpectedVersion`` where the stream is not
    at that version, or ``SessionDeleted``."""
    buried = Int8(microseconds(at))
    expected = None if expected_version is None else Int8(expected_version)
    cursor.execute(BURY, (buried, session_id, expected, expected))
    if cursor.rowcount == 0:
        version, deleted = head_of(cursor, session_id)
        if again and deleted == int(buried):
            return version
        if expected_version is not None and deleted is not None:
            raise SessionDeleted(session_id)
        if expected_version not in (None, version):
            raise WrongExpectedVersion(session_id, expected=expected_version or 0, actual=version)
        return 0
    cursor.execute(FORGET_SNAPSHOTS, (session_id,))
    cursor.execute(FORGET, (session_id,))
    return cursor.rowcount


def head_of(cursor: Cursor, session_id: str) -> tuple[int, int | None]:
    """The stream's version, 0 where there is none, and when it was deleted, if it was. Until the
    transaction ends both stay."""
    return cursor.execute(HEAD + " FOR SHARE", (session_id,)).fetchone() or (0, None)


def erase(cursor: Cursor, append: Append, payloads: Mapping[int, EncodedEvent]) -> Appended:
    """Append, and put other events in the place of those that stand there; or raise what an
    append raises."""
    appended, sid = call(cursor, append), append.session_id
    for version, (topic, payload) in payloads.items():
        cursor.execute(ERASE, (stored(topic), bytes(payload), sid, Int8(version)))
        if cursor.rowcount != 1:
            raise StoreUnavailable(
                f"version {version} of session {sid!r} is missing: verify the store",
                session_id=sid,
            )
    cursor.execute(WEIGH_ANEW, (sid,))
    cursor.execute(FORGET_SNAPSHOTS, (sid,))
    return appended


def restore(cursor: Cursor, row: SessionRow) -> bool:
    """Put the row beside its stream, if that ends at the row's version; whether it does."""
    cursor.execute(LOCK_THE_LOG)
    if cursor.execute(VERSION, (row.session_id,)).fetchone() != (row.version,):
        return False
    origin = row.forked_from
    cursor.execute(
        RESTORE,
        (
            row.session_id,
            row.version,
            row.status,
            stored(row.agent),
            stored(row.tenant),
            microseconds(row.created),
            microseconds(row.updated),
            dump_approvals(row.approvals),
            stored(row.head),
            row.size,
            None if origin is None else stored(origin.session_id),
            None if origin is None else origin.version,
        ),
    )
    return cursor.rowcount == 1


def draw_generation(cursor: Cursor) -> int:
    """The next generation."""
    row = cursor.execute(DRAW).fetchone()
    assert row is not None
    return int(row[0])


def _session_row(row: tuple[Any, ...]) -> SessionRow:
    session_id, version, status, agent, tenant, created, updated, approvals = row[:8]
    head, size, parent, shared = row[8:]
    return SessionRow(
        session_id,
        version,
        status,
        restored(agent),
        restored(tenant),
        EPOCH + created * MICROSECOND,
        EPOCH + updated * MICROSECOND,
        load_approvals(approvals),
        restored(head),
        size,
        None if parent is None else ForkOrigin(restored(parent), shared or 0),
    )
