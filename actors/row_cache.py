"""The rows of a read model at work: read when they are asked for, written a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import MsgspecError, convert, to_builtins
from msgspec.json import Decoder, Encoder

from ..events.errors import Unstorable
from ..events.tagged import loads, written
from ..stores import ReadModelTables

R = TypeVar("R")

MOST_KEPT = 50_000
"""The rows kept in memory from one batch to the next."""

_encode = Encoder().encode


def row_encoded(row: object) -> bytes:
    """A row as JSON. Raises what msgspec raises for what is none."""
    try:
        return _encode(row)
    except UnicodeEncodeError:
        # Halves of surrogate pairs, which models put into names: as JSON's escapes then.
        return written(to_builtins(row))


def row_decoder(kind: Any) -> Callable[[bytes], Any]:
    """What makes rows of type ``kind`` of stored ones."""
    decode = Decoder(kind).decode

    def decoded(row: bytes) -> Any:
        try:
            return decode(row)
        except MsgspecError:
            return convert(loads(row), kind)

    return decoded


class CachedRows(Generic[R]):
    """The ``Rows`` of the table of this generation, with changes that are not written yet."""

    def __init__(
        self, tables: ReadModelTables, generation: int, decode: Callable[[bytes], R]
    ) -> None:
        self._tables = tables
        self._generation = generation
        self._decode = decode
        self._rows: dict[str, R | None] = {}
        self._changed: set[str] = set()

    def get(self, key: str) -> R | None:
        """The row of that key, if there is one."""
        try:
            return self._rows[key]
        except KeyError:
            pass
        stored = self._tables.get(self._generation, key)
        row = self._rows[key] = None if stored is None else self._decode(stored)
        return row

    def put(self, key: str, row: R) -> None:
        """Have this row for the key, in place of any other."""
        self._rows[key] = row
        self._changed.add(key)

    def remove(self, key: str) -> None:
        """Have no row for the key."""
        self._rows[key] = None
        self._changed.add(key)

    def prefixed(self, prefix: str = "") -> list[tuple[str, R]]:
        """The rows whose keys begin so, in the order of the keys."""
        stored = self._tables.rows(self._generation, prefix)
        rows: dict[str, R | None] = {key: self._decode(row) for key, row in stored}
        rows |= {key: row for key, row in self._rows.items() if key.startswith(prefix)}
        return [(key, row) for key, row in sorted(rows.items(), key=_key) if row is not None]

    def changes(self) -> Mapping[str, bytes | None]:
        """What is to be written; None for rows that are to go. Raises ``Unstorable`` for a row
        that could not be read back."""
        rows = ((key, self._rows[key]) for key in self._changed)
        return {key: None if row is None else self._encoded(key, row) for key, row in rows}

    def settle(self) -> None:
        """The changes were written."""
        self._changed.clear()
        if len(self._rows) > MOST_KEPT:
            self._rows.clear()

    def _encoded(self, key: str, row: R) -> bytes:
        try:
            stored = row_encoded(row)
            self._decode(stored)
        except (MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise Unstorable(
                f"a row can't be stored as JSON and read back ({type(error).__name__}): give the "
                "read model rows of its own type, of plain values",
                path=key,
            ) from error
        return stored


def _key(item: tuple[str, object]) -> str:
    return item[0]
