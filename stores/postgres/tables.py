"""Tables of read models in a PostgreSQL database.

Names and keys are values of two fixed tables: whatever they are, they are never part of a
statement. Keys are stored as bytes, so that any text can be one, also what is no valid UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace
from psycopg.types.numeric import Int8

from ..memory_tables import check_overtakes, moved
from ..read_models import Place, ReadModelTable
from .connections import Cursor
from .datastore import PostgresSessions
from .text import restored, stored

COLUMNS = "SELECT generation, name, fold, position, live FROM read_models "
NAMED = COLUMNS + "WHERE name = %b AND live = %b"
PUBLISHED = COLUMNS + "WHERE name = %b AND live FOR UPDATE"
NUMBERED = COLUMNS + "WHERE generation = %b FOR UPDATE"
MAKE = (
    "INSERT INTO read_models (name, fold, position, live) VALUES (%b, %b, 0, %b) "
    "ON CONFLICT (name, live) DO NOTHING"
)
ADVANCE = "UPDATE read_models SET position = %b WHERE generation = %b"
PUBLISH = "UPDATE read_models SET live = true WHERE generation = %b"
DROP = "DELETE FROM read_models WHERE generation = %b"
CLEAR = "DELETE FROM read_model_rows WHERE generation = %b"
LIVE = "(SELECT generation FROM read_models WHERE name = %b AND live)"
GET = "SELECT row FROM read_model_rows WHERE key = %b AND generation = "
ROWS = "SELECT key, row FROM read_model_rows WHERE key >= %b AND key < %b AND generation = "
IN_ORDER = " ORDER BY key"
PUT = (
    "INSERT INTO read_model_rows (generation, key, row) "
    "SELECT %b, key, row FROM unnest(%b::bytea[], %b::bytea[]) AS each (key, row) "
    "ON CONFLICT (generation, key) DO UPDATE SET row = excluded.row"
)
REMOVE = "DELETE FROM read_model_rows WHERE generation = %b AND key = ANY(%b::bytea[])"
LAST = "SELECT coalesce(max(notification_id), 0) FROM stored_events"
AFTER_ALL = b"\xff"
"""No key holds this byte: it is in no UTF-8."""


class PostgresTables:
    """The tables beside the streams of a ``PostgresStore``, whose database ``opened`` gives."""

    def __init__(self, opened: Callable[[], PostgresSessions]) -> None:
        self._opened = opened

    def find(self, name: str, *, live: bool = True) -> ReadModelTable | None:
        return self._opened().ask(lambda cursor: _one(cursor, NAMED, stored(name), live))

    def begin(self, name: str, fold: int, *, live: bool = True) -> ReadModelTable:
        found = self.find(name, live=live)
        if found is not None and (live or found.fold == fold):
            return found
        return self._opened().transact(lambda cursor, _: _begin(cursor, name, fold, live=live))

    def get(self, place: Place, key: str) -> bytes | None:
        which, value = _which(place)

        def find(cursor: Cursor) -> bytes | None:
            row = cursor.execute((GET + which).encode(), (_key(key), value)).fetchone()
            return None if row is None else row[0]

        return self._opened().ask(find)

    def rows(self, place: Place, prefix: str = "") -> Sequence[tuple[str, bytes]]:
        first, (which, value) = _key(prefix), _which(place)

        def read(cursor: Cursor) -> Sequence[tuple[str, bytes]]:
            cursor.execute((ROWS + which + IN_ORDER).encode(), (first, first + AFTER_ALL, value))
            return [(key.decode("utf-8", "surrogatepass"), row) for key, row in cursor.fetchall()]

        return self._opened().ask(read)

    def advance(
        self, table: ReadModelTable, changes: Mapping[str, bytes | None], position: int
    ) -> ReadModelTable:
        return self._opened().transact(lambda cursor, _: _advance(cursor, table, changes, position))

    def swap(self, table: ReadModelTable) -> ReadModelTable:
        return self._opened().transact(lambda cursor, again: _swap(cursor, table, again=again))

    def drop(self, table: ReadModelTable) -> None:
        self._opened().transact(lambda cursor, _: _drop(cursor, table))

    def end(self) -> int:
        def last(cursor: Cursor) -> int:
            row = cursor.execute(LAST).fetchone()
            assert row is not None
            return int(row[0])

        return self._opened().ask(last)


def _one(cursor: Cursor, query: str, *values: object) -> ReadModelTable | None:
    row = cursor.execute(query.encode(), values).fetchone()
    if row is None:
        return None
    generation, name, fold, position, live = row
    return ReadModelTable(generation, restored(name), fold, position, live)


def _begin(cursor: Cursor, name: str, fold: int, *, live: bool) -> ReadModelTable:
    table = _one(cursor, NAMED + " FOR UPDATE", stored(name), live)
    if table is not None and not live and table.fold != fold:
        _drop(cursor, table)
        table = None
    while table is None:
        # Who else makes it may drop it again before it is read here.
        cursor.execute(MAKE, (stored(name), fold, live))
        table = _one(cursor, NAMED + " FOR UPDATE", stored(name), live)
    return table


def _advance(
    cursor: Cursor, table: ReadModelTable, changes: Mapping[str, bytes | None], position: int
) -> ReadModelTable:
    _check(cursor, table)
    generation = Int8(table.generation)
    cursor.execute(ADVANCE, (Int8(position), generation))
    put = {_key(key): row for key, row in changes.items() if row is not None}
    if put:
        cursor.execute(PUT, (generation, [*put], [bytes(row) for row in put.values()]))
    removed = [_key(key) for key, row in changes.items() if row is None]
    if removed:
        cursor.execute(REMOVE, (generation, removed))
    return replace(table, position=position)


def _swap(cursor: Cursor, table: ReadModelTable, *, again: bool) -> ReadModelTable:
    swapped = replace(table, live=True)
    if again and _one(cursor, NUMBERED, Int8(table.generation)) == swapped:
        return swapped
    _check(cursor, table)
    former = _one(cursor, PUBLISHED, stored(table.name))
    if former is not None:
        check_overtakes(table, former)
        _drop(cursor, former)
    cursor.execute(PUBLISH, (Int8(table.generation),))
    return swapped


def _drop(cursor: Cursor, table: ReadModelTable) -> None:
    cursor.execute(DROP, (Int8(table.generation),))
    cursor.execute(CLEAR, (Int8(table.generation),))


def _check(cursor: Cursor, table: ReadModelTable) -> None:
    found = _one(cursor, NUMBERED, Int8(table.generation))
    if found != table:
        raise moved(table, found)


def _which(place: Place) -> tuple[str, Int8 | str]:
    return ("%b", Int8(place)) if isinstance(place, int) else (LIVE, stored(place))


def _key(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
