"""A database looked over and made small."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic, sleep

from msgspec.json import Decoder

from ..events.errors import StoreBusy
from .connections import grow_log
from .faults import is_busy, store_errors
from .transaction import NAP_SECONDS

# From each id to the next by the index; DISTINCT would go through every event.
STREAM_IDS = (
    "WITH RECURSIVE found (id) AS ("
    "SELECT min(originator_id) FROM stored_events WHERE originator_id > :after UNION ALL "
    "SELECT (SELECT min(originator_id) FROM stored_events WHERE originator_id > found.id) "
    "FROM found WHERE found.id IS NOT NULL LIMIT :limit) "
    "SELECT json_group_array(id) FROM found WHERE id IS NOT NULL"
)
STRAY_SNAPSHOTS = (
    "SELECT count(*) FROM snapshots WHERE NOT EXISTS (SELECT * FROM sessions "
    "WHERE sessions.id = snapshots.id AND deleted IS NULL "
    "AND sessions.version >= snapshots.version)"
)
DROP_STALE_SNAPSHOTS = (
    "DELETE FROM snapshots WHERE version < (SELECT max(version) FROM snapshots AS others "
    "WHERE others.id = snapshots.id)"
)
_ids = Decoder(list[str]).decode


def list_stream_ids(cursor: sqlite3.Cursor, after: str, limit: int) -> Sequence[str]:
    """The ids of streams above ``after``, in order, at most ``limit``."""
    wanted = {"after": after, "limit": max(limit, 0)}
    (found,) = cursor.execute(STREAM_IDS, wanted).fetchone()
    return _ids(found)


def examine(cursor: sqlite3.Cursor) -> Sequence[str]:
    """What is wrong with the database, in words."""
    try:
        told = [str(row[0]) for row in cursor.execute("PRAGMA integrity_check")]
        (stray,) = cursor.execute(STRAY_SNAPSHOTS).fetchone()
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            raise
        return [f"it can't be checked: {error}"]
    wrong = [line for each in told for line in each.splitlines() if line != "ok"]
    if stray:
        wrong.append(f"{stray} snapshots of sessions that do not exist, or are not that long")
    return wrong


class Compaction:
    """Gives back what a database no longer uses. ``lend`` lends the cursor that writes; ``path``
    is the file, if there is one, and ``timeout`` how long to wait for others, in seconds."""

    def __init__(
        self,
        lend: Callable[[], AbstractContextManager[sqlite3.Cursor]],
        path: Path | None,
        place: str,
        timeout: float,
    ) -> None:
        self._lend, self._path, self._place, self._timeout = lend, path, place, timeout

    def run(self) -> int:
        """Do it; how many bytes the file and its log are smaller. Raises ``StoreBusy`` or
        ``StoreUnavailable``."""
        with store_errors(self._place), self._lend() as cursor:
            self._patiently(cursor, DROP_STALE_SNAPSHOTS)
            before = self._bytes()
            self._patiently(cursor, "VACUUM")
            self._empty_log(cursor)
            if self._path is not None:
                grow_log(cursor.connection, self._path)
            return max(before - self._bytes(), 0)

    def _bytes(self) -> int:
        if self._path is None:
            return 0
        files = [self._path, Path(f"{self._path}-wal")]
        return sum(file.stat().st_size for file in files if file.exists())

    def _empty_log(self, cursor: sqlite3.Cursor) -> None:
        """Bring all of the log into the file: what was erased stands in it still."""
        for last_try in self._tries():
            busy, _, _ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return
            if last_try:
                raise StoreBusy(
                    f"{self._place} was made small, but others read what was before for longer "
                    "than the timeout: compact it again when they are done"
                )

    def _patiently(self, cursor: sqlite3.Cursor, statement: str) -> None:
        for last_try in self._tries():
            try:
                cursor.execute(statement)
            except sqlite3.OperationalError as error:
                if last_try or not is_busy(error):
                    raise
            else:
                return

    def _tries(self) -> Iterator[bool]:
        """Again and again for as long as it may take; whether it is the last time."""
        deadline = monotonic() + self._timeout
        while (left := deadline - monotonic()) > 0:
            yield False
            sleep(min(NAP_SECONDS, left))
        yield True
