"""Stores as every released version wrote them, opened by today's code.

``golden/sqlite-N.sql`` is a database of schema N, ``golden/postgresql-N.sql`` a schema of version
N on a server, ``golden/jsonl-N`` a directory of format N. Files are added, never edited.
``golden/make.py`` made them.
"""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from servers import NUMBERS, Server

from turnstream.actors import (
    ActorSystem,
    Agent,
    audit_store,
    export_events,
    import_events,
    restore_rows,
    tool,
)
from turnstream.actors.testing import ScriptedModel
from turnstream.events import UserMessage, verify
from turnstream.events.errors import SessionDeleted
from turnstream.stores import EventStore, MemoryStore, jsonl, open_store, schema
from turnstream.stores.jsonl import lines, opening
from turnstream.stores.postgres import schema as postgres_schema
from turnstream.stores.specimens import PATIENCE, append_of

StartChild = Callable[..., "subprocess.Popen[str]"]

GOLDEN = Path(__file__).parent / "golden"
OPEN_AND_READ = """
import sys
from turnstream.stores import open_store
sys.stdin.readline()
store = open_store(sys.argv[1])
print(len(store.read_all(limit=10**6)), len(store.sessions()), flush=True)
store.close()
"""
DIE_WHILE_MIGRATING = """
import os, sys
from turnstream.stores import SQLiteStore, schema
migrate, left = schema._migrate, int(sys.argv[2])

def count(statement):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)

def dying(connection, place):
    connection.set_trace_callback(count)
    migrate(connection, place)

schema._migrate = dying
SQLiteStore(sys.argv[1])
"""


class Written(NamedTuple):
    """A golden store, and what stands in it."""

    url: str
    path: Path
    streams: Mapping[str, list[tuple[int, str, bytes]]]


def copy_of(name: str, directory: Path) -> Written:
    path = directory / name
    if name.startswith("sqlite"):
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript((GOLDEN / f"{name}.sql").read_text("utf-8"))
            found = connection.execute(
                "SELECT originator_id, originator_version, topic, state FROM stored_events "
                "ORDER BY originator_version"
            ).fetchall()
        return Written(f"sqlite:///{path}", path, gathered(found))
    shutil.copytree(GOLDEN / name, path)
    return Written(f"jsonl:///{path}", path, gathered(read_lines(path)))


def loaded(name: str, path: Path, server: Server) -> Written:
    """A copy in a schema of its own."""
    schema = f"golden_{next(NUMBERS)}"
    with psycopg.connect(server.url()) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        connection.execute(f"SET search_path = {schema}".encode())
        connection.execute((GOLDEN / f"{name}.sql").read_bytes())
        found = connection.execute(
            "SELECT originator_id, originator_version, topic, state FROM stored_events "
            "ORDER BY originator_version"
        ).fetchall()
    return Written(server.url(options=f"?schema={schema}"), path, gathered(found))


def gathered(found: Any) -> Mapping[str, list[tuple[int, str, bytes]]]:
    streams: dict[str, list[tuple[int, str, bytes]]] = {}
    for sid, *event in found:
        streams.setdefault(sid, []).append(tuple(event))
    return streams


def read_lines(path: Path) -> Iterator[tuple[str, int, str, bytes]]:
    """The events, as a reader that knows nothing of turnstream finds them."""
    for file in (path / "sessions").iterdir():
        first, *rest = file.read_bytes().splitlines()
        for line in rest:
            fields = json.loads(line)
            if "payload" in fields:
                payload = line.partition(b'"payload":')[2].rpartition(b',"sum":')[0]
            elif "payload_base64" in fields:
                payload = b64decode(fields["payload_base64"])
            else:
                continue
            yield json.loads(first)["session"], fields["version"], fields["topic"], payload


NAMES = sorted(
    each.stem
    for each in GOLDEN.iterdir()
    if each.stem.startswith(("sqlite-", "jsonl-", "postgresql-"))
)


@pytest.fixture(params=NAMES)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    if request.param.startswith("postgresql"):
        return loaded(request.param, tmp_path, request.getfixturevalue("postgres_server"))
    return copy_of(request.param, tmp_path)


@pytest.fixture(params=[name for name in NAMES if name.startswith("sqlite")])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    return copy_of(request.param, tmp_path)


def as_written(store: EventStore, golden: Written) -> None:
    """Every event is there, and what else is known of it is right."""
    found = {
        sid: [(each.version, each.topic, each.payload) for each in store.read(sid)]
        for sid in store.stream_ids()
    }
    assert found == golden.streams
    rows = {row.session_id: row for row in store.sessions()}
    assert {sid: row.version for sid, row in rows.items()} == {
        sid: len(stream) for sid, stream in found.items()
    }
    assert {sid: row.size for sid, row in rows.items()} == {
        sid: sum(len(payload) for _, _, payload in stream) for sid, stream in found.items()
    }
    for sid in found:
        assert verify(store.read(sid), rows[sid].head) is None
    positions = [record.position for record in store.read_all(limit=10**6)]
    assert positions == sorted({*positions}) and len(positions) == sum(map(len, found.values()))
    with pytest.raises(SessionDeleted):
        store.append(append_of("gone", 0, "again"))


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


def agent(*script: Any) -> Agent:
    return Agent("planner", model=ScriptedModel(list(script)), tools=[add, remove])


def test_there_is_a_golden_store_of_every_version() -> None:
    databases = {f"sqlite-{n}" for n in range(1, len(schema.MIGRATIONS) + 1)}
    directories = {f"jsonl-{n}" for n in range(1, opening.FORMAT + 1)}
    schemas = {f"postgresql-{n}" for n in range(1, len(postgres_schema.MIGRATIONS) + 1)}
    assert {*NAMES} == databases | directories | schemas
    assert lines.FORMAT == opening.FORMAT == 1, jsonl.__doc__


