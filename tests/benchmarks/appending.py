"""An append to PostgreSQL, against a bare psycopg insert of the same rows.

Both commit on the same server, which runs for the benchmark alone and keeps what it commits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

import psycopg
from psycopg.types.numeric import Int8
from rounds import Row, spread, tell

from turnstream.stores import PostgresStore
from turnstream.stores.specimens import append_of

sys.path.insert(0, str(Path(__file__).parents[1]))

from servers import Server, programs

APPENDS = 150
PAYLOAD = "x" * 900
TABLES = """
CREATE TABLE raw_events (originator_id text COLLATE "C", originator_version bigint, topic text,
    state bytea, notification_id bigserial, PRIMARY KEY (originator_id, originator_version));
CREATE UNIQUE INDEX ON raw_events (notification_id);
CREATE TABLE raw_sessions (id text COLLATE "C" PRIMARY KEY, version bigint, status text,
    updated bigint) WITH (fillfactor = 70);
INSERT INTO raw_sessions VALUES ('s', 0, 'idle', 0)
"""
EVENTS = (
    "INSERT INTO raw_events (originator_id, originator_version, topic, state) VALUES {} "
    "RETURNING notification_id"
)
WITH_ROW = (
    "WITH moved AS (UPDATE raw_sessions SET version = %b, status = %b, updated = %b WHERE id = %b) "
) + EVENTS

Seconds = Callable[[], float]


def against_raw_inserts(rounds: int) -> Sequence[Row]:
    """Appends of one and of three events, and the inserts of the same rows, one round trip and
    one commit each, taken alternately."""
    found = programs()
    if found is None:
        return [Row("an append to PostgreSQL", "PostgreSQL is not installed")]
    with closing(Server(found)) as server:
        return [row for count in (1, 3) for row in _rows(server, rounds, count)]


def _rows(server: Server, rounds: int, count: int) -> Iterator[Row]:
    with _contenders(server, count) as contenders:
        taken: list[list[float]] = []
        for number in range(rounds + 1):
            tell(f"  {count} events, round {number}")
            every = [[each() for each in contenders] for _ in range(APPENDS)]
            taken.append([median(each) for each in zip(*every, strict=True)])
    ours, events, rows = zip(*taken[1:], strict=True)
    what = f"an append of {count} to PostgreSQL"
    yield Row(f"{what}: times the inserts of its rows", _ratio(ours, rows), "at most 1.5")
    yield Row(f"{what}: times the insert of its events alone", _ratio(ours, events))
    micros = [spread([each * 1e6 for each in taken], 0, " µs") for taken in (ours, rows, events)]
    yield Row(what, "; ".join(micros))


def _ratio(above: Sequence[float], below: Sequence[float]) -> str:
    return spread([a / b for a, b in zip(above, below, strict=True)])


@contextmanager
def _contenders(server: Server, count: int) -> Iterator[Sequence[Seconds]]:
    url = server.url(server.new_database())
    with (
        closing(PostgresStore(url)) as store,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        connection.execute(TABLES)
        yield (
            _ours(store, count),
            _bare(connection, EVENTS, count, "e", row=False),
            _bare(connection, WITH_ROW, count, "s", row=True),
        )


def _ours(store: PostgresStore, count: int) -> Seconds:
    version = 0

    def append() -> float:
        nonlocal version
        write = append_of("s", version, *[PAYLOAD] * count)
        start = time.perf_counter()
        version = store.append(write).version
        return time.perf_counter() - start

    return append


def _bare(
    connection: psycopg.Connection, query: str, count: int, name: str, *, row: bool
) -> Seconds:
    statement = query.format(", ".join(["(%b, %b, %b, %b)"] * count)).encode()
    cursor, version = connection.cursor(binary=True), 0

    def insert() -> float:
        nonlocal version
        events = append_of(name, version, *[PAYLOAD] * count).events
        start = time.perf_counter()
        values: list[object] = [Int8(version + count), "idle", Int8(version), name] if row else []
        for topic, payload in events:
            version += 1
            values += (name, Int8(version), topic, payload)
        cursor.execute(statement, values, prepare=True)
        cursor.fetchall()
        return time.perf_counter() - start

    return insert
