"""Where the files of a store are, and what is held open of them.

store.json          that it is a store, and of which format
sessions/*.jsonl    a file for each session: the streams
log.jsonl           the order of all events, and rows: made from the streams
journal             what is being written
lock                who may write
generation          the last that was drawn
snapshots/*.jsonl   folds, which may be dropped
read-models.jsonl   tables of read models, which may be dropped
"""

from __future__ import annotations

from pathlib import Path

from .journal import Journal
from .lock import StoreLock
from .log import Log
from .names import file_name

IDENTITY = "store.json"
SESSIONS = "sessions"
LOG = "log.jsonl"
JOURNAL = "journal"
LOCK = "lock"
GENERATION = "generation"
SNAPSHOTS = "snapshots"
READ_MODELS = "read-models.jsonl"


class Files:
    """The files of the store in the directory at ``place``."""

    def __init__(self, place: Path, log: Log, *, sync: bool, timeout: float) -> None:
        self.place: Path = place
        self.log: Log = log
        self.sync: bool = sync
        self.sessions: Path = place / SESSIONS
        self.snapshots: Path = place / SNAPSHOTS
        self.lock: StoreLock = StoreLock(place / LOCK, timeout)
        self.journal: Journal = Journal(place / JOURNAL, self.path_of, sync=sync)
        self.met: dict[str, int] = {}
        """Files that were compared with the log, and in which edition."""

    def path_of(self, session_id: str) -> Path:
        """The file of a session; of the log for no id."""
        return self.sessions / file_name(session_id) if session_id else self.log.path

    def snapshots_of(self, session_id: str) -> Path:
        """The file of a session's snapshots."""
        return self.snapshots / file_name(session_id)

    def drop_snapshots(self, session_id: str) -> None:
        """Have none of a session."""
        self.snapshots_of(session_id).unlink(missing_ok=True)

    def close(self) -> None:
        """Release what is held open; it is opened again when it is needed."""
        self.lock.close()
        self.journal.close()
