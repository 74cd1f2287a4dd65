"""What a store's schema holds, and how older ones get there.

The schema is the sum of its migrations: a new one runs all of them, an older one the rest, in one
transaction. The table ``turnstream_schema`` says that it is ours, and how many migrations it has
seen. A migration that was released is never changed.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

from ...events.errors import NotAStore, NotSupported, StoreTooNew
from .address import Place
from .functions import APPEND_EVENTS

OLDEST_SERVER = 130000

# Collated as C, ids are compared by their code points, and the fastest way. The column
# notification_id is called so that eventsourcing's recorders find it.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE turnstream_schema (version integer NOT NULL)",
        "INSERT INTO turnstream_schema VALUES (0)",
        """CREATE TABLE stored_events (
        originator_id text COLLATE "C" NOT NULL,
        originator_version bigint NOT NULL,
        topic text COLLATE "C" NOT NULL,
        state bytea NOT NULL,
        notification_id bigserial NOT NULL,
        PRIMARY KEY (originator_id, originator_version))""",
        "CREATE UNIQUE INDEX stored_events_log ON stored_events (notification_id)",
        """CREATE TABLE sessions (
        id text COLLATE "C" PRIMARY KEY,
        version bigint NOT NULL,
        status text COLLATE "C" NOT NULL,
        agent text COLLATE "C" NOT NULL,
        tenant text COLLATE "C" NOT NULL,
        created bigint NOT NULL,
        updated bigint NOT NULL,
        deleted bigint,
        approvals text COLLATE "C" NOT NULL,
        head text COLLATE "C" NOT NULL,
        size bigint NOT NULL,
        parent text COLLATE "C",
        shared bigint) WITH (fillfactor = 70)""",
        "CREATE INDEX sessions_forks ON sessions (parent) WHERE parent IS NOT NULL",
        "CREATE TABLE generations (last bigint NOT NULL)",
        "INSERT INTO generations VALUES (0)",
        """CREATE TABLE snapshots (
        id text COLLATE "C" NOT NULL,
        version bigint NOT NULL,
        fold bigint NOT NULL,
        state bytea NOT NULL,
        PRIMARY KEY (id, version, fold))""",
        """CREATE TABLE read_models (
        generation bigserial PRIMARY KEY,
        name text COLLATE "C" NOT NULL,
        fold bigint NOT NULL,
        position bigint NOT NULL,
        live boolean NOT NULL,
        UNIQUE (name, live))""",
        """CREATE TABLE read_model_rows (
        generation bigint NOT NULL,
        key bytea NOT NULL,
        row bytea NOT NULL,
        PRIMARY KEY (generation, key))""",
        APPEND_EVENTS,
    ),
)

_ENCODING = "SELECT current_setting('server_encoding'), current_setting('server_version_num')::int"
_EXISTS = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)"
_OBJECTS = (
    "SELECT count(*), count(*) FILTER (WHERE relname = 'turnstream_schema') FROM pg_class "
    "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s AND relkind <> 'i'"
)
_VERSION = "SELECT version FROM turnstream_schema"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_REACHED = "UPDATE turnstream_schema SET version = %s"


def prepare(connection: Connection[Any], place: Place) -> None:
    """Make the schema a store of this version, unless it is one.

    Raises ``NotAStore``, ``NotSupported``, ``StoreTooNew`` or ``psycopg.Error``, and then has
    changed nothing.
    """
    _check_server(connection, place)
    if _missing(connection, place):
        with connection.transaction():
            connection.execute(_LOCK, (f"turnstream: {place.schema}",))
            _migrate(connection, place)


def _check_server(connection: Connection[Any], place: Place) -> None:
    encoding, version = _row(connection, _ENCODING)
    if encoding != "UTF8" or version < OLDEST_SERVER:
        raise NotSupported(
            f"{place}: a store needs PostgreSQL 13 or newer and a database in UTF8, not "
            f"{version // 10000} and {encoding}; make one with createdb -E UTF8 -T template0"
        )


def _missing(connection: Connection[Any], place: Place) -> tuple[tuple[str, ...], ...]:
    objects, ours = _row(connection, _OBJECTS, place.schema)
    if not objects:
        return MIGRATIONS
    if not ours:
        raise NotAStore(
            f"the schema {place.schema} at {place} holds another application's tables; choose "
            "another with ?schema="
        )
    (version,) = _row(connection, _VERSION)
    if version > len(MIGRATIONS):
        raise StoreTooNew(f"{place} was written by a newer version; upgrade turnstream")
    return MIGRATIONS[version:]


def _migrate(connection: Connection[Any], place: Place) -> None:
    # Before "IF NOT EXISTS" PostgreSQL wants the right to create, even where there is no need.
    (exists,) = _row(connection, _EXISTS, place.schema)
    if not exists:
        connection.execute(f'CREATE SCHEMA "{place.schema}"'.encode())
    for migration in _missing(connection, place):
        for statement in migration:
            connection.execute(statement.encode())
    connection.execute(_REACHED, (len(MIGRATIONS),))


def _row(connection: Connection[Any], query: str, *values: object) -> tuple[Any, ...]:
    row = connection.cursor(row_factory=tuple_row).execute(query.encode(), values).fetchone()
    assert row is not None
    return row
