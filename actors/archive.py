r"""Streams as a file: JSON lines that any tool can read, and that come back byte for byte.

A session is a header, a line for each event, and a last line:

    {"turnstream_events":1,"session_id":"s","events":2,"head":"…","number":1,"of":1,"digest":"…"}
    {"version":1,"topic":"session_started","digest":"…","payload":{"at":"…","agent":"a"}}
    {"version":2,"topic":"state_changed","digest":"…","payload":{"at":"…","prev":"…"}}
    {"end":2,"head":"…","digest":"…"}

A payload stands there as it is stored; one that would not be one line of JSON stands in base64. The
digests of events are those of the chain, and the header holds the last of them, so each line
vouches for itself and all lines for each other. A line has one way to be written: when it is read
it is written again, and has to be the same.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..events.chain import digest, verify
from ..events.envelope import StoredRecord
from ..events.errors import DamagedFile
from ..events.json_lines import payload_member, payload_of

BEGINNING = b'{"turnstream_events":'

_FORMAT = 1
_EVENT = re.compile(
    rb'\{"version":(\d{1,18}),"topic":("(?:[^"\\]|\\.)*"),"digest":"([\w-]{43})",'
    rb'"(payload|payload_base64)":(.*)\}\n?',
    re.DOTALL,
)


class Archive(NamedTuple):
    """A session that was read: its stream, the digest of its last event, and the line it begins
    in. It is the ``number``-th of the ``of`` in its file."""

    line: int
    session_id: str
    records: Sequence[StoredRecord]
    head: str
    number: int = 1
    of: int = 1


def archive_lines(archive: Archive) -> Iterator[bytes]:
    """The lines of a session, each with its line break."""
    session_id, records, head = archive.session_id, archive.records, archive.head
    yield _sealed(
        {
            "turnstream_events": _FORMAT,
            "session_id": session_id,
            "events": len(records),
            "head": head,
            "number": archive.number,
            "of": archive.of,
        }
    )
    for record in records:
        yield _event_line(record.version, record.topic, record.payload)
    yield _sealed({"end": len(records), "head": head})


def read_archives(lines: Iterable[bytes]) -> Iterator[Archive]:
    """The sessions of a file, each when all of it was checked. Raises ``DamagedFile``, which names
    the first line that is not as it was written."""
    source = _Lines(lines)
    number = of = 0
    while (text := source.next()) is not None:
        header = _header(source.number, text)
        number += 1
        of = of or header["of"]
        if (header["number"], header["of"]) != (number, of):
            raise source.damaged(
                f"here begins session {header['number']} of {header['of']}, where "
                f"{number} of {of} should be"
            )
        archive = _read_session(header, source)
        if number == of and source.next() is not None:
            raise source.damaged("the file goes on after its last session")
        yield archive
    if number < of or not number:
        source.number += 1
        raise source.damaged(f"the file ends after {number} of its {of} sessions")


class _Lines:
    """The lines of a file, counted."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines, self.number = iter(lines), 0

    def next(self) -> bytes | None:
        """The next one; None at the end."""
        if (text := next(self._lines, None)) is not None:
            self.number += 1
        return text

    def due(self) -> bytes:
        """The next one, which must be there."""
        if (text := self.next()) is None:
            self.number += 1
            raise self.damaged("the file ends in the middle of a session")
        return text

    def damaged(self, what: str) -> DamagedFile:
        """That the last one read is at fault."""
        return DamagedFile(what, line=self.number)


def _read_session(header: dict[str, Any], source: _Lines) -> Archive:
    session_id, head, begun = header["session_id"], header["head"], source.number
    records: list[StoredRecord] = []
    for version in range(1, header["events"] + 1):
        text = source.due()
        records.append(_record(source.number, text, session_id, version))
    if _unbroken(source.due()) != _unbroken(_sealed({"end": len(records), "head": head})):
        raise source.damaged("this is not the last line of its session")
    if verify(records, head):
        fitting = range(1, len(records))
        first = 1 + bisect(fitting, 0, key=lambda length: bool(verify(records[:length])))
        raise DamagedFile("this event does not follow the one before it", line=begun + first)
    return Archive(begun, session_id, records, head, header["number"], header["of"])


def _unbroken(line: bytes) -> bytes:
    return line.removesuffix(b"\n")


_KINDS: dict[str, type] = {
    "turnstream_events": int,
    "session_id": str,
    "events": int,
    "head": str,
    "number": int,
    "of": int,
}


def _header(line: int, text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    fields = found if isinstance(found, dict) else {}
    fields.pop("digest", None)
    if {name: type(value) for name, value in fields.items()} != _KINDS:
        raise DamagedFile("this is not the first line of an exported session", line=line)
    if _unbroken(_sealed(fields)) != _unbroken(text):
        raise DamagedFile("this line is not as it was written", line=line)
    if fields["turnstream_events"] != _FORMAT:
        raise DamagedFile("a newer turnstream wrote this file: upgrade to read it", line=line)
    if fields["events"] < 1:
        raise DamagedFile("this session has no events", line=line)
    return fields


def _record(line: int, text: bytes, session_id: str, expected: int) -> StoredRecord:
    if (found := _EVENT.fullmatch(text)) is None:
        raise DamagedFile("this is no line of an event", line=line)
    version = int(found[1])
    if version != expected:
        raise DamagedFile(f"version {version} stands where {expected} should be", line=line)
    try:
        record = _parsed(found, session_id, version)
    except ValueError:
        record = None
    if record is None or _unbroken(_event_line(version, *record[3:])) != _unbroken(text):
        raise DamagedFile("this event is not as it was written", line=line)
    return record


def _parsed(found: re.Match[bytes], session_id: str, version: int) -> StoredRecord:
    payload = payload_of(found[5], encoded=found[4] == b"payload_base64")
    return StoredRecord(0, session_id, version, json.loads(found[2]), payload)


def _event_line(version: int, topic: str, payload: bytes) -> bytes:
    hashed, shown = digest(topic, version, payload), b"".join(payload_member(payload))
    name = json.dumps(topic).encode()
    return b'{"version":%d,"topic":%b,"digest":"%b",%b}\n' % (version, name, hashed.encode(), shown)


def _sealed(fields: dict[str, Any]) -> bytes:
    """A line of these fields, with its own digest."""
    text = json.dumps(fields, separators=(",", ":")).encode()
    return b'%b,"digest":"%b"}\n' % (text[:-1], digest("", 0, text).encode())
