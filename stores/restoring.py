"""Rows beside streams that are put back, in SQL: which streams there are, and one row."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec.json import Decoder

from ..events.approvals import dump_approvals
from .port import SessionRow, StreamEnd
from .rows import microseconds

# The index beside the events answers it, and a page comes as one row: see ``pages``.
STREAMS = (
    "SELECT json_group_array(json_array(id, version)) FROM ("
    "SELECT originator_id AS id, max(originator_version) AS version FROM stored_events "
    "WHERE originator_id > ? GROUP BY originator_id ORDER BY originator_id LIMIT ?)"
)
VERSION = "SELECT max(originator_version) FROM stored_events WHERE originator_id = ?"
RESTORE = (
    "INSERT INTO sessions (id, version, status, agent, tenant, created, updated, approvals, "
    "head, size, parent, shared) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET version = excluded.version, status = excluded.status, "
    "agent = excluded.agent, tenant = excluded.tenant, created = excluded.created, "
    "updated = excluded.updated, approvals = excluded.approvals, head = excluded.head, "
    "size = excluded.size, parent = excluded.parent, shared = excluded.shared "
    "WHERE deleted IS NULL"
)

_pairs = Decoder(list[tuple[str, int]]).decode


def list_streams(cursor: sqlite3.Cursor, after: str, limit: int) -> Sequence[StreamEnd]:
    """The streams that have events and ids after ``after``, at most ``limit``."""
    (found,) = cursor.execute(STREAMS, (after, max(limit, 0))).fetchone()
    return [StreamEnd(*pair) for pair in _pairs(found)]


def restore(cursor: sqlite3.Cursor, row: SessionRow) -> bool:
    """Put the row beside its stream, if that ends at the row's version; whether it does."""
    (version,) = cursor.execute(VERSION, (row.session_id,)).fetchone()
    if version != row.version:
        return False
    origin = row.forked_from
    cursor.execute(
        RESTORE,
        (
            row.session_id,
            row.version,
            row.status,
            row.agent,
            row.tenant,
            microseconds(row.created),
            microseconds(row.updated),
            dump_approvals(row.approvals),
            row.head,
            row.size,
            None if origin is None else origin.session_id,
            None if origin is None else origin.version,
        ),
    )
    return cursor.rowcount == 1
