r"""The lines of a session's file.

    {"turnstream_session":1,"session":"s","edition":1,"sum":"…"}
    {"version":1,"position":7,"topic":"session_started","payload":{"at":"…"},"sum":"…"}
    {"version":2,"position":8,"topic":"input_queued","payload":{"at":"…"},"sum":"…"}
    {"events":2,"row":{"version":2,"status":"running",…},"sum":"…"}

What was appended together is a *unit*: its events, and a last line that says how many they are
and what they make of the row. A unit whose last line is missing was never appended. The *edition*
is one higher each time the file was written anew, for an erasure. Of a deleted session one line
is left: ``{"deleted":"…","position":8,"sum":"…"}``, with the end of the log at that time.

The *sum* of a line is the beginning of the SHA-256 of what stands before ``,"sum"``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain
from typing import TypeVar

from msgspec import MsgspecError, Struct
from msgspec.json import decode, encode

from ...events.approvals import dump_approvals, load_approvals
from ...events.envelope import EncodedEvent, StoredRecord
from ...events.json_lines import payload_member, payload_of
from ...events.session import Status
from ...events.terms import ForkOrigin
from ..port import SessionRow

FORMAT = 1
EVENT = b'{"version":'
CLOSING = b'{"events":'
TOMBSTONE = b'{"deleted":'

_SUM = b',"sum":"'
_TAIL = len(_SUM) + 16 + len(b'"}')
_HEAD = re.compile(
    rb'\{"version":(\d{1,18}),"position":(\d{1,18}),"topic":("(?:[^"\\]|\\.)*"),'
    rb'"payload(_base64)?":'
)

L = TypeVar("L")


class Unfit(Exception):
    """A line is not as it was written. The text says what is wrong with it."""


class Header(Struct, frozen=True, gc=False):
    """The first line: whose file it is."""

    turnstream_session: int
    session: str
    edition: int


class RowLine(Struct, frozen=True, gc=False, omit_defaults=True):
    """A session's row as it stands in a line."""

    version: int
    status: Status
    agent: str
    created: datetime
    updated: datetime
    tenant: str = ""
    approvals: str = ""
    head: str = ""
    size: int = 0
    parent: str | None = None
    shared: int = 0


class Closing(Struct, frozen=True, gc=False):
    """The last line of a unit."""

    events: int
    row: RowLine


class Tombstone(Struct, frozen=True, gc=False):
    """All that is left of a deleted session."""

    deleted: datetime
    position: int


def sealed(line: Struct) -> bytes:
    """A line of these fields, with its sum and its line break."""
    return b"".join(_seal(encode(line)[:-1]))


def opened(text: bytes, kind: type[L]) -> L:
    """The fields of a line. Raises ``Unfit``."""
    body = _checked(text) + b"}"
    try:
        return decode(body, type=kind)
    except (MsgspecError, UnicodeError, RecursionError) as error:
        raise Unfit(f"this is no line of a {kind.__name__.lower()}") from error


def hashed(*pieces: bytes | memoryview) -> str:
    """SHA-256 of the pieces together, in hex. They are not put together for it: they may be
    large."""
    whole = sha256()
    for piece in pieces:
        whole.update(piece)
    return whole.hexdigest()


def event_line(version: int, position: int, event: EncodedEvent) -> Sequence[bytes]:
    """The line of an event, in pieces: a large payload is not copied."""
    topic, payload = event
    places = b'{"version":%d,"position":%d,"topic":' % (version, position)
    return _seal(places, json.dumps(topic).encode(), b",", *payload_member(payload))


def record_of(text: bytes, session_id: str) -> StoredRecord:
    """The event that stands in a line. Raises ``Unfit``."""
    body = _checked(text)
    if (found := _HEAD.match(body)) is None:
        raise Unfit("this is no line of an event")
    try:
        payload = payload_of(body[found.end() :], encoded=found[4] is not None)
        topic = str(json.loads(found[3]))
    except ValueError as error:
        raise Unfit("this is no line of an event") from error
    return StoredRecord(int(found[2]), session_id, int(found[1]), topic, payload)


def unit_lines(first: int, position: int, events: Iterable[EncodedEvent], row: SessionRow) -> bytes:
    """The lines of a unit whose first event has this version and this position."""
    lines = [event_line(first + n, position + n, event) for n, event in enumerate(events)]
    closing = sealed(Closing(len(lines), row_line(row)))
    return b"".join([*chain.from_iterable(lines), closing])


def row_line(row: SessionRow) -> RowLine:
    """A row, to be written."""
    origin = row.forked_from
    return RowLine(
        row.version,
        row.status,
        row.agent,
        row.created.astimezone(UTC),
        row.updated.astimezone(UTC),
        row.tenant,
        dump_approvals(row.approvals),
        row.head,
        row.size,
        None if origin is None else origin.session_id,
        0 if origin is None else origin.version,
    )


def row_of(session_id: str, line: RowLine) -> SessionRow:
    """A row, read."""
    return SessionRow(
        session_id,
        line.version,
        line.status,
        line.agent,
        line.tenant,
        line.created,
        line.updated,
        load_approvals(line.approvals),
        line.head,
        line.size,
        None if line.parent is None else ForkOrigin(line.parent, line.shared),
    )


def _seal(*body: bytes) -> Sequence[bytes]:
    return *body, _SUM, _sum(*body), b'"}\n'


def _checked(text: bytes) -> bytes:
    """What a line says, without its sum, which was found right."""
    line = text.removesuffix(b"\n")
    body, tail = line[:-_TAIL], line[-_TAIL:]
    if tail != b'%b%b"}' % (_SUM, _sum(body)):
        raise Unfit("this line is not as it was written")
    return body


def _sum(*body: bytes) -> bytes:
    return hashed(*body)[:16].encode()
