"""Where output goes: lines for people, and lines for programs."""

from __future__ import annotations

import sys
from typing import IO

from rich.console import Console
from rich.text import Text

# Beside a terminal nothing is cut or wrapped to a width that nobody has.
_UNBOUNDED = 10_000


class Screen(Console):
    """A console that interprets nothing in the text it is given."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(
            file=file,
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=True,
            width=None if file.isatty() else _UNBOUNDED,
        )

    def print_in_one_line(self, text: Text) -> None:
        """The text, cut where the terminal ends."""
        self.print(text, soft_wrap=False, no_wrap=True, overflow="ellipsis")

    def on_broken_pipe(self) -> None:
        """Leave it to the command's boundary."""
        raise BrokenPipeError


def screen() -> Screen:
    """A console on stdout, with colours only where that is a terminal."""
    return Screen(sys.stdout)


def error_screen() -> Screen:
    """A console on stderr."""
    return Screen(sys.stderr)


def write_line(line: str) -> None:
    """One line on stdout, exactly as it is."""
    sys.stdout.write(line + "\n")