def test_everything_reads_as_it_was_written(golden: Written) -> None:
    for _ in range(2):
        with closing(open_store(golden.url)) as store:
            as_written(store, golden)
            assert list(store.check()) == []


def test_nothing_is_found_wrong_with_it(golden: Written) -> None:
    with closing(open_store(golden.url)) as store:
        restored = restore_rows(store)
        assert restored.unreadable == 0
        findings = [each for audited in audit_store(store) for each in audited.findings]
        assert [each for each in findings if each.is_fault] == []
        as_written(store, golden)


def test_its_sessions_go_on(golden: Written) -> None:
    for sid in golden.streams.keys() - {"waiting"}:
        with ActorSystem(agent("as before"), store=golden.url) as system:
            session = system.session(sid)
            assert session.messages[0] == UserMessage("one and two?")
            assert session.send("still there?").result(PATIENCE).text == "as before"
    with closing(open_store(golden.url)) as store:
        for sid, stream in golden.streams.items():
            records = store.read(sid)
            assert [(r.version, r.topic, r.payload) for r in records][: len(stream)] == stream
            assert verify(records) is None


def test_what_waits_for_a_decision_still_does(golden: Written) -> None:
    if "waiting" not in golden.streams:
        pytest.skip("there were no approvals then")
    with ActorSystem(agent("gone it is"), store=golden.url) as system:
        (question,) = system.approvals()
        assert (question.session_id, question.tool) == ("waiting", "remove")
        assert question.arguments == {"path": "/x"}
        assert system.approve(question.id).result(PATIENCE).text == "gone it is"
        assert list(system.approvals()) == []


def test_a_new_node_is_younger_than_all_that_worked_on_it(golden: Written) -> None:
    owners = [
        json.loads(payload)["owner"]["generation"]
        for stream in golden.streams.values()
        for _, topic, payload in stream
        if topic == "turn_started"
    ]
    with closing(open_store(golden.url)) as store:
        assert store.next_generation() > max(owners)


def test_it_can_be_exported_and_comes_back_byte_for_byte(golden: Written) -> None:
    with closing(open_store(golden.url)) as store, closing(MemoryStore()) as other:
        import_events([*export_events(store, *golden.streams)], other)
        for sid in golden.streams:
            assert [each[2:] for each in other.read(sid)] == [each[2:] for each in store.read(sid)]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_processes_that_open_it_at_once_all_read_the_same(
    golden: Written, start_child: StartChild
) -> None:
    children = [start_child(OPEN_AND_READ, golden.url) for _ in range(4)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    events = sum(map(len, golden.streams.values()))
    told = [child.communicate(timeout=PATIENCE)[0] for child in children]
    assert told == [f"{events} {len(golden.streams)}\n"] * 4
    with closing(open_store(golden.url)) as store:
        as_written(store, golden)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_migration_killed_at_any_statement_changes_nothing(
    database: Written, start_child: StartChild, tmp_path: Path
) -> None:
    before = facts(database.path)
    statements = sum(map(len, schema.MIGRATIONS[before[0] :]))
    if not statements:
        pytest.skip("it needs no migration")
    for n in range(statements + 2):
        copy = tmp_path / f"{n}.db"
        shutil.copy(database.path, copy)
        child = start_child(DIE_WHILE_MIGRATING, copy, n)
        assert child.wait(PATIENCE) == -signal.SIGKILL
        assert facts(copy) == before
        moved = database._replace(url=f"sqlite:///{copy}", path=copy)
        with closing(open_store(moved.url)) as store:
            as_written(store, moved)


def facts(path: Path) -> tuple[int, list[Any]]:
    """The schema's version, and all that stands in the database."""
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return version, list(connection.iterdump())


def test_migrated_databases_have_the_tables_that_new_ones_have(
    database: Written, tmp_path: Path
) -> None:
    new = tmp_path / "new.db"
    for path in (new, database.path):
        open_store(f"sqlite:///{path}").close()
    assert columns(database.path) == columns(new)


def columns(path: Path) -> Mapping[str, list[Any]]:
    with closing(sqlite3.connect(path)) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {
            name: sorted(row[1:] for row in connection.execute(f"PRAGMA table_info({name})"))
            for name in names
        }


def described(server: Server, schema: str) -> list[Any]:
    """The columns, indexes and functions of a schema on a server."""
    return [
        server.execute(
            "SELECT table_name, column_name, data_type, collation_name, is_nullable FROM "
            f"information_schema.columns WHERE table_schema = '{schema}' ORDER BY 1, 2"
        ),
        server.execute(
            f"SELECT replace(indexdef, '{schema}.', '') FROM pg_indexes "
            f"WHERE schemaname = '{schema}' ORDER BY 1"
        ),
        server.execute(
            "SELECT proname, pg_get_function_arguments(oid), prosrc FROM pg_proc "
            f"WHERE pronamespace = '{schema}'::regnamespace ORDER BY 1"
        ),
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("postgresql")])
def test_migrated_schemas_have_what_new_ones_have(
    name: str, tmp_path: Path, postgres_server: Server, postgres_url: str
) -> None:
    urls = loaded(name, tmp_path, postgres_server).url, postgres_url
    for url in urls:
        open_store(url).close()
    migrated, new = (described(postgres_server, url.partition("?schema=")[2]) for url in urls)
    assert migrated == new and all(migrated)
