"""A session's file read from its beginning, or from where the log knows it, to its end.

So the log is made again where it was lost, and so a file is looked over. What stands after the
last whole unit is either *torn*, an append that did not come to its end, which was told to nobody,
or *damage*. A torn append is the beginning of what would have been written: it ends within a line
or within a unit, and all lines before that are as they were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from .index import Head, Span
from .lines import (
    CLOSING,
    FORMAT,
    TOMBSTONE,
    Closing,
    Header,
    RowLine,
    Tombstone,
    Unfit,
    opened,
    record_of,
)


class Fault(NamedTuple):
    """What is wrong with a line of a file; ``version`` is the event that should stand there."""

    line: int
    version: int
    what: str


class Scan(Struct, frozen=True):
    """What a file holds: whole units up to ``end``, and what comes after them: torn bytes, or a
    ``fault``."""

    session: str | None
    edition: int
    spans: Sequence[Span]
    row: RowLine | None
    end: int
    torn: int
    fault: Fault | None
    deleted: bool = False
    position: int = 0


class _Scanner:
    """The state of a scan that goes on from ``head``."""

    def __init__(self, session: str | None, head: Head) -> None:
        self.session, self.edition = session, head.edition
        self.version, self.end = head.version, head.end
        self.spans: list[Span] = []
        self.row: RowLine | None = None
        self.deleted, self.position = False, 0
        self._reached, self._first, self._pending = head.end, 0, 0

    def take(self, line: bytes) -> None:
        """The next line, which ends with its line break. Raises ``Unfit``."""
        if not self.edition:
            self._take_header(line)
        elif self.deleted:
            raise Unfit("something stands after the last line")
        elif line.startswith(CLOSING):
            self._take_closing(line)
        elif line.startswith(TOMBSTONE) and not self.version + self._pending:
            self.deleted, self.position = True, opened(line, Tombstone).position
        else:
            self._take_event(line)
        self._reached += len(line)
        if not self._pending:
            self.end = self._reached

    @property
    def due(self) -> int:
        """The version that should come next."""
        return self.version + self._pending + 1

    def _take_header(self, line: bytes) -> None:
        header = opened(line, Header)
        if header.turnstream_session != FORMAT:
            raise Unfit("a newer turnstream wrote this file")
        if self.session not in (None, header.session):
            raise Unfit(f"this is the file of session {header.session!r}")
        self.session, self.edition = header.session, header.edition

    def _take_event(self, line: bytes) -> None:
        record = record_of(line, self.session or "")
        if record.version != self.due:
            raise Unfit(f"version {record.version} stands where {self.due} should be")
        if self._pending and record.position != self._first + self._pending:
            raise Unfit(f"the position of version {record.version} does not follow the one before")
        self._first = self._first if self._pending else record.position
        self._pending += 1

    def _take_closing(self, line: bytes) -> None:
        closing, count = opened(line, Closing), self._pending
        if closing.events != count or closing.row.version != self.version + count:
            raise Unfit("this line closes other events than stand before it")
        if count:
            length = self._reached + len(line) - self.end
            self.spans.append(Span(self._first, self.version + 1, count, self.end, length))
        self.row, self.version, self._pending = closing.row, self.version + count, 0


def scan(path: Path, session: str | None, head: Head) -> Scan:
    """Read a file from ``head`` on, which may be its beginning. Raises ``OSError``."""
    with path.open("rb") as file:
        file.seek(head.end)
        scanner, fault = _Scanner(session, head), None
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            due = scanner.due
            try:
                scanner.take(line)
            except Unfit as error:
                fault = Fault(number, due, str(error))
                break
        size = file.seek(0, 2)
    torn = 0 if fault else size - scanner.end
    return Scan(
        scanner.session,
        scanner.edition,
        scanner.spans,
        scanner.row,
        scanner.end,
        torn,
        fault,
        scanner.deleted,
        scanner.position,
    )
