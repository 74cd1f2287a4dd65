"""Folds that are kept beside the streams. Any of them may be dropped at any time."""

from __future__ import annotations

from collections.abc import Callable

from psycopg.types.numeric import Int8

from ..port import Snapshot
from .connections import Cursor
from .datastore import PostgresSessions
from .rows import FORGET_SNAPSHOTS, head_of

LATEST = (
    "SELECT id, version, fold, state FROM snapshots "
    "WHERE id = %b AND fold = %b AND version <= %b ORDER BY version DESC LIMIT 1"
)
KEEP = (
    "INSERT INTO snapshots (id, version, fold, state) VALUES (%b, %b, %b, %b) "
    "ON CONFLICT (id, version, fold) DO UPDATE SET state = excluded.state"
)
OUTDATE = "DELETE FROM snapshots WHERE id = %b AND fold < %b"
END = 2**62


class PostgresSnapshots:
    """Snapshots in a table. ``opened`` gives the database, or raises ``StoreError``."""

    def __init__(self, opened: Callable[[], PostgresSessions]) -> None:
        self._opened = opened

    def latest(self, session_id: str, *, fold: int, upto: int | None = None) -> Snapshot | None:
        place = (session_id, Int8(fold), Int8(END if upto is None else upto))

        def find(cursor: Cursor) -> Snapshot | None:
            row = cursor.execute(LATEST, place, prepare=True).fetchone()
            return None if row is None else Snapshot(*row)

        return self._opened().ask(find)

    def keep(self, snapshot: Snapshot) -> bool:
        return self._opened().transact(lambda cursor, _: _keep(cursor, snapshot))

    def drop(self, session_id: str) -> None:
        self._opened().transact(lambda cursor, _: cursor.execute(FORGET_SNAPSHOTS, (session_id,)))


def _keep(cursor: Cursor, snapshot: Snapshot) -> bool:
    version, deleted = head_of(cursor, snapshot.session_id)
    if deleted is not None or version < snapshot.version:
        return False
    session_id, version, fold, payload = snapshot
    cursor.execute(OUTDATE, (session_id, Int8(fold)))
    cursor.execute(KEEP, (session_id, Int8(version), Int8(fold), bytes(payload)))
    return True
