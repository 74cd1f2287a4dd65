"""Events read from the files of their sessions. Each is checked as it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...events.envelope import StoredRecord
from ...events.errors import CorruptEvent
from .files import opened_file, read_at
from .index import Extract, Span
from .lines import CLOSING, Closing, Header, Unfit, opened, record_of

PAGE_BYTES = 256_000
"""About so much is read at a time."""


class Damage(Exception):
    """A file does not hold what the log says: from this version of the session on."""

    def __init__(self, path: Path, session_id: str, version: int, what: str) -> None:
        super().__init__(what)
        self.path: Path = path
        self.session_id: str = session_id
        self.version: int = version
        self.what: str = what

    def told(self) -> CorruptEvent:
        """The error that says so."""
        return CorruptEvent(
            f"session {self.session_id!r} is damaged from version {self.version} on: {self.what}, "
            f"in {self.path}; put that file back from a copy, and see what is there with check()",
            session_id=self.session_id,
            version=self.version,
        )


def read_pages(path: Path, extract: Extract) -> Iterator[list[StoredRecord]]:
    """The events of all spans, some spans at a time. Raises ``Damage``; and ``OSError``, but not
    for a file that is missing."""
    first = extract.spans[0].version
    try:
        with opened_file(path) as descriptor:
            _check_header(path, descriptor, extract)
            for spans in _portions(extract.spans):
                yield [
                    record
                    for span in spans
                    for record in _events(path, descriptor, extract.session_id, span)
                ]
    except FileNotFoundError as error:
        raise Damage(path, extract.session_id, first, "the file is missing") from error


def read_records(path: Path, extract: Extract) -> list[StoredRecord]:
    """The events of all spans."""
    return [record for page in read_pages(path, extract) for record in page]


def _portions(spans: Sequence[Span]) -> Iterator[Sequence[Span]]:
    portion: list[Span] = []
    size = 0
    for span in spans:
        portion.append(span)
        size += span.length
        if size > PAGE_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _check_header(path: Path, descriptor: int, extract: Extract) -> None:
    line, version = read_at(descriptor, 0, extract.header), extract.spans[0].version
    try:
        header = opened(line, Header)
    except Unfit as error:
        raise Damage(path, extract.session_id, version, f"line 1: {error}") from error
    if (header.session, header.edition) != (extract.session_id, extract.edition):
        told = f"it is the file of session {header.session!r}, edition {header.edition}"
        raise Damage(path, extract.session_id, version, told)


def _events(path: Path, descriptor: int, session_id: str, span: Span) -> Iterator[StoredRecord]:
    """The events of one span, each in its place."""
    version, due = span.version, span.events
    try:
        for line in _lines(descriptor, span):
            if line.startswith(CLOSING):
                opened(line, Closing)
                continue
            record = record_of(line, session_id)
            position = span.position + version - span.version
            _check_place(record, version, position)
            yield record
            version, due = version + 1, due - 1
    except Unfit as error:
        raise Damage(path, session_id, version, str(error)) from error
    if due:
        raise Damage(path, session_id, version, "it ends too early")


def _check_place(record: StoredRecord, version: int, position: int) -> None:
    if (record.version, record.position) != (version, position):
        raise Unfit(f"version {record.version} stands where {version} should be")


def _lines(descriptor: int, span: Span) -> Sequence[bytes]:
    content = read_at(descriptor, span.offset, span.length)
    if len(content) == span.length and not content.endswith(b"\n"):
        raise Unfit("a line does not end where it ended")
    return content.split(b"\n")[:-1]
