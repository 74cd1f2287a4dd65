"""The commands for decisions. They record what was decided; the turn goes on where its agent is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from msgspec import DecodeError
from msgspec.json import decode
from rich.table import Table
from rich.text import Text

from ...events.approvals import Approval, oldest_first
from ..commands import Resolve
from ..recording import record_decision
from .app import AsJson, StoreUrl, app, encodable
from .opening import DEFAULT_STORE, store_to_read
from .screen import screen, write_line
from .text import json_line, printable, readable, shortened, utc

ApprovalId = Annotated[str, typer.Argument(metavar="ID", help="The approval's id.")]
By = Annotated[str, typer.Option("--by", callback=encodable, help="Who decides.")]
Note = Annotated[str, typer.Option("--note", callback=encodable, help="Why; the model reads it.")]


def _arguments(text: str | None) -> str | None:
    if text is not None:
        try:
            decode(text, type=dict[str, Any])
        except (DecodeError, UnicodeEncodeError):
            raise typer.BadParameter("the arguments are no JSON object") from None
    return text


@app.command()
def approvals(
    *,
    store: StoreUrl = DEFAULT_STORE,
    agent: Annotated[str | None, typer.Option(callback=encodable, help="The agent's name.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the calls that wait for a decision, the oldest first."""
    with store_to_read(store) as opened:
        rows = opened.sessions(status="awaiting-approval", agent=agent)
    waiting = oldest_first(each for row in rows for each in row.approvals)
    if as_json:
        for each in waiting:
            write_line(json_line(_fields(each)))
    else:
        screen().print(_table(waiting), soft_wrap=False)


@app.command()
def approve(
    id: ApprovalId,
    *,
    store: StoreUrl = DEFAULT_STORE,
    by: By = "",
    note: Note = "",
    arguments: Annotated[
        str | None,
        typer.Option(callback=_arguments, metavar="JSON", help="In place of the proposed ones."),
    ] = None,
) -> None:
    """Let a call run. It runs when its session is resumed."""
    edited = None if arguments is None else decode(arguments, type=dict[str, Any])
    _decide(store, Resolve(id, "approved", by, note, edited))


@app.command()
def reject(
    id: ApprovalId, *, store: StoreUrl = DEFAULT_STORE, by: By = "", note: Note = ""
) -> None:
    """Do not let a call run. The turn goes on when its session is resumed."""
    _decide(store, Resolve(id, "rejected", by, note))


def _decide(store: str, decision: Resolve) -> None:
    with store_to_read(store) as opened:
        record_decision(opened, decision, datetime.now(UTC))
    screen().print(Text(f"{decision.decision}: {printable(decision.approval_id)}"))


def _table(waiting: Sequence[Approval]) -> Table:
    table = Table("id", "tool", "arguments", "why", "since", "until", box=None, pad_edge=False)
    if nested := any(each.within for each in waiting):
        table.add_column("for")
    for column in table.columns:
        column.overflow = "fold"
    for each in waiting:
        arguments = shortened(readable(each.arguments))
        until = "" if each.expires_at is None else utc(each.expires_at)
        cells = (printable(each.id), printable(each.tool), arguments, each.reason)
        place = (Text(printable(" > ".join(each.within))),) if nested else ()
        table.add_row(*map(Text, cells), utc(each.requested_at), until, *place)
    return table


def _fields(each: Approval) -> dict[str, Any]:
    return {
        "id": each.id,
        "session_id": each.session_id,
        "turn_id": each.turn_id,
        "call_id": each.call_id,
        "tool": each.tool,
        "arguments": each.arguments,
        "reason": each.reason,
        "requested_at": each.requested_at.isoformat(),
        "expires_at": None if each.expires_at is None else each.expires_at.isoformat(),
        "path": each.path,
        "within": each.within,
    }
