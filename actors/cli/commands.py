"""The commands. Each opens a store, asks it, and prints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from ...events.codec import CODEC
from ...events.envelope import StoredRecord
from ...events.errors import CorruptEvent
from ...events.session import AnyEvent, Status
from ...projections import fold
from ...stores import EventStore, SessionRow
from ..viewing import point, version_at
from .app import AsJson, AtStep, AtVersion, SessionId, StoreUrl, app, encodable
from .boundary import WRONG
from .chats import has_lines
from .conversation import conversation, session_fields
from .imports import Naming, import_file, opened_file
from .listing import decoded, event_line, row_fields, session_table
from .opening import DEFAULT_STORE, existing_session, store_to_read, store_to_write
from .report import report, report_as_json
from .screen import screen, write_line
from .text import json_line, record_line

PAGE = 500


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        from ... import __version__

        write_line(f"turnstream {__version__}")
        raise typer.Exit


def _known_status(status: str | None) -> str | None:
    if status is not None and status not in get_args(Status):
        raise typer.BadParameter(f"{status!r} is none of {', '.join(get_args(Status))}")
    return status


def _readable(file: Path) -> Path:
    if str(file) != "-" and (not file.exists() or file.is_dir()):
        raise typer.BadParameter(f"{str(file)!r} is no file")
    return file


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it, exit."),
    ] = False,
) -> None:
    """Options that need no command."""


@app.command()
def sessions(
    *,
    store: StoreUrl = DEFAULT_STORE,
    status: Annotated[
        str | None, typer.Option(callback=_known_status, help=f"{', '.join(get_args(Status))}.")
    ] = None,
    agent: Annotated[str | None, typer.Option(callback=encodable, help="The agent's name.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the sessions, the last updated first."""
    with store_to_read(store) as opened:
        rows = opened.sessions(status=cast(Status | None, status), agent=agent, limit=limit)
    if as_json:
        for row in rows:
            write_line(json_line(row_fields(row)))
    else:
        screen().print(session_table(rows), soft_wrap=False)


@app.command()
def events(
    id: SessionId,
    *,
    store: StoreUrl = DEFAULT_STORE,
    after: Annotated[int, typer.Option(min=0, help="Only those after this version.")] = 0,
    as_json: AsJson = False,
) -> None:
    """List a session's events. With --json, each as it is stored."""
    lines = screen()
    all_readable = True
    with store_to_read(store) as opened:
        for record in _records(opened, existing_session(opened, id), after):
            event = decoded(record)
            all_readable &= not isinstance(event, CorruptEvent)
            if as_json:
                write_line(record_line(record))
            else:
                lines.print_in_one_line(event_line(record, event))
    if not all_readable:
        raise typer.Exit(WRONG)


@app.command()
def show(
    id: SessionId,
    *,
    store: StoreUrl = DEFAULT_STORE,
    step: AtStep = None,
    version: AtVersion = None,
    as_json: AsJson = False,
) -> None:
    """Show a session's conversation, and what is unfinished in it: now, or then."""
    if step is not None and version is not None:
        raise typer.BadParameter("give --step or --version, not both")
    with store_to_read(store) as opened:
        row = existing_session(opened, id)
        events = [_event(record) for record in _records(opened, row, 0)]
    at = point(version, step)
    upto = len(events) if at is None else version_at(id, events, at)
    state = fold(events[:upto])
    if as_json:
        write_line(json_line(session_fields(id, upto, state)))
        return
    lines = screen()
    for line in conversation(id, upto, state):
        lines.print(line)


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            callback=_readable,
            help="JSON, or JSON lines, perhaps packed with gzip; - reads standard input.",
        ),
    ],
    *,
    store: StoreUrl = DEFAULT_STORE,
    id: Annotated[
        str | None,
        typer.Option(help="The session's id; of several conversations, how their ids begin."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(callback=encodable, help="The agent that conversations belong to."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Import exported sessions, or conversations in OpenAI chat format or ATIF.

    A conversation is a list of messages, an object with 'messages' and perhaps an 'id', or a
    trajectory. A file holds one, or one a line. What was imported before is recognised and left
    as it is.
    """
    naming = Naming.of(file, id)
    with store_to_write(store) as opened, opened_file(file) as source:
        outcomes = import_file(source, opened, naming, agent, by_line=has_lines(file))
        tally = report_as_json(outcomes) if as_json else report(outcomes, source)
    if tally.failed:
        raise typer.Exit(WRONG)


@app.command()
def demo(
    *,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            envvar="TURNSTREAM_STORE",
            metavar="URL",
            help="Leave the session there; without, it is in a temporary file.",
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the demo's files, and say where.")] = (
        False
    ),
    as_json: AsJson = False,
) -> None:
    """Kill an agent's process in the middle of a refund, resume it, and check what came of it."""
    from .playing import JsonNarrator, PlainNarrator, play

    if not play(store, JsonNarrator() if as_json else PlainNarrator(), keep=keep):
        raise typer.Exit(WRONG)


def _records(store: EventStore, row: SessionRow, after: int) -> Iterator[StoredRecord]:
    """A page at a time, so that any stream can be gone through."""
    for start in range(after, row.version, PAGE):
        yield from store.read(row.session_id, after=start, upto=min(start + PAGE, row.version))


def _event(record: StoredRecord) -> AnyEvent:
    try:
        return CODEC.decode(record.topic, record.payload)
    except CorruptEvent as error:
        raise CorruptEvent(
            f"session {record.session_id!r}, version {record.version}: {error}",
            session_id=record.session_id,
            version=record.version,
        ) from None
