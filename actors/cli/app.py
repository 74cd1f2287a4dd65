"""The command group, and the options that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

from ...events.rendering import well_formed
from .boundary import CommandGroup

app: typer.Typer = typer.Typer(
    name="turnstream",
    cls=CommandGroup,
    help="Durable AI-agent sessions. Exit status: 0 done, 1 found something wrong, 2 used wrongly.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def encodable(name: str | None) -> str | None:
    """The text, if it is text: bytes from a command line may be none."""
    if name is not None and well_formed(name) != name:
        raise typer.BadParameter("these bytes are no text")
    return name


def encodable_ids(ids: list[str] | None) -> list[str] | None:
    """The ids, if all of them are text."""
    for each in ids or ():
        encodable(each)
    return ids


StoreUrl = Annotated[
    str,
    typer.Option("--store", envvar="TURNSTREAM_STORE", metavar="URL", help="The store's address."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value a line.")]
AtStep = Annotated[int | None, typer.Option("--step", min=0, help="When this step ended.")]
AtVersion = Annotated[
    int | None, typer.Option("--version", min=1, help="Right after this version.")
]
SessionId = Annotated[str, typer.Argument(metavar="ID", help="The session's id.")]
