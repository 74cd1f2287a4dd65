"""How an import went, while it goes on and at its end."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from io import BufferedReader

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from .boundary import complain
from .imports import Imported
from .screen import error_screen, write_line
from .text import json_line, printable


class Tally:
    """Counts what became of conversations."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._last = ""

    @property
    def failed(self) -> int:
        """How many could not be imported."""
        return self._counts["failed"]

    def add(self, imported: Imported) -> None:
        """Count one."""
        self._counts[imported.outcome] += 1
        self._last = imported.session_id

    def __str__(self) -> str:
        counts = self._counts
        if counts["imported"] == counts.total() == 1:
            return f"imported {printable(self._last)}"
        return (
            f"{counts['imported']} imported, {counts['present']} already there, "
            f"{counts['failed']} failed"
        )


def report(outcomes: Iterable[Imported], source: BufferedReader) -> Tally:
    """Tell of each conversation that could not be imported and, in the end or when interrupted,
    how many there were. How far ``source`` is read is shown on a terminal."""
    tally = Tally()
    try:
        for imported in _followed(outcomes, source):
            tally.add(imported)
            if imported.outcome == "failed":
                complain(f"{_place(imported)}: {printable(imported.reason)}")
        write_line(str(tally))
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted: {tally}; run it again to go on\n")
        raise
    return tally


def report_as_json(outcomes: Iterable[Imported]) -> Tally:
    """Tell of each conversation, in a line of JSON."""
    tally = Tally()
    for imported in outcomes:
        tally.add(imported)
        write_line(json_line(imported))
    return tally


def _followed(outcomes: Iterable[Imported], source: BufferedReader) -> Iterator[Imported]:
    console = error_screen()
    if not console.is_terminal:
        yield from outcomes
        return
    columns = (TextColumn("importing"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=_length(source))
        for imported in outcomes:
            yield imported
            progress.update(task, completed=source.tell() if source.seekable() else 0)


def _length(source: BufferedReader) -> int | None:
    return os.fstat(source.fileno()).st_size if source.seekable() else None


def _place(imported: Imported) -> str:
    return f"line {imported.line}" if imported.line else "the file"
