"""The demo, shown: events as they land, what happens to the workers, and the verdict."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Protocol

from msgspec import Struct
from rich.text import Text

from ...events.envelope import StoredRecord
from ..demo.stage import Stage, Told, own_store
from ..demo.verdict import Check
from .listing import decoded, event_line
from .opening import store_to_write
from .screen import screen, write_line
from .text import json_line, printable, record_line


class Verdict(Struct, frozen=True):
    """What came of a performance; ``folder`` is where its files are, if they are kept."""

    session_id: str
    holds: bool
    checks: Sequence[Check]
    folder: str = ""


class Narrator(Protocol):
    """Tells the audience."""

    def tell(self, moment: StoredRecord | Told) -> None:
        """What happened."""

    def conclude(self, verdict: Verdict) -> None:
        """What came of it."""


class PlainNarrator:
    """Tells people."""

    def __init__(self) -> None:
        self._screen = screen()

    def tell(self, moment: StoredRecord | Told) -> None:
        """An event in a line; a worker's fate with an arrow."""
        if isinstance(moment, Told):
            self._screen.print(Text(f"-> {printable(moment.text)}", "bold yellow"))
        else:
            self._screen.print_in_one_line(event_line(moment, decoded(moment)))

    def conclude(self, verdict: Verdict) -> None:
        """Each check, and what it was judged by."""
        self._screen.print(Text(f"\nThe verdict on {verdict.session_id}:", "bold"))
        for check in verdict.checks:
            mark = Text("  ok     ", "green") if check.holds else Text("  WRONG  ", "bold red")
            self._screen.print(mark.append(check.name, "default"))
            self._screen.print(Text(f"         {printable(check.found)}", "dim"))
        if verdict.folder:
            self._screen.print(Text(f"Its files are in {printable(verdict.folder)}"))


class JsonNarrator:
    """Tells programs: the events, and in the end the verdict."""

    def tell(self, moment: StoredRecord | Told) -> None:
        """An event in a line."""
        if isinstance(moment, StoredRecord):
            write_line(record_line(moment))
            sys.stdout.flush()

    def conclude(self, verdict: Verdict) -> None:
        """All checks in a line."""
        write_line(json_line({"verdict": verdict}))


def play(url: str | None, narrator: Narrator, *, keep: bool) -> bool:
    """Perform the demo on the store at ``url``, or on one of its own, and say whether all checks
    hold. Its files are removed in the end, whatever happens, but for ``keep``."""
    with _folder(keep=keep) as folder:
        address = own_store(folder) if url is None else url
        with store_to_write(address) as store:
            stage = Stage(store, address, folder)
            with closing(stage.perform()) as performance:
                for moment in performance:
                    narrator.tell(moment)
            checks = stage.judge()
        holds = all(check.holds for check in checks)
        kept = str(folder) if keep else ""
        narrator.conclude(Verdict(stage.session_id, holds, checks, kept))
    return holds


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    folder = Path(mkdtemp(prefix="turnstream-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
