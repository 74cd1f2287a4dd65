"""Where the tables of read models live: the port.

A table has a name and rows by key, and says how far it has read the log. Rows and position are
written in one transaction, and only if the table is still where the writer believes it to be: of
two that keep the same table one wins, and nothing is counted twice. Of each name there is at most
one live table, which is read, and one that is being rebuilt beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct


class ReadModelTable(Struct, frozen=True, gc=False):
    """A table: which ``fold`` (the number of its code) it was begun with, and the ``position`` in
    the log up to which it has read. Its ``generation`` is its own; no two tables share one."""

    generation: int
    name: str
    fold: int
    position: int
    live: bool


Place: TypeAlias = int | str
"""Which table to read: a generation, or the name of a live one."""


class ReadModelTables(Protocol):
    """The tables of a store. Every method may be called from any thread, and raises what those of
    the store raise."""

    def find(self, name: str, *, live: bool = True) -> ReadModelTable | None:
        """The live table of that name, or the one that is being rebuilt."""
        ...

    def begin(self, name: str, fold: int, *, live: bool = True) -> ReadModelTable:
        """The live table, made if there is none; whatever fold it was begun with. Not ``live``,
        the one that is being rebuilt with this fold: one with another fold is dropped first."""
        ...

    def get(self, place: Place, key: str) -> bytes | None:
        """The row of that key; None too where there is no table."""
        ...

    def rows(self, place: Place, prefix: str = "") -> Sequence[tuple[str, bytes]]:
        """The rows whose keys begin so, in the order of the keys, as of one moment."""
        ...

    def advance(
        self, table: ReadModelTable, changes: Mapping[str, bytes | None], position: int
    ) -> ReadModelTable:
        """Write rows, None for those to be removed, and the new position; the table after it.

        Raises ``ReadModelMoved``, and changes nothing, where the table is not at
        ``table.position`` or is there no more."""
        ...

    def swap(self, table: ReadModelTable) -> ReadModelTable:
        """Put a rebuilt table in the place of the live one, which goes with all its rows.

        Raises ``ReadModelMoved``, and changes nothing, where the table is not at
        ``table.position``, is there no more, or has not read as far as the live one."""
        ...

    def drop(self, table: ReadModelTable) -> None:
        """Have the table no more, if it is there."""
        ...

    def end(self) -> int:
        """The position of the last event in the log; 0 where there is none."""
        ...
