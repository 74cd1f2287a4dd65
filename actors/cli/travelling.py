"""The commands for a session's past: its history, its forks, and a new one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ...events.messages import AssistantMessage, Message
from ...projections import Checkpoint
from ..forking import Lineage, fork, lineage
from ..patching import Patch
from ..viewing import history, point
from .app import AsJson, AtStep, AtVersion, SessionId, StoreUrl, app, encodable
from .opening import DEFAULT_STORE, existing_session, store_to_read
from .screen import screen, write_line
from .summaries import call_text, content_text
from .text import json_line, printable, shortened, utc


@app.command("history")
def history_(
    id: SessionId,
    *,
    store: StoreUrl = DEFAULT_STORE,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what a session was at the end of each step, the newest first."""
    with store_to_read(store) as opened:
        existing_session(opened, id)
        found = history(opened, id, limit)
    if as_json:
        for each in found:
            write_line(json_line(_fields(each)))
    else:
        screen().print(_table(found), soft_wrap=False)


@app.command("fork")
def fork_(
    id: SessionId,
    *,
    store: StoreUrl = DEFAULT_STORE,
    step: AtStep = None,
    version: AtVersion = None,
    name: Annotated[
        str | None, typer.Option("--name", callback=encodable, help="The fork's id.")
    ] = None,
    append: Annotated[
        str | None,
        typer.Option("--append", callback=encodable, metavar="TEXT", help="A message more."),
    ] = None,
    by: Annotated[str, typer.Option("--by", callback=encodable, help="Who forks.")] = "",
    as_json: AsJson = False,
) -> None:
    """Begin a session as a copy of another one. It goes on when it is resumed.

    Without --step and --version it is a copy up to where nothing was unfinished.
    """
    if step is not None and version is not None:
        raise typer.BadParameter("give --step or --version, not both")
    with store_to_read(store) as opened:
        patch = Patch(append_input=append, by=by)
        made = fork(opened, id, point(version, step), patch=patch, name=name)
        row = existing_session(opened, made)
    if as_json:
        assert row.forked_from is not None
        shared = {"forked_from": id, "shared_version": row.forked_from.version}
        write_line(json_line({"session_id": made, **shared, "version": row.version}))
    else:
        screen().print(Text(printable(made)))


@app.command("lineage")
def lineage_(id: SessionId, *, store: StoreUrl = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Show the tree of forks that a session is part of."""
    with store_to_read(store) as opened:
        found = lineage(opened, id)
    if as_json:
        write_line(json_line(_branch(found)))
    else:
        screen().print(_grown(Tree(_label(found, id)), found, id))


def _table(found: Iterable[Checkpoint]) -> Table:
    table = Table("step", "version", "when", "status", "messages", "last", box=None, pad_edge=False)
    for column in (table.columns[place] for place in (0, 1, 4)):
        column.justify = "right"
    table.columns[5].overflow = "fold"
    for each in found:
        said = _said(each)
        last = shortened(_shown(said[-1])) if said else ""
        cells = (str(each.step), str(each.version), utc(each.saved_at), each.status, str(len(said)))
        table.add_row(*map(Text, (*cells, last)))
    return table


def _said(each: Checkpoint) -> list[Message]:
    """What was said by then, the open turn's part included."""
    pending = each.checkpoint.pending
    return [*each.checkpoint.messages, *(pending.messages if pending is not None else ())]


def _shown(message: Message) -> str:
    match message:
        case AssistantMessage(text=text, tool_calls=calls):
            return " ".join([*([text] if text else ()), *map(call_text, calls)])
        case _:
            return content_text(message.content)


def _fields(each: Checkpoint) -> dict[str, Any]:
    return {
        "step": each.step,
        "version": each.version,
        "saved_at": each.saved_at.isoformat(),
        "status": each.status,
        "messages": _said(each),
        "usage": each.checkpoint.usage.recorded,
        "approvals": [approval.id for approval in _approvals(each)],
    }


def _approvals(each: Checkpoint) -> Iterable[Any]:
    pending = each.checkpoint.pending
    return pending.approvals if pending is not None else ()


def _grown(tree: Tree, at: Lineage, id: str) -> Tree:
    for each in at.forks:
        _grown(tree.add(_label(each, id)), each, id)
    return tree


def _label(at: Lineage, id: str) -> Text:
    label = Text(printable(at.session_id), "bold" if at.session_id == id else "")
    if at.version:
        label.append(f" from version {at.version}", "dim")
    return label.append(" (deleted)", "dim") if at.deleted else label


def _branch(at: Lineage) -> dict[str, Any]:
    return {
        "session_id": at.session_id,
        "version": at.version,
        "deleted": at.deleted,
        "forks": [_branch(each) for each in at.forks],
    }
