"""Tables of read models in one file of lines, kept in memory while they are used.

    {"turnstream_read_models":1,"epoch":1792313600000000000,"sum":"…"}
    {"kind":"begin","generation":3,"name":"usage","fold":1,"live":true,"sum":"…"}
    {"kind":"advance","generation":3,"position":7,"rows":[["\"2026-05-04\"","eyJ0b2tlbnMiOjF9"]],…}

A change of rows and position is one line. The file may be lost, and then the tables are rebuilt
from the events; so nobody waits for the disk. Keys stand in it as JSON, rows in base64.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import RLock
from time import time_ns
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ..memory_tables import moved
from ..read_models import Place, ReadModelTable
from .files import TORN, replace_file
from .following import LineFile
from .lines import Unfit, opened, sealed

FORMAT = 1
LEAST_BYTES = 1_000_000
"""A file shorter than this is not made small by itself."""


class TablesHeader(Struct, frozen=True, gc=False):
    """The first line."""

    turnstream_read_models: int
    epoch: int


class TableLine(Struct, frozen=True, gc=False, omit_defaults=True):
    """What became of a table."""

    kind: Literal["begin", "advance", "swap", "drop"]
    generation: int
    name: str = ""
    fold: int = 0
    live: bool = False
    position: int = 0
    rows: list[tuple[str, bytes | None]] = []


class TableFile:
    """The tables, as the file at ``path`` says. What writes needs the store's lock. Its methods
    raise ``OSError``."""

    def __init__(self, path: Path) -> None:
        self.lock: RLock = RLock()
        self._file = LineFile(path, self.lock, self._begin, self._apply)
        self._bound = LEAST_BYTES
        self._clear()

    def refresh(self) -> None:
        """Take in what was written since. Raises ``Unfit``."""
        try:
            self._file.refresh()
        except FileNotFoundError:
            with self.lock:
                self._file.forget()
                self._clear()

    def write(self, line: TableLine) -> None:
        """Let this become of a table."""
        if not self._file.path.exists():
            replace_file(self._file.path, self._anew(), sync=False)
            self.refresh()
        self._file.extend(sealed(line))
        if self._file.end > self._bound:
            self.compact()

    def compact(self) -> None:
        """Have no more lines than are needed."""
        if self._file.path.exists():
            content = self._anew()
            replace_file(self._file.path, content, sync=False)
            self._bound = max(LEAST_BYTES, 4 * len(content))
            self.refresh()

    def reset(self) -> None:
        """Have no tables: what the file says can't be read."""
        path = self._file.path
        path.replace(path.with_name(path.name + TORN))
        self.refresh()

    def named(self, name: str, *, live: bool) -> ReadModelTable | None:
        """The table of that name."""
        with self.lock:
            tables = self._tables.values()
            return next((each for each in tables if (each.name, each.live) == (name, live)), None)

    def check(self, table: ReadModelTable) -> None:
        """Raise ``ReadModelMoved`` where a table is not as it was."""
        if (found := self._tables.get(table.generation)) != table:
            raise moved(table, found)

    def get(self, place: Place, key: str) -> bytes | None:
        """A row."""
        with self.lock:
            return self._at(place).get(key)

    def rows(self, place: Place, prefix: str) -> Sequence[tuple[str, bytes]]:
        """Rows whose keys begin so, in order."""
        with self.lock:
            rows = self._at(place)
            return sorted((key, row) for key, row in rows.items() if key.startswith(prefix))

    def _at(self, place: Place) -> Mapping[str, bytes]:
        if isinstance(place, str):
            table = self.named(place, live=True)
            place = 0 if table is None else table.generation
        return self._rows.get(place, {})

    def _clear(self) -> None:
        self._tables: dict[int, ReadModelTable] = {}
        self._rows: dict[int, dict[str, bytes]] = {}

    def _begin(self, line: bytes) -> None:
        if opened(line, TablesHeader).turnstream_read_models != FORMAT:
            raise Unfit("a newer turnstream wrote this file")
        self._clear()

    def _apply(self, text: bytes) -> None:
        line = opened(text, TableLine)
        match line.kind:
            case "begin":
                table = ReadModelTable(
                    line.generation, line.name, line.fold, line.position, line.live
                )
                self._tables[line.generation], self._rows[line.generation] = table, {}
            case "advance":
                self._advance(line)
            case "swap":
                table = self._due(line)
                former = self.named(table.name, live=True)
                if former is not None:
                    self._remove(former.generation)
                self._tables[line.generation] = replace(table, live=True)
            case "drop":
                self._remove(line.generation)

    def _advance(self, line: TableLine) -> None:
        table, rows = self._due(line), self._rows[line.generation]
        for text, row in line.rows:
            key = json.loads(text)
            if row is None:
                rows.pop(key, None)
            else:
                rows[key] = row
        self._tables[line.generation] = replace(table, position=line.position)

    def _due(self, line: TableLine) -> ReadModelTable:
        table = self._tables.get(line.generation)
        if table is None:
            raise Unfit("this line is of a table that is not there")
        return table

    def _remove(self, generation: int) -> None:
        self._tables.pop(generation, None)
        self._rows.pop(generation, None)

    def _anew(self) -> bytes:
        with self.lock:
            lines = [sealed(TablesHeader(FORMAT, time_ns()))]
            for table in self._tables.values():
                rows = self._rows[table.generation]
                begin = TableLine("begin", table.generation, table.name, table.fold, table.live)
                written = [(json.dumps(key), row) for key, row in rows.items()]
                advance = TableLine(
                    "advance", table.generation, position=table.position, rows=list(written)
                )
                lines += [sealed(begin), sealed(advance)]
            return b"".join(lines)


def put_rows(changes: Mapping[str, bytes | None]) -> list[tuple[str, bytes | None]]:
    """Rows as they stand in a line."""
    return [(json.dumps(key), row) for key, row in changes.items()]
