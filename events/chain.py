"""The chain of a stream: each event carries the digest of the one before it.

Whoever alters, removes, swaps or repeats a stored event breaks a link. The last event has no
successor to vouch for it: give ``verify`` its digest, where it is known from elsewhere.

An event whose content was erased keeps the digest it had before, and counts with it. That it was
erased and not altered is for a ``ContentErased`` to say: see ``erasing``.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from .envelope import StoredRecord


class Fault(NamedTuple):
    """The first event at fault in a stream, and what is wrong with it."""

    version: int
    reason: str


class _Link(Struct):
    prev: str = ""
    erased: str = ""


class _Seen(NamedTuple):
    record: StoredRecord
    prev: str
    digest: str


_decode_link = Decoder(_Link).decode


def digest(topic: str, version: int, payload: bytes) -> str:
    """SHA-256 of an event as it is stored, in unpadded base64url (43 characters). Length and
    version come first, so no two different events are hashed as the same bytes."""
    name = topic.encode("utf-8", "surrogatepass")
    hashed = sha256(b"%d %d %b " % (version, len(name), name))
    hashed.update(payload)
    return urlsafe_b64encode(hashed.digest())[:43].decode()


def link(topic: str, version: int, payload: bytes) -> str:
    """The digest that the next event carries: that of the event as it is stored, or, if its
    content was erased, the one that it had before."""
    try:
        erased = _read_link(payload).erased
    except (ValueError, TypeError, RecursionError):
        erased = ""
    return erased or digest(topic, version, payload)


def verify(records: Iterable[StoredRecord], head: str = "") -> Fault | None:
    """Walk one stream from its start; the first fault in it, or None if the chain holds.

    ``head`` is the digest of the stream's last event, where it is known: without it, a change
    to the last event and a missing tail go unnoticed. Nothing but the digests is decoded.
    """
    rest = iter(records)
    last: _Seen | None = None
    for expected, record in enumerate(rest, 1):
        if record.version != expected:
            return _misplaced(expected, record, rest)
        seen = _see(record)
        if seen is None:
            return Fault(expected, "altered: it is no JSON object any more")
        if seen.prev != (last.digest if last else ""):
            return _broken(last, seen, rest, head)
        last = seen
    return _checked_head(last, head)


def _see(record: StoredRecord) -> _Seen | None:
    try:
        found = _read_link(record.payload)
        now = found.erased or digest(record.topic, record.version, record.payload)
        return _Seen(record, found.prev, now)
    except (ValueError, TypeError, RecursionError):
        return None


def _read_link(payload: bytes) -> _Link:
    """msgspec refuses halves of surrogate pairs even where it only skips them; json does not."""
    try:
        return _decode_link(payload)
    except MsgspecError:
        found = json.loads(payload)
    match found:
        case dict():
            named = _Link(found.get("prev", ""), found.get("erased", ""))
            if isinstance(named.prev, str) and isinstance(named.erased, str):
                return named
    raise ValueError("no JSON object with digests")


def _misplaced(expected: int, found: StoredRecord, rest: Iterator[StoredRecord]) -> Fault:
    if found.version < expected:
        return Fault(found.version, "duplicated: its version occurs twice")
    if any(record.version == expected for record in rest):
        return Fault(expected, f"swapped: version {found.version} stands in its place")
    return Fault(expected, f"missing: version {found.version} follows version {expected - 1}")


def _broken(last: _Seen | None, seen: _Seen, rest: Iterator[StoredRecord], head: str) -> Fault:
    """Of two neighbours that do not fit, the later one is to blame if it does not fit what comes
    after it either."""
    version = seen.record.version
    expected = last.digest if last else ""
    later = [_see(record) for record in rest]
    for other in later:
        if other and other.prev == expected:
            return Fault(version, f"displaced: version {other.record.version} belongs in its place")
    if last is None:
        return Fault(version, "altered, or the events before it are missing")
    if seen.prev == last.prev:
        return Fault(version, f"duplicated: it is version {version - 1} once more")
    successor = head if not later else later[0].prev if later[0] else ""
    if successor and successor != seen.digest:
        return Fault(version, f"altered: it follows another event than version {version - 1}")
    return Fault(version - 1, f"altered, or an event between it and version {version} is missing")


def _checked_head(last: _Seen | None, head: str) -> Fault | None:
    if not head or (last and last.digest == head):
        return None
    if last is None:
        return Fault(1, "missing: the stream is empty")
    return Fault(last.record.version, "altered, or events after it are missing")
