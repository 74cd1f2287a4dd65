"""A schema looked over and made small."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, sleep

import psycopg
from psycopg.types.numeric import Int8

from ...events.errors import StoreBusy
from .address import Place
from .connections import Cursor
from .faults import is_lost

TABLES = (
    "stored_events, sessions, snapshots, read_models, read_model_rows, generations, "
    "turnstream_schema"
)
# From each id to the next by the index; DISTINCT would go through every event.
STREAM_IDS = (
    "WITH RECURSIVE found (id) AS ("
    "(SELECT min(originator_id) FROM stored_events WHERE originator_id > %b) UNION ALL "
    "SELECT (SELECT min(originator_id) FROM stored_events WHERE originator_id > found.id) "
    "FROM found WHERE found.id IS NOT NULL) "
    "SELECT id FROM found WHERE id IS NOT NULL LIMIT %b"
)
STRAY_SNAPSHOTS = (
    "SELECT count(*) FROM snapshots WHERE NOT EXISTS (SELECT FROM sessions "
    "WHERE sessions.id = snapshots.id AND deleted IS NULL "
    "AND sessions.version >= snapshots.version)"
)
BROKEN_INDEXES = (
    "SELECT indexrelid::regclass::text FROM pg_index "
    "WHERE indrelid::regclass::text = ANY(string_to_array(%b, ', ')) "
    "AND NOT (indisvalid AND indisready)"
)
# Each value is put together again from where it is kept, and thrown away.
READ_ALL: tuple[str, ...] = (
    "SELECT count(hashtext(originator_id || topic)), count(md5(state)) FROM stored_events",
    "SELECT count(hashtext(sessions::text)) FROM sessions",
    "SELECT count(md5(state)) FROM snapshots",
    "SELECT count(md5(row)) FROM read_model_rows",
)
DROP_STALE_SNAPSHOTS = (
    "DELETE FROM snapshots WHERE version < (SELECT max(version) FROM snapshots AS others "
    "WHERE others.id = snapshots.id)"
)
SIZE = (
    "SELECT sum(pg_total_relation_size(name::regclass)) "
    "FROM unnest(string_to_array(%s, ', ')) AS name"
)
NOW = "SELECT pg_snapshot_xmax(pg_current_snapshot())::xid::text"
LOOKING_BACK = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND backend_type = 'client backend' AND pid <> pg_backend_pid() "
    "AND age(backend_xmin) > age(%s::text::xid)"
)
VACUUM = f"VACUUM (FULL, ANALYZE) {TABLES}"
NAP_SECONDS = 0.02


def list_stream_ids(cursor: Cursor, after: str, limit: int) -> Sequence[str]:
    """The ids of streams above ``after``, in order, at most ``limit``."""
    cursor.execute(STREAM_IDS, (after, Int8(max(limit, 0))))
    return [session_id for (session_id,) in cursor.fetchall()]


def examine(cursor: Cursor) -> Sequence[str]:
    """What is wrong with the tables and their indexes, in words."""
    try:
        cursor.execute(BROKEN_INDEXES, (TABLES,))
        wrong = [f"the index {name} is not usable: REINDEX it" for (name,) in cursor.fetchall()]
        for query in READ_ALL:
            cursor.execute(query.encode())
        stray = _value(cursor, STRAY_SNAPSHOTS)
    except psycopg.InternalError as error:
        if is_lost(error):
            raise
        return [f"it can't be read: {error.sqlstate} {error.diag.message_primary}"]
    if stray:
        wrong.append(f"{stray} snapshots of sessions that do not exist, or are not that long")
    return wrong


def compact(cursor: Cursor, place: Place) -> int:
    """Give back what the tables no longer use; how many bytes. Each table is written anew, so
    that what was deleted or erased is nowhere in it."""
    cursor.execute(DROP_STALE_SNAPSHOTS)
    before = _value(cursor, SIZE, TABLES)
    _outwait(cursor, place)
    cursor.execute(VACUUM.encode())
    return max(before - _value(cursor, SIZE, TABLES), 0)


def _outwait(cursor: Cursor, place: Place) -> None:
    """Wait for those who still may read what was deleted by now: for them it would be kept."""
    now, deadline = cursor.execute(NOW).fetchone(), monotonic() + place.timeout
    while _value(cursor, LOOKING_BACK, *(now or ())):
        if monotonic() >= deadline:
            raise StoreBusy(
                f"others read what was before in {place} for longer than the timeout: compact it "
                "again when they are done"
            )
        sleep(NAP_SECONDS)


def _value(cursor: Cursor, query: str, *values: object) -> int:
    row = cursor.execute(query.encode(), values).fetchone()
    assert row is not None
    return int(row[0])
