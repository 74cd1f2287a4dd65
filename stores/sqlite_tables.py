"""Tables of read models in a SQLite database.

Names and keys are values of two fixed tables: whatever they are, they are never part of a
statement. Keys are stored as bytes, so that any text can be one, also what is no valid UTF-8.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial

from msgspec.json import Decoder
from msgspec.structs import replace

from .datastore import SessionDatastore
from .memory_tables import check_overtakes, moved
from .read_models import Place, ReadModelTable

COLUMNS = "SELECT generation, name, fold, position, live FROM read_models "
NAMED = COLUMNS + "WHERE name = ? AND live = ?"
NUMBERED = COLUMNS + "WHERE generation = ?"
MAKE = "INSERT INTO read_models (name, fold, position, live) VALUES (?, ?, 0, ?)"
ADVANCE = "UPDATE read_models SET position = ? WHERE generation = ?"
PUBLISH = "UPDATE read_models SET live = 1 WHERE generation = ?"
DROP = "DELETE FROM read_models WHERE generation = ?"
CLEAR = "DELETE FROM read_model_rows WHERE generation = ?"
LIVE = "SELECT generation FROM read_models WHERE name = ? AND live = 1"
GET = "SELECT row FROM read_model_rows WHERE key = ? AND generation = "
# One row for a page of rows, for the reason that ``pages`` gives.
PAGE = (
    "SELECT json_group_array(json_array(hex(key), length(row))), "
    "CAST(group_concat(CAST(row AS TEXT), '') AS BLOB) "
    "FROM (SELECT key, row FROM read_model_rows "
    "WHERE generation = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?)"
)
PUT = "INSERT OR REPLACE INTO read_model_rows (generation, key, row) VALUES "
REMOVE = "DELETE FROM read_model_rows WHERE generation = ? AND key IN "
END = "SELECT coalesce(max(rowid), 0) FROM stored_events"
MOST_ROWS = 200
PAGE_ROWS = 500
AFTER_ALL = b"\xff"
"""No key holds this byte: it is in no UTF-8."""

_index = Decoder(list[tuple[str, int]]).decode


class SQLiteTables:
    """The tables beside the streams of a ``SQLiteStore``, whose database ``opened`` gives."""

    def __init__(self, opened: Callable[[], SessionDatastore]) -> None:
        self._opened = opened

    def find(self, name: str, *, live: bool = True) -> ReadModelTable | None:
        with self._opened().reading() as cursor:
            return _one(cursor, NAMED, name, live)

    def begin(self, name: str, fold: int, *, live: bool = True) -> ReadModelTable:
        found = self.find(name, live=live)
        if found is not None and (live or found.fold == fold):
            return found
        return self._opened().writes.write(partial(_begin, name=name, fold=fold, live=live))

    def get(self, place: Place, key: str) -> bytes | None:
        which = "?" if isinstance(place, int) else f"({LIVE})"
        with self._opened().reading() as cursor:
            row = cursor.execute(GET + which, (_stored(key), place)).fetchone()
        return None if row is None else row[0]

    def rows(self, place: Place, prefix: str = "") -> Sequence[tuple[str, bytes]]:
        with self._opened().reading() as cursor:
            # One transaction, or a swap between two pages would mix two tables.
            cursor.execute("BEGIN")
            try:
                return list(_rows(cursor, _generation(cursor, place), _stored(prefix)))
            finally:
                cursor.connection.rollback()

    def advance(
        self, table: ReadModelTable, changes: Mapping[str, bytes | None], position: int
    ) -> ReadModelTable:
        advanced = partial(_advance, table=table, changes=changes, position=position)
        return self._opened().writes.write(advanced)

    def swap(self, table: ReadModelTable) -> ReadModelTable:
        return self._opened().writes.write(partial(_swap, table=table))

    def drop(self, table: ReadModelTable) -> None:
        self._opened().writes.write(partial(_drop, table=table))

    def end(self) -> int:
        with self._opened().reading() as cursor:
            return int(cursor.execute(END).fetchone()[0])


def _one(cursor: sqlite3.Cursor, query: str, *values: object) -> ReadModelTable | None:
    row = cursor.execute(query, values).fetchone()
    if row is None:
        return None
    generation, found, fold, position, live = row
    return ReadModelTable(generation, found, fold, position, bool(live))


def _begin(cursor: sqlite3.Cursor, name: str, fold: int, *, live: bool) -> ReadModelTable:
    table = _one(cursor, NAMED, name, live)
    if table is not None and not live and table.fold != fold:
        _drop(cursor, table)
        table = None
    if table is None:
        cursor.execute(MAKE, (name, fold, live))
        table = _one(cursor, NAMED, name, live)
    assert table is not None
    return table


def _advance(
    cursor: sqlite3.Cursor,
    table: ReadModelTable,
    changes: Mapping[str, bytes | None],
    position: int,
) -> ReadModelTable:
    _check(cursor, table)
    cursor.execute(ADVANCE, (position, table.generation))
    put = [(_stored(key), row) for key, row in changes.items() if row is not None]
    for start in range(0, len(put), MOST_ROWS):
        values: list[object] = []
        for key, row in put[start : start + MOST_ROWS]:
            values += (table.generation, key, row)
        cursor.execute(_put_rows(len(values) // 3), values)
    removed = [_stored(key) for key, row in changes.items() if row is None]
    for start in range(0, len(removed), MOST_ROWS):
        keys = removed[start : start + MOST_ROWS]
        cursor.execute(_remove_rows(len(keys)), (table.generation, *keys))
    return replace(table, position=position)


def _swap(cursor: sqlite3.Cursor, table: ReadModelTable) -> ReadModelTable:
    _check(cursor, table)
    former = _one(cursor, NAMED, table.name, 1)
    if former is not None:
        check_overtakes(table, former)
        _drop(cursor, former)
    cursor.execute(PUBLISH, (table.generation,))
    return replace(table, live=True)


def _drop(cursor: sqlite3.Cursor, table: ReadModelTable) -> None:
    cursor.execute(CLEAR, (table.generation,))
    cursor.execute(DROP, (table.generation,))


def _check(cursor: sqlite3.Cursor, table: ReadModelTable) -> None:
    found = _one(cursor, NUMBERED, table.generation)
    if found != table:
        raise moved(table, found)


def _generation(cursor: sqlite3.Cursor, place: Place) -> int:
    if isinstance(place, int):
        return place
    (generation,) = cursor.execute(LIVE, (place,)).fetchone() or (0,)
    return int(generation)


def _rows(cursor: sqlite3.Cursor, generation: int, prefix: bytes) -> Iterator[tuple[str, bytes]]:
    first, end, size, count = prefix, prefix + AFTER_ALL, PAGE_ROWS, PAGE_ROWS
    while count == size:
        try:
            index, rows = cursor.execute(PAGE, (generation, first, end, size)).fetchone()
        except sqlite3.DataError:
            # More than the gigabyte that SQLite takes in one value.
            if size == 1:
                raise
            size = count = 1
            continue
        count, start, key = 0, 0, first
        for hexed, length in _index(index):
            key = bytes.fromhex(hexed)
            yield key.decode("utf-8", "surrogatepass"), rows[start : start + length]
            count, start = count + 1, start + length
        first = key + b"\0"


def _stored(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


@cache
def _put_rows(count: int) -> str:
    return PUT + ", ".join(["(?, ?, ?)"] * count)


@cache
def _remove_rows(count: int) -> str:
    return f"{REMOVE}({', '.join('?' * count)})"
