"""The commands for read models: rebuild those that are built in, and show what was used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from msgspec.structs import asdict
from rich.table import Table
from rich.text import Text

from ...events.errors import CorruptEvent
from ...projections import DiscardedUsage, ModelUsage, ToolUsage, UsageByDay
from ...stores import EventStore
from ..projecting import Progress, Projector
from ..restoring import restore_rows
from .app import AsJson, StoreUrl, app
from .boundary import WRONG, complain
from .opening import DEFAULT_STORE, store_to_read
from .progress import shown_progress
from .screen import screen, write_line
from .text import json_line, printable

ROWS, USAGE = "rows", UsageByDay.name
BUILT_IN = (ROWS, USAGE)


def _built_in(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in BUILT_IN:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(BUILT_IN)}")
    return names or list(BUILT_IN)


@app.command()
def rebuild(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAMES", callback=_built_in, help=f"{', '.join(BUILT_IN)}; without, all."
        ),
    ] = None,
    *,
    store: StoreUrl = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Make the built-in read models anew from the events.

    'rows' are the listings of sessions and approvals: rows that differ from their events are put
    right. 'usage' is what 'turnstream usage' shows. Both may go on being used meanwhile. What was
    interrupted goes on where it stood.
    """
    unreadable = 0
    with store_to_read(store) as opened:
        for name in names or ():
            work = _rebuild_rows if name == ROWS else _rebuild_usage
            with shown_progress(f"rebuilding {name}", quiet=as_json) as progress:
                done = work(opened, progress)
            unreadable += done.get("unreadable", 0)
            write_line(json_line({"name": name, **done}) if as_json else _told(name, done))
    if unreadable:
        raise typer.Exit(WRONG)


@app.command()
def usage(*, store: StoreUrl = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Show what was used, by day (UTC), model and tool."""
    with store_to_read(store) as opened:
        projector = Projector(opened, UsageByDay())
        with shown_progress("counting", quiet=as_json) as progress:
            projector.catch_up(progress)
        used = [row for _, row in projector.rows()]
    models = [row for row in used if isinstance(row, ModelUsage | DiscardedUsage)]
    models.sort(key=lambda row: (row.day, isinstance(row, DiscardedUsage)))
    tools = [row for row in used if isinstance(row, ToolUsage)]
    if as_json:
        for row in [*models, *tools]:
            write_line(json_line(_fields(row)))
        return
    screen().print(_model_table(models), soft_wrap=False)
    if tools:
        screen().print(Text(""), _tool_table(tools), soft_wrap=False)


def _rebuild_rows(store: EventStore, progress: Progress) -> dict[str, int]:
    def tell(error: CorruptEvent) -> None:
        complain(str(error), error.code)

    done = asdict(restore_rows(store, progress, tell))
    return {key: count for key, count in done.items() if key != "after"}


def _rebuild_usage(store: EventStore, progress: Progress) -> dict[str, int]:
    return {"position": Projector(store, UsageByDay()).rebuild(progress)}


def _told(name: str, done: dict[str, int]) -> str:
    return f"{name}: " + ", ".join(f"{what} {count:,}" for what, count in done.items())


def _model_table(used: Iterable[ModelUsage | DiscardedUsage]) -> Table:
    table = _table("day", "model", "calls", "input", "cached", "output", "reasoning")
    for row in used:
        tokens = row.usage
        counts = (
            row.calls,
            tokens.input_tokens,
            tokens.cached_input_tokens,
            tokens.output_tokens,
            tokens.reasoning_tokens,
        )
        name = row.model if isinstance(row, ModelUsage) else "(discarded)"
        _add(table, row.day, name, counts)
    return table


def _tool_table(used: Iterable[ToolUsage]) -> Table:
    table = _table("day", "tool", "calls", "ok", "error", "rejected", "cancelled", "skipped")
    for row in used:
        counts = (row.calls, row.ok, row.error, row.rejected, row.cancelled, row.skipped)
        _add(table, row.day, row.tool, counts)
    return table


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    table.columns[1].overflow = "fold"
    return table


def _add(table: Table, day: str, name: str, counts: Iterable[int]) -> None:
    table.add_row(*map(Text, (day, printable(name))), *(f"{count:,}" for count in counts))


def _fields(row: ModelUsage | DiscardedUsage | ToolUsage) -> dict[str, Any]:
    match row:
        case ToolUsage():
            return {"kind": "tool", **asdict(row)}
        case ModelUsage(day=day, model=model):
            named = {"kind": "model", "day": day, "model": model}
        case DiscardedUsage(day=day):
            named = {"kind": "discarded", "day": day}
    return {**named, "calls": row.calls, **asdict(row.usage)}
