"""Made the stores that lie beside this file: ``python make.py sqlite-4``.

A released store is never made again. After a migration was added, or the format of files has
changed, this makes the next one. For PostgreSQL it starts a server of its own, and writes plain SQL
that needs a search path.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg import sql

from turnstream.actors import ActorSystem, Agent, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events.approvals import dump_approvals
from turnstream.events.envelope import StoredRecord
from turnstream.stores import EventStore, JSONLStore, MemoryStore, PostgresStore, SessionRow
from turnstream.stores.postgres import schema as postgres
from turnstream.stores.rows import microseconds
from turnstream.stores.schema import MIGRATIONS

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from servers import Server, programs  # noqa: E402

TABLES = ("stored_events", "sessions", "generations", "read_models", "read_model_rows")
COUNTERS = ("stored_events_notification_id_seq", "read_models_generation_seq")
COLUMNS = """SELECT column_name, data_type FROM information_schema.columns
    WHERE table_schema = 'golden' AND table_name = %s ORDER BY ordinal_position"""


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


def agent(script: list[Any]) -> Agent:
    """The agent of all sessions."""
    return Agent("planner", model=ScriptedModel(script), tools=[add, remove])


def sessions(store: EventStore) -> None:
    """The sessions, each with a system of its own, as each has its own script."""
    for session_id in ("done", "gone", "odd/Ä '%\\..", "x" * 300):
        script = [[call("add", a=1, b=2)], "three", "again: three \ud83d\x00 ä"]
        with ActorSystem(agent(script), store=store) as system:
            system.session(session_id, tenant="acme").send("one and two?").result(20)
            system.session(session_id).send("again?").result(20)
    with ActorSystem(agent([[call("remove", path="/x")]]), store=store) as system:
        system.session("waiting").send("remove it").result(20)
        system.session("done").fork(session_id="forked")
        system.session("gone").delete()


def write_sqlite(version: int) -> None:
    """A database as the migrations up to this version made it."""
    store = MemoryStore()
    sessions(store)
    rows = {row.session_id: row for row in store.sessions()}
    if version < 2:
        del rows["waiting"]
    with closing(sqlite3.connect(":memory:")) as connection:
        for migration in MIGRATIONS[:version]:
            for statement in migration:
                connection.execute(statement)
        for record in store.read_all(limit=10**6):
            if record.session_id in rows:
                _insert(connection, record)
        for row in rows.values():
            _insert_row(connection, version, row)
        deleted = f"INSERT INTO sessions {_columns(version)}"
        values = ("gone", 12, "", "", "", 1_700_000_000_000_000, 1_700_000_000_000_000)
        connection.execute(deleted, (*values, 1_700_000_001_000_000, *_more(version, None)))
        connection.execute("UPDATE generations SET last = 5")
        connection.commit()
        dump = [*connection.iterdump(), "PRAGMA application_id = 0x74737472;"]
    dump.append(f"PRAGMA user_version = {version};")
    (HERE / f"sqlite-{version}.sql").write_text("\n".join(dump) + "\n", encoding="utf-8")


def write_jsonl(version: int) -> None:
    """A directory of files."""
    with TemporaryDirectory() as directory:
        place = Path(directory) / f"jsonl-{version}"
        with closing(JSONLStore(place)) as store:
            sessions(store)
        for leftover in (place / "lock", place / "journal"):
            leftover.unlink()
        shutil.copytree(place, HERE / place.name)


def write_postgresql(version: int) -> None:
    """A schema as all migrations of today make it."""
    installed = programs()
    assert installed is not None, "PostgreSQL is not installed"
    server = Server(installed)
    try:
        with closing(PostgresStore(server.url(), schema="golden")) as store:
            sessions(store)
        statements = [each for migration in postgres.MIGRATIONS[:version] for each in migration]
        statements += _rows_of(server)
    finally:
        server.close()
    text = ";\n".join((*statements, f"UPDATE turnstream_schema SET version = {version}")) + ";\n"
    (HERE / f"postgresql-{version}.sql").write_text(text, encoding="utf-8")


def _rows_of(server: Server) -> Iterator[str]:
    """Statements that insert all there is, and say how far the counters are."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("SET search_path = golden")
        for table in TABLES:
            yield f"DELETE FROM {table}"
            columns = connection.execute(COLUMNS, (table,)).fetchall()
            # What is no ASCII is written as \\ooo, and the rest can be read.
            wanted = [f"encode({n}, 'escape')" if t == "bytea" else n for n, t in columns]
            order = ", ".join(name for name, _ in columns[:2])
            query = f"SELECT {', '.join(wanted)} FROM {table} ORDER BY {order}"
            for row in connection.execute(query.encode()):
                values = [sql.Literal(each).as_string(connection) for each in row]
                yield f"INSERT INTO {table} VALUES ({', '.join(values)})"
        for name in COUNTERS:
            ((last, called),) = connection.execute(f"SELECT last_value, is_called FROM {name}")
            yield f"SELECT setval('{name}', {last}, {called})"


def _insert(connection: sqlite3.Connection, record: StoredRecord) -> None:
    connection.execute("INSERT INTO stored_events VALUES (?, ?, ?, ?, ?)", record)


def _insert_row(connection: sqlite3.Connection, version: int, row: SessionRow) -> None:
    values = (row.session_id, row.version, row.status, row.agent, row.tenant)
    times = (microseconds(row.created), microseconds(row.updated), None)
    statement = f"INSERT INTO sessions {_columns(version)}"
    connection.execute(statement, (*values, *times, *_more(version, row)))


def _columns(version: int) -> str:
    names = "id, version, status, agent, tenant, created, updated, deleted"
    names += ", approvals" * (version > 1) + ", head, size, parent, shared" * (version > 2)
    return f"({names}) VALUES ({', '.join('?' * len(names.split(',')))})"


def _more(version: int, row: SessionRow | None) -> tuple[Any, ...]:
    origin = row.forked_from if row else None
    approvals = dump_approvals(row.approvals) if row else ""
    parent = (origin.session_id, origin.version) if origin else (None, None)
    head, size = (row.head, row.size) if row else ("", 0)
    return ((approvals,) if version > 1 else ()) + ((head, size, *parent) if version > 2 else ())


if __name__ == "__main__":
    kind, number = sys.argv[1].split("-")
    write = {"sqlite": write_sqlite, "jsonl": write_jsonl, "postgresql": write_postgresql}
    write[kind](int(number))
