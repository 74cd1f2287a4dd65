"""The row beside a stream, put back, in SQL."""

from __future__ import annotations

import sqlite3

from ..events.approvals import dump_approvals
from .port import SessionRow
from .rows import microseconds

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
