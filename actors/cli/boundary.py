"""Where a command ends: errors in one line, and the exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from typer.core import TyperGroup

from ...events.errors import (
    ApprovalNotFound,
    CheckpointNotFound,
    InvalidSessionId,
    NotAStore,
    NotSupported,
    SessionDeleted,
    SessionExists,
    SessionNotFound,
    TurnstreamError,
)
from .text import printable

WRONG, MISUSED, INTERRUPTED, UNREAD = 1, 2, 130, 141

_MISUSE = (
    ApprovalNotFound,
    CheckpointNotFound,
    InvalidSessionId,
    NotAStore,
    NotSupported,
    SessionDeleted,
    SessionExists,
    SessionNotFound,
)


class CommandGroup(TyperGroup):
    """Commands whose errors are one line on stderr and an exit status, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises ``typer.Exit`` with the status where it did not succeed."""
        with _unread_output_is_quiet(), _errors_in_one_line():
            return super().invoke(ctx)


def complain(text: str, code: str = "") -> None:
    """Say on stderr what is wrong: in one line, with the error's code, but for our own lists of
    what else could be written."""
    said, *more = text.splitlines() or [""]
    marked = f"{said} [{code}]" if code else said
    sys.stderr.write("".join(f"{printable(line)}\n" for line in (f"error: {marked}", *more)))


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    try:
        yield
    except TurnstreamError as error:
        complain(str(error), error.code)
        raise typer.Exit(MISUSED if isinstance(error, _MISUSE) else WRONG) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror or error}", "os")
        raise typer.Exit(WRONG) from None


@contextmanager
def _unread_output_is_quiet() -> Iterator[None]:
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_the_rest()
        raise typer.Exit(UNREAD) from None


def _discard_the_rest() -> None:
    """What is still buffered would be written once more when the interpreter ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
