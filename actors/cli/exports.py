"""The command that writes sessions to a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

import typer

from ...events.errors import InvalidTranscript
from ...stores import EventStore, SessionRow
from ..atif import export_trajectory
from ..exporting import export_chat, export_events
from .app import StoreUrl, app
from .boundary import WRONG, complain
from .opening import DEFAULT_STORE, existing_session, store_to_read
from .screen import write_line
from .text import printable

Format: TypeAlias = Literal["events", "chat", "atif"]
Write: TypeAlias = Callable[[bytes], object]
_DOCUMENTS: dict[str, Callable[[EventStore, str], dict[str, Any]]] = {
    "chat": export_chat,
    "atif": export_trajectory,
}


def _known_format(format: str) -> str:
    if format not in get_args(Format):
        raise typer.BadParameter(f"{format!r} is none of {', '.join(get_args(Format))}")
    return format


@app.command()
def export(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Sessions.")] = None,
    *,
    store: StoreUrl = DEFAULT_STORE,
    all_sessions: Annotated[bool, typer.Option("--all", help="All sessions there are.")] = False,
    format: Annotated[
        str,
        typer.Option(
            callback=_known_format,
            help="events: as they are stored, to be imported again; chat: OpenAI chat format; "
            "atif: the Agent Trajectory Interchange Format.",
        ),
    ] = "events",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file.")] = False,
) -> None:
    """Export sessions, to stdout or a file.

    In the formats chat and atif each session is one line of JSON. A file appears when it is whole.
    """
    if bool(ids) == all_sessions:
        raise typer.BadParameter("name sessions, or say --all")
    with store_to_read(store) as opened:
        chosen = ids or [each for _, each in sorted(map(_age, opened.sessions()))]
        for each in chosen:
            existing_session(opened, each)
        with _written(output, force=force) as write:
            whole = _export(opened, chosen, cast(Format, format), write)
    if not whole:
        raise typer.Exit(WRONG)


def _age(row: SessionRow) -> tuple[datetime, str]:
    return row.created, row.session_id


def _export(store: EventStore, ids: Sequence[str], format: Format, write: Write) -> bool:
    """Whether every session could be written."""
    if format == "events":
        for line in export_events(store, *ids):
            write(line)
        return True
    whole = True
    for each in ids:
        try:
            write(json.dumps(_DOCUMENTS[format](store, each)).encode() + b"\n")
        except InvalidTranscript as error:
            complain(str(error), error.code)
            whole = False
    return whole


@contextmanager
def _written(output: Path | None, *, force: bool) -> Iterator[Write]:
    """Where to write. What a file holds is there whole, or not at all."""
    if output is None:
        yield _show if sys.stdout.isatty() else sys.stdout.buffer.write
        return
    if output.exists() and not force:
        raise typer.BadParameter(f"{str(output)!r} exists: say --force to write over it")
    part = output.with_name(f".{token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            yield file.write
        part.replace(output)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _show(line: bytes) -> None:
    write_line(printable(line.decode().rstrip("\n")))
