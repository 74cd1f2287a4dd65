"""Folds that are kept beside the streams. Any of them may be dropped at any time.

Of each session there are few: a new one is taken when the stream is twice as long as at the last,
so all of them together are no more than twice as long as the session is now.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial

from .datastore import SessionDatastore
from .port import Snapshot
from .rows import head_of

LATEST = (
    "SELECT id, version, fold, state FROM snapshots "
    "WHERE id = ? AND fold = ? AND version <= ? ORDER BY version DESC LIMIT 1"
)
KEEP = "INSERT OR REPLACE INTO snapshots (id, version, fold, state) VALUES (?, ?, ?, ?)"
OUTDATE = "DELETE FROM snapshots WHERE id = ? AND fold < ?"
DROP = "DELETE FROM snapshots WHERE id = ?"
END = 2**62


class SQLiteSnapshots:
    """Snapshots in a table. ``opened`` gives the database, or raises ``StoreError``."""

    def __init__(self, opened: Callable[[], SessionDatastore]) -> None:
        self._opened = opened

    def latest(self, session_id: str, *, fold: int, upto: int | None = None) -> Snapshot | None:
        place = (session_id, fold, END if upto is None else upto)
        with self._opened().reading() as cursor:
            row = cursor.execute(LATEST, place).fetchone()
        return None if row is None else Snapshot(*row)

    def keep(self, snapshot: Snapshot) -> bool:
        return self._opened().writes.write(partial(_keep, snapshot=snapshot))

    def drop(self, session_id: str) -> None:
        self._opened().writes.write(partial(_drop, session_id=session_id))


def _keep(cursor: sqlite3.Cursor, snapshot: Snapshot) -> bool:
    if (head_of(cursor, snapshot.session_id) or 0) < snapshot.version:
        return False
    cursor.execute(OUTDATE, (snapshot.session_id, snapshot.fold))
    cursor.execute(KEEP, snapshot)
    return True


def _drop(cursor: sqlite3.Cursor, session_id: str) -> None:
    cursor.execute(DROP, (session_id,))
