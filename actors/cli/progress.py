"""How far a long piece of work is, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from ..projecting import Progress as Told
from .screen import error_screen


@contextmanager
def shown_progress(doing: str, *, quiet: bool = False) -> Iterator[Told]:
    """What to tell the progress to, which is shown on stderr where that is a terminal. An
    interrupt is told of as well: what it leaves can be gone on with."""
    console = error_screen()
    try:
        if quiet or not console.is_terminal:
            yield _ignored
        else:
            columns = (
                TextColumn(doing),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
            )
            with Progress(*columns, console=console, transient=True) as progress:
                task = progress.add_task("", total=None)
                yield lambda done, end: progress.update(task, completed=done, total=end)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what is done is kept; run it again to go on\n")
        raise


def _ignored(done: int, end: int) -> None:
    pass
