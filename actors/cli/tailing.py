"""The command that follows the log."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.text import Text

from ...events.envelope import StoredRecord
from ...stores import EventStore
from .app import AsJson, StoreUrl, app
from .listing import decoded, event_line
from .opening import DEFAULT_STORE, existing_session, store_to_read
from .screen import Screen, screen, write_line
from .text import printable, record_line


@app.command()
def tail(
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only this session's events.")
    ] = None,
    *,
    store: StoreUrl = DEFAULT_STORE,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="Begin with about so many of the last.")
    ] = 10,
    after: Annotated[
        int | None, typer.Option(min=0, metavar="POSITION", help="Begin after this position.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the last events of the store or of a session, and then those that come, until
    interrupted."""
    out = screen()
    with store_to_read(store) as opened:
        begin = _begin(opened, id, lines) if after is None else after
        with opened.subscribe(after=begin) as log:
            for record in log:
                if id in (None, record.session_id):
                    _show(out, record, alone=id is not None, as_json=as_json)


def _begin(store: EventStore, id: str | None, lines: int) -> int:
    """The position after which the last lines come."""
    end = store.read_models.end()
    if id is None:
        return max(end - lines, 0)
    row = existing_session(store, id)
    last = store.read(id, after=max(row.version - lines, 0), upto=row.version)
    return last[0].position - 1 if last else end


def _show(out: Screen, record: StoredRecord, *, alone: bool, as_json: bool) -> None:
    if as_json:
        write_line(record_line(record))
    else:
        line = Text(f"{record.position:>8}  ", "dim")
        if not alone:
            line.append(f"{printable(record.session_id)}  ", "bold")
        out.print_in_one_line(line.append(event_line(record, decoded(record))))
    sys.stdout.flush()
