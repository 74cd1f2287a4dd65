"""The tables of read models of a store in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..memory_tables import check_overtakes
from ..read_models import Place, ReadModelTable
from .generations import draw_generation
from .round import Round
from .tables import TableFile, TableLine, put_rows

if TYPE_CHECKING:
    from .directory import StoreDirectory


class FileTables:
    """The tables beside the streams of a store, whose directory ``opened`` gives."""

    def __init__(self, opened: Callable[[], StoreDirectory]) -> None:
        self._opened = opened

    def find(self, name: str, *, live: bool = True) -> ReadModelTable | None:
        return self._opened().tables().named(name, live=live)

    def begin(self, name: str, fold: int, *, live: bool = True) -> ReadModelTable:
        found = self.find(name, live=live)
        if found is not None and (live or found.fold == fold):
            return found
        return self._write(partial(_begin, name=name, fold=fold, live=live))

    def get(self, place: Place, key: str) -> bytes | None:
        return self._opened().tables().get(place, key)

    def rows(self, place: Place, prefix: str = "") -> Sequence[tuple[str, bytes]]:
        return self._opened().tables().rows(place, prefix)

    def advance(
        self, table: ReadModelTable, changes: Mapping[str, bytes | None], position: int
    ) -> ReadModelTable:
        return self._write(partial(_advance, table=table, changes=changes, position=position))

    def swap(self, table: ReadModelTable) -> ReadModelTable:
        return self._write(partial(_swap, table=table))

    def drop(self, table: ReadModelTable) -> None:
        self._write(partial(_drop, table=table))

    def end(self) -> int:
        return self._opened().end()

    def _write(self, change: Callable[..., ReadModelTable]) -> ReadModelTable:
        directory = self._opened()

        def write(into: Round) -> ReadModelTable:
            return change(directory.tables(held=True), into)

        return directory.writes.write(write)


def _begin(tables: TableFile, into: Round, name: str, fold: int, *, live: bool) -> ReadModelTable:
    found = tables.named(name, live=live)
    if found is not None and (live or found.fold == fold):
        return found
    if found is not None:
        tables.write(TableLine("drop", found.generation))
    # A number of its own, also if the file of the tables is lost.
    generation = draw_generation(into)
    tables.write(TableLine("begin", generation, name, fold, live))
    return ReadModelTable(generation, name, fold, 0, live)


def _advance(
    tables: TableFile,
    _: Round,
    table: ReadModelTable,
    changes: Mapping[str, bytes | None],
    position: int,
) -> ReadModelTable:
    tables.check(table)
    line = TableLine("advance", table.generation, position=position, rows=put_rows(changes))
    tables.write(line)
    return replace(table, position=position)


def _swap(tables: TableFile, _: Round, table: ReadModelTable) -> ReadModelTable:
    tables.check(table)
    former = tables.named(table.name, live=True)
    if former is not None:
        check_overtakes(table, former)
    tables.write(TableLine("swap", table.generation))
    return replace(table, live=True)


def _drop(tables: TableFile, _: Round, table: ReadModelTable) -> ReadModelTable:
    tables.write(TableLine("drop", table.generation))
    return table
