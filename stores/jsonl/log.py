"""The log: one file of lines that says, for all streams, what came in which order.

    {"turnstream_log":1,"epoch":1792313600000000000,"position":0,"sum":"…"}
    {"session":"s","end":415,"spans":[[1,1,2,61,354]],"row":{…},"sum":"…"}

It is written after the sessions' files and holds nothing that they do not hold: lost, it is made
again from them. Others find out by it what was written. Each time it is made its ``epoch`` is
another. ``position`` is the last that was given out before.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from time import time_ns

from msgspec import Struct

from .following import LineFile
from .index import Change, Index
from .lines import Unfit, opened, sealed

FORMAT = 1


class LogHeader(Struct, frozen=True, gc=False):
    """The first line."""

    turnstream_log: int
    epoch: int
    position: int


class Log(LineFile):
    """The log at ``path``, and the ``index`` that is made from it."""

    def __init__(self, path: Path, index: Index) -> None:
        super().__init__(path, index.lock, self._begin, self._apply)
        self.index = index

    def anew(self, changes: Iterable[Change]) -> bytes:
        """A log that says the same in as few lines as these."""
        header = LogHeader(FORMAT, time_ns(), self.index.last)
        return b"".join([sealed(header), *map(sealed, changes)])

    def _begin(self, line: bytes) -> None:
        header = opened(line, LogHeader)
        if header.turnstream_log != FORMAT:
            raise Unfit("a newer turnstream wrote the log")
        self.index.clear(header.position)

    def _apply(self, line: bytes) -> None:
        self.index.apply(opened(line, Change))
