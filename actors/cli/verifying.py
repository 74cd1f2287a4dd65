"""The command that looks for what is wrong with a store."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ...stores import EventStore
from ..auditing import Audited, Finding, audit_store
from .app import AsJson, StoreUrl, app, encodable_ids
from .boundary import WRONG
from .opening import DEFAULT_STORE, existing_session, store_to_read
from .screen import error_screen, write_line
from .text import json_line, printable

SessionIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", callback=encodable_ids, help="Sessions; all, if none."),
]


class Count:
    """Counts what was looked at and found."""

    def __init__(self) -> None:
        self.sessions: int = 0
        self.events: int = 0
        self.faults: int = 0

    def add(self, audited: Audited) -> None:
        """Count what one look came to."""
        self.sessions += bool(audited.session_id)
        self.events += audited.events
        self.faults += sum(each.is_fault for each in audited.findings)

    def __str__(self) -> str:
        wrong = f"{self.faults} faults" if self.faults else "nothing wrong"
        return f"{self.sessions} sessions, {self.events} events: {wrong}"


@app.command()
def verify(
    ids: SessionIds = None, *, store: StoreUrl = DEFAULT_STORE, as_json: AsJson = False
) -> None:
    """Look for what was altered, is missing, or does not fit: in the whole store, or in these
    sessions."""
    count = Count()
    with store_to_read(store) as opened:
        for each in ids or ():
            if not opened.read(each, upto=1):
                existing_session(opened, each)
        try:
            for audited in _followed(audit_store(opened, ids or ()), opened, len(ids or ())):
                count.add(audited)
                for finding in audited.findings:
                    write_line(json_line(finding) if as_json else _line(finding))
        except KeyboardInterrupt:
            sys.stderr.write(f"interrupted: {count} so far\n")
            raise
    if not as_json:
        write_line(str(count))
    if count.faults:
        raise typer.Exit(WRONG)


def _line(finding: Finding) -> str:
    place = f"session {finding.session_id!r}" if finding.session_id else "the store"
    if finding.version:
        place += f", version {finding.version}"
    return printable(f"{finding.kind}: {place}: {finding.reason}")


def _followed(looked: Iterable[Audited], store: EventStore, count: int) -> Iterator[Audited]:
    console = error_screen()
    if not console.is_terminal:
        yield from looked
        return
    columns = (TextColumn("verifying"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=count or len(store.sessions()))
        for audited in looked:
            yield audited
            progress.advance(task, bool(audited.session_id))
