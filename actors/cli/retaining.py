"""The commands that remove: sessions, old ones, content, and the space that they took."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn

from ...stores import EventStore
from ..descent import descendants
from ..erasure import erase_content
from ..retention import Pruned, prune
from .app import AsJson, SessionId, StoreUrl, app, encodable, encodable_ids
from .opening import DEFAULT_STORE, existing_session, store_to_read
from .screen import error_screen, write_line
from .text import json_line, printable

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
LONGEST = 100 * 365 * 86_400
_AGE = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)


def _age(text: str) -> str:
    if not _AGE.fullmatch(text):
        raise typer.BadParameter("an age is a number and one of s, m, h, d, w: 12h, 30d")
    if _seconds(text) > LONGEST:
        raise typer.BadParameter("nothing is as old as that")
    return text


def _seconds(age: str) -> int:
    number, unit = age[:-1], age[-1]
    return int(number) * SECONDS[unit]


@app.command()
def delete(
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID", callback=encodable_ids, help="The sessions' ids."),
    ],
    *,
    store: StoreUrl = DEFAULT_STORE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete sessions, for good, and those of their sub-agents. Their ids are not used again;
    their forks stay."""
    with store_to_read(store) as opened:
        for each in ids:
            existing_session(opened, each)
        if not yes:
            _ask(f"delete {len(ids)} sessions for good?")
        for each in [one for root in ids for one in (*descendants(opened, root), root)]:
            count = opened.delete(each)
            write_line(f"deleted {printable(each)}: {count} events")


@app.command("prune")
def prune_(
    older_than: Annotated[
        str,
        typer.Option(
            callback=_age, metavar="AGE", help="Since the last event: 30d, 12h; s, m, h, d or w."
        ),
    ],
    *,
    store: StoreUrl = DEFAULT_STORE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete old sessions in which nothing is unfinished."""
    before = datetime.now(UTC) - timedelta(seconds=_seconds(older_than))
    with store_to_read(store) as opened, _progress(opened) as watch:
        pruned = prune(opened, before, dry_run=dry_run, watch=watch)
    if as_json:
        write_line(json_line(pruned))
        return
    for each in pruned.ids:
        write_line(printable(each))
    write_line(_summary(pruned, dry_run=dry_run))


@app.command()
def compact(*, store: StoreUrl = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Give back the space of what was deleted and erased. Writers wait meanwhile."""
    with store_to_read(store) as opened:
        given = opened.compact()
    write_line(json_line({"bytes": given}) if as_json else f"{given} bytes given back")


@app.command()
def erase(
    id: SessionId,
    versions: Annotated[
        list[int], typer.Argument(metavar="VERSION", help="Of the events, as 'events' shows.")
    ],
    *,
    store: StoreUrl = DEFAULT_STORE,
    reason: Annotated[str, typer.Option(callback=encodable, help="Why; it is recorded.")] = "",
    by: Annotated[str, typer.Option("--by", callback=encodable, help="Who asks for it.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Erase what events hold, for good. The events and the chain stay; compact the store then."""
    with store_to_read(store) as opened:
        existing_session(opened, id)
        if not yes:
            _ask(f"erase the content of {len(versions)} events for good?")
        count = erase_content(opened, id, versions, datetime.now(UTC), reason=reason, by=by)
    write_line(f"erased the content of {count} events of {printable(id)}")


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to confirm it: add --yes")
    typer.confirm(question, abort=True)


def _summary(pruned: Pruned, *, dry_run: bool) -> str:
    did = "would delete" if dry_run else "deleted"
    kept = ", ".join(f"{count} {why}" for why, count in sorted(pruned.kept.items()))
    return (
        f"{did} {pruned.sessions} sessions, {pruned.events} events, {pruned.bytes} bytes; "
        f"kept {kept or 'none'}"
    )


@contextmanager
def _progress(store: EventStore) -> Iterator[Callable[[], object] | None]:
    console = error_screen()
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("pruning"), BarColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(store.sessions()))
        yield lambda: progress.advance(task)
