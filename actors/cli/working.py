"""The command that serves what others leave to be done."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from pkgutil import resolve_name
from threading import Event
from types import FrameType
from typing import Annotated, Any

import typer

from ...events.errors import InvalidAgent
from ..agent import Agent
from ..serving import serve
from ..system import ActorSystem
from .app import StoreUrl, app
from .boundary import WRONG
from .opening import DEFAULT_STORE, store_to_write
from .screen import write_line


@app.command()
def worker(
    agents: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME",
            help="Where the agents are: an Agent, several, or a function that gives them.",
        ),
    ],
    *,
    store: StoreUrl = DEFAULT_STORE,
    lease: Annotated[
        float, typer.Option(min=0, help="Seconds of silence after which a process is lost.")
    ] = 10.0,
    drain: Annotated[
        float, typer.Option(min=0, help="Seconds that running steps have left at the end.")
    ] = 10.0,
) -> None:
    """Go on with what is unfinished, and serve inputs that others append, until told to stop.

    SIGTERM and an interrupt let running steps be recorded, and end the rest.
    """
    found, stop = _agents(agents), Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _setting(stop))
    with store_to_write(store) as opened:
        system = ActorSystem(found, store=opened, lease=lease)
        write_line("serving")
        sys.stdout.flush()
        try:
            serve(system, stop)
        finally:
            clean = system.close(drain)
    write_line("stopped" if clean else "stopped, and something was interrupted: it can be resumed")
    if not clean:
        raise typer.Exit(WRONG)


def _setting(stop: Event) -> Callable[[int, FrameType | None], Any]:
    def set_it(number: int, frame: FrameType | None) -> None:
        stop.set()

    return set_it


def _agents(where: str) -> list[Agent]:
    """The agents that are named on the command line, by whoever may run code here anyway."""
    sys.path.insert(0, str(Path.cwd()))  # as ``python -m`` does
    try:
        found: Any = resolve_name(where)
    except (ImportError, AttributeError, ValueError) as error:
        raise typer.BadParameter(f"{where!r} names no agents: {error}") from None
    try:
        if not isinstance(found, (Agent, Iterable)):
            found = found()
        listed = [found] if isinstance(found, Agent) else list(found)
    except TypeError as error:
        raise InvalidAgent(f"{where!r} gives no agents: {error}") from error
    if not all(isinstance(each, Agent) for each in listed):
        raise InvalidAgent(f"{where!r} holds something that is no Agent")
    return listed
