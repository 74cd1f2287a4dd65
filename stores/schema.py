"""What a store's database looks like, and how older ones get there.

The schema is the sum of its migrations: a new database runs all of them, an older one the rest,
in one transaction. ``application_id`` says that the database is ours, ``user_version`` how many
migrations it has seen. A migration that was released is never changed.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from time import monotonic, sleep
from typing import NamedTuple

from ..events.errors import NotAStore, StoreTooNew, StoreUnavailable
from .faults import is_busy

APPLICATION_ID = 0x74737472
"""``tstr``, as a number."""

# The column is called rowid so that eventsourcing's recorders find it, and counts by itself
# because SQLite would give the position of a deleted event out again.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE stored_events (
        rowid INTEGER PRIMARY KEY AUTOINCREMENT,
        originator_id TEXT NOT NULL,
        originator_version INTEGER NOT NULL,
        topic TEXT NOT NULL,
        state BLOB NOT NULL,
        UNIQUE (originator_id, originator_version))""",
        """CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        status TEXT NOT NULL,
        agent TEXT NOT NULL,
        tenant TEXT NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        deleted INTEGER) WITHOUT ROWID""",
        "CREATE TABLE generations (last INTEGER NOT NULL)",
        "INSERT INTO generations VALUES (0)",
        "PRAGMA application_id = 0x74737472",
        "PRAGMA user_version = 1",
    ),
    (
        "ALTER TABLE sessions ADD COLUMN approvals TEXT NOT NULL DEFAULT ''",
        "PRAGMA user_version = 2",
    ),
    (
        "ALTER TABLE sessions ADD COLUMN head TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE sessions ADD COLUMN size INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE sessions ADD COLUMN parent TEXT",
        "ALTER TABLE sessions ADD COLUMN shared INTEGER",
        """UPDATE sessions SET size = coalesce(
        (SELECT sum(length(state)) FROM stored_events WHERE originator_id = sessions.id), 0)""",
        "CREATE INDEX forks ON sessions (parent) WHERE parent IS NOT NULL",
        """CREATE TABLE snapshots (
        id TEXT NOT NULL,
        version INTEGER NOT NULL,
        fold INTEGER NOT NULL,
        state BLOB NOT NULL,
        UNIQUE (id, version, fold))""",
        """CREATE TABLE read_models (
        generation INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        fold INTEGER NOT NULL,
        position INTEGER NOT NULL,
        live INTEGER NOT NULL,
        UNIQUE (name, live))""",
        """CREATE TABLE read_model_rows (
        generation INTEGER NOT NULL,
        key BLOB NOT NULL,
        row BLOB NOT NULL,
        PRIMARY KEY (generation, key)) WITHOUT ROWID""",
        "PRAGMA user_version = 3",
    ),
)


class Identity(NamedTuple):
    """Whose database it is, and of which age."""

    application: int
    version: int
    tables: int


def prepare(connection: sqlite3.Connection, place: str, timeout: float) -> None:
    """Make the database a store of this version, unless it is one.

    Raises ``NotAStore``, ``StoreTooNew`` or ``sqlite3.Error``, and then has changed nothing.
    """
    if _missing(_identity(connection), place):
        _use_wal(connection, place, timeout)
        _migrate(connection, place)
    elif _journal_mode(connection) == "delete":
        # Some ways of copying a database leave its log behind. Where nothing can be written,
        # there is no writer whom readers would have to wait for.
        with suppress(sqlite3.OperationalError, StoreUnavailable):
            _use_wal(connection, place, timeout)


def _identity(connection: sqlite3.Connection) -> Identity:
    # In one transaction: another process may be creating the store at this moment.
    joins = not connection.in_transaction
    if joins:
        connection.execute("BEGIN")
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return Identity(application, version, tables)
    finally:
        if joins:
            connection.rollback()


def _missing(identity: Identity, place: str) -> tuple[tuple[str, ...], ...]:
    match identity:
        case Identity(application=0, version=0, tables=0):
            return MIGRATIONS
        case Identity(application, version, _) if application == APPLICATION_ID:
            if version > len(MIGRATIONS):
                raise StoreTooNew(f"{place} was written by a newer version; upgrade turnstream")
            return MIGRATIONS[version:]
        case _:
            raise NotAStore(
                f"{place} is another application's database; give the path of another file"
            )


def _journal_mode(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def _use_wal(connection: sqlite3.Connection, place: str, timeout: float) -> None:
    """Let readers and the writer work side by side. SQLite does not wait for a lock here."""
    deadline = monotonic() + timeout
    while (mode := _switch_to_wal(connection, last_try=monotonic() >= deadline)) is None:
        sleep(0.005)
    if mode not in ("wal", "memory"):
        raise StoreUnavailable(
            f"{place}: SQLite can't keep a write-ahead log there; choose a local file system"
        )


def _switch_to_wal(connection: sqlite3.Connection, *, last_try: bool) -> str | None:
    try:
        return str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
    except sqlite3.OperationalError as error:
        if last_try or not is_busy(error):
            raise
        return None


def _migrate(connection: sqlite3.Connection, place: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in _missing(_identity(connection), place):
            for statement in migration:
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.rollback()
