"""The one thing the rest of turnstream knows of storage.

A store keeps streams of encoded events, one stream a session, and beside each stream one row
for listing, written in the same transaction and rebuildable from the events. All safety is in
``append``: it is all or nothing, and it happens only if the stream is exactly at the expected
version.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from msgspec import Struct

from ..events.approvals import Approval
from ..events.envelope import EncodedEvent, Replay, StoredRecord
from ..events.errors import StoreError
from ..events.session import Status
from ..events.terms import ForkOrigin
from .read_models import ReadModelTables


class RowChange(Struct, frozen=True, gc=False):
    """What an append makes of the session's row; ``approvals`` are the decisions it waits for,
    ``head`` is the digest of the last event. Where a stream begins, ``created`` is when it did,
    if not ``at``, and ``forked_from`` where its first events come from, if they are ``copied`` or
    come along as a copy."""

    status: Status
    agent: str
    at: datetime
    tenant: str = ""
    approvals: tuple[Approval, ...] = ()
    head: str = ""
    created: datetime | None = None
    forked_from: ForkOrigin | None = None


class Append(Struct, frozen=True, gc=False):
    """Events for the end of one stream, which must be at ``expected_version`` (0: no stream).

    With ``copied`` there must be no stream, and ``expected_version`` is the origin's: the stream
    begins with the origin's events up to there, as they are stored, and the new ones follow."""

    session_id: str
    expected_version: int
    events: tuple[EncodedEvent, ...]
    row: RowChange
    copied: ForkOrigin | None = None


class Appended(Struct, frozen=True, gc=False):
    """The stream's version and the last event's position after an append."""

    version: int
    position: int


class SessionRow(Struct, frozen=True, gc=False):
    """A session in a listing. ``head`` is the digest of its last event, empty where it is not
    known; ``size`` the bytes of its payloads; ``forked_from`` where its first events were copied
    from."""

    session_id: str
    version: int
    status: Status
    agent: str
    tenant: str
    created: datetime
    updated: datetime
    approvals: tuple[Approval, ...] = ()
    head: str = ""
    size: int = 0
    forked_from: ForkOrigin | None = None


class Snapshot(NamedTuple):
    """The fold of a stream up to ``version``, as bytes; ``fold`` tells which code made it."""

    session_id: str
    version: int
    fold: int
    payload: bytes


class Snapshots(Protocol):
    """The snapshots of a store. Its methods raise what those of the store raise."""

    def latest(self, session_id: str, *, fold: int, upto: int | None = None) -> Snapshot | None:
        """The last snapshot of a stream, or the last at a version up to ``upto``, that this code
        made; None where there is none."""
        ...

    def keep(self, snapshot: Snapshot) -> bool:
        """Keep it in place of those that older code made; false where the stream does not reach
        so far, or is gone."""
        ...

    def drop(self, session_id: str) -> None:
        """Drop all snapshots of a session."""


class Subscription(Protocol):
    """The log of all events, read and then followed. Iterating blocks until an event comes and
    ends when the subscription is closed, from whatever thread."""

    def __iter__(self) -> Iterator[StoredRecord]: ...

    def __enter__(self) -> Subscription: ...

    def __exit__(self, *exc: object) -> None: ...

    def close(self) -> None:
        """End the iteration. May be called more than once."""


class EventStore(Protocol):
    """Where streams live. Every method may be called from any thread.

    Any method raises ``StoreClosed`` after ``close``, ``StoreBusy`` when another writer holds
    the store for too long, and ``StoreUnavailable`` when the medium fails.
    """

    @property
    def durable(self) -> bool:
        """Whether events outlive the process."""
        ...

    @property
    def snapshots(self) -> Snapshots:
        """Folds kept beside the streams, to save time."""
        ...

    def append(self, append: Append) -> Appended:
        """Append, or raise ``WrongExpectedVersion`` or ``SessionDeleted`` and change nothing.

        An append whose events already stand at these versions, byte for byte, is our own whose
        acknowledgement was lost: it succeeds again. Where events are ``copied`` and the origin is
        gone or not that long, it is the origin that the error names.
        """
        ...

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        """Append without waiting: ``done`` is called exactly once with what ``append`` would have
        returned or raised, on any thread, perhaps before ``submit`` returns. Submissions of
        several sessions may share a transaction. ``done`` must be quick and must not raise."""

    def read(
        self, session_id: str, *, after: int = 0, upto: int | None = None
    ) -> Sequence[StoredRecord]:
        """The stream's events with versions above ``after``, up to and including ``upto``, in
        order; empty for an unknown session."""
        ...

    def replay(self, session_id: str, *, after: int = 0) -> Generator[Replay, None, None]:
        """What ``read`` gives, in bulk and page by page, for a fold that has to be quick. It is
        read as it is used, and raises then; close it where it is not used up."""
        ...

    def read_all(self, *, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        """Events of all sessions with positions above ``after``, in order, at most ``limit``."""
        ...

    def subscribe(self, *, after: int = 0) -> Subscription:
        """Read all events with positions above ``after``, then follow."""
        ...

    def session(self, session_id: str) -> SessionRow | None:
        """The session's row; None where there is none or it was deleted."""
        ...

    def sessions(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        forked_from: str | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        """Rows that match every filter given, the last updated first."""
        ...

    def restore(self, row: SessionRow) -> bool:
        """Put a row that was made from the stream beside it, in place of any other, if the stream
        ends at ``row.version``; whether it does. A deleted session stays deleted."""
        ...

    def delete(self, session_id: str, *, expected_version: int | None = None) -> int:
        """Delete the stream and its row and leave a tombstone, so that no late writer revives the
        id. Returns how many events went; 0 for an unknown session.

        Raises ``WrongExpectedVersion``, and changes nothing, where the stream is not at
        ``expected_version``.
        """
        ...

    @property
    def read_models(self) -> ReadModelTables:
        """The tables of read models, kept beside the streams."""
        ...

    def erase(self, append: Append, payloads: Mapping[int, EncodedEvent]) -> Appended:
        """Append, and in the same transaction put these events in the place of those that stand
        at their versions, in such a way that no trace of those is left once the store has been
        compacted. Snapshots of the session go.

        Raises what ``append`` raises, and ``ValueError`` where nothing stands at a version; then
        nothing was changed. The same erasure again succeeds again.
        """
        ...

    def stream_ids(self, *, after: str = "", limit: int = 1000) -> Sequence[str]:
        """The ids of all streams that have events, from the first above ``after`` on, in the
        order of their code points; at most ``limit``. Read from the events alone."""
        ...

    def check(self) -> Sequence[str]:
        """What is wrong with the medium itself, in words; empty where nothing is. What streams
        hold is not looked at."""
        ...

    def compact(self) -> int:
        """Give back the space of what was deleted and erased; how many bytes. Streams, positions
        and rows stay as they are; appends wait meanwhile.

        Raises ``StoreBusy`` where others are at work for too long, and ``StoreUnavailable`` where
        the medium has no room for the copy. Interrupted at any moment, it has done nothing."""
        ...

    def next_generation(self) -> int:
        """A number higher than any drawn from this store before, for a node that starts."""
        ...

    def close(self) -> None:
        """Finish what was submitted and release everything. May be called more than once."""
