"""Tables of read models in this process's memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock

from msgspec.structs import replace

from ..events.read_model_errors import ReadModelMoved
from .read_models import Place, ReadModelTable


class MemoryTables:
    """The tables beside the streams of a ``MemoryStore``. ``opened`` gives its lock, or raises;
    ``end`` the position of its last event."""

    def __init__(self, opened: Callable[[], RLock], end: Callable[[], int]) -> None:
        self._opened = opened
        self._end = end
        self._generation = 0
        self._tables: dict[int, ReadModelTable] = {}
        self._rows: dict[int, dict[str, bytes]] = {}

    def find(self, name: str, *, live: bool = True) -> ReadModelTable | None:
        with self._opened():
            return self._named(name, live=live)

    def begin(self, name: str, fold: int, *, live: bool = True) -> ReadModelTable:
        with self._opened():
            table = self._named(name, live=live)
            if table is not None and not live and table.fold != fold:
                self._remove(table)
                table = None
            return table or self._made(name, fold, live=live)

    def get(self, place: Place, key: str) -> bytes | None:
        with self._opened():
            return self._at(place).get(key)

    def rows(self, place: Place, prefix: str = "") -> Sequence[tuple[str, bytes]]:
        with self._opened():
            rows = self._at(place)
            return sorted((key, row) for key, row in rows.items() if key.startswith(prefix))

    def advance(
        self, table: ReadModelTable, changes: Mapping[str, bytes | None], position: int
    ) -> ReadModelTable:
        with self._opened():
            self._check(table)
            rows = self._rows[table.generation]
            for key, row in changes.items():
                if row is None:
                    rows.pop(key, None)
                else:
                    rows[key] = row
            advanced = replace(table, position=position)
            self._tables[table.generation] = advanced
            return advanced

    def swap(self, table: ReadModelTable) -> ReadModelTable:
        with self._opened():
            self._check(table)
            former = self._named(table.name, live=True)
            if former is not None:
                check_overtakes(table, former)
                self._remove(former)
            swapped = replace(table, live=True)
            self._tables[table.generation] = swapped
            return swapped

    def drop(self, table: ReadModelTable) -> None:
        with self._opened():
            self._remove(table)

    def end(self) -> int:
        with self._opened():
            return self._end()

    def _named(self, name: str, *, live: bool) -> ReadModelTable | None:
        tables = self._tables.values()
        return next((each for each in tables if (each.name, each.live) == (name, live)), None)

    def _made(self, name: str, fold: int, *, live: bool) -> ReadModelTable:
        self._generation += 1
        table = ReadModelTable(self._generation, name, fold, 0, live)
        self._tables[table.generation] = table
        self._rows[table.generation] = {}
        return table

    def _at(self, place: Place) -> Mapping[str, bytes]:
        if isinstance(place, str):
            table = self._named(place, live=True)
            place = 0 if table is None else table.generation
        return self._rows.get(place, {})

    def _check(self, table: ReadModelTable) -> None:
        found = self._tables.get(table.generation)
        if found != table:
            raise moved(table, found)

    def _remove(self, table: ReadModelTable) -> None:
        self._tables.pop(table.generation, None)
        self._rows.pop(table.generation, None)


def moved(table: ReadModelTable, found: ReadModelTable | None) -> ReadModelMoved:
    """Why a table is not as it was: what stands there now is ``found``."""
    replaced = found is None or found.live != table.live
    actual = None if found is None or replaced else found.position
    return ReadModelMoved(table.name, expected=table.position, actual=actual)


def check_overtakes(table: ReadModelTable, former: ReadModelTable) -> None:
    """Raise ``ReadModelMoved`` where a table would replace one that has read further."""
    if former.position > table.position:
        raise ReadModelMoved(table.name, expected=table.position, actual=former.position)
