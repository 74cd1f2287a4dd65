"""Forks: sessions that begin as copies of others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from secrets import token_hex

from msgspec import Struct

from ..events.errors import (
    CheckpointNotFound,
    InvalidSessionId,
    SessionDeleted,
    SessionExists,
    SessionNotFound,
    StoreError,
    TurnstreamError,
    WrongExpectedVersion,
)
from ..events.identifiers import check_session_id
from ..events.terms import ForkOrigin
from ..projections import Folded, last_settled
from ..stores import EventStore, SessionRow
from .patching import NO_PATCH, Patch, beginning
from .recording import Known, append_after
from .snapshotting import read_fold
from .viewing import AtVersion, Point, stream, version_at


def fork(
    store: EventStore,
    session_id: str,
    at: Point | None = None,
    *,
    patch: Patch | None = None,
    name: str | None = None,
) -> str:
    """Begin a session that is a copy of another one up to a point, in one transaction; its id.

    Without a point it is the last one at which nothing was unfinished. Without a ``name`` it is
    ``<id>.fork-<n>``, the first that is free. Raises ``SessionNotFound``, ``CheckpointNotFound``,
    ``SessionExists``, ``InvalidSessionId``, and what ``beginning`` raises.
    """
    source = _source(store, session_id, at)
    known = Known(source.state, source.version, source.prev)
    origin, now = ForkOrigin(session_id, source.version), datetime.now(UTC)
    added, begun = beginning(source.state, origin, patch or NO_PATCH, now, token_hex(8))
    for target in [check_session_id(name)] if name is not None else _names(store, session_id):
        append, _ = append_after(known, target, added, begun, origin)
        try:
            store.append(append)
        except (WrongExpectedVersion, SessionDeleted) as error:
            if error.session_id != target:
                raise
            if name is not None:
                raise _taken(error, target) from None
        else:
            return target
    raise AssertionError("there is always another name")


def _source(store: EventStore, session_id: str, at: Point | None) -> Folded:
    """What the source is at the point."""
    match at:
        case AtVersion(version=version) if version > 0:
            folded = read_fold(store, session_id, version)
            if folded.version == version:
                return folded
    events = stream(store, session_id)
    if not events:
        raise _no_session(session_id)
    if at is not None:
        return read_fold(store, session_id, version_at(session_id, events, at))
    if not (settled := last_settled(events)):
        raise CheckpointNotFound(
            f"something is unfinished at every version of session {session_id!r}: name a step or "
            "a version",
            session_id=session_id,
        )
    return read_fold(store, session_id, settled)


def lineage(store: EventStore, session_id: str) -> Lineage:
    """The tree of forks that a session is part of. Raises ``SessionNotFound``."""
    row = store.session(session_id)
    if row is None:
        raise _no_session(session_id)
    while row.forked_from is not None:
        source = store.session(row.forked_from.session_id)
        if source is None:
            gone = row.forked_from.session_id
            return Lineage(gone, 0, _forks(store, gone), deleted=True)
        row = source
    return _descend(store, row)


class Lineage(Struct, frozen=True):
    """A session and its forks. ``version`` is the last one it shares with its source, 0 where it
    has none; ``deleted``: its stream is gone, which is no matter to its forks."""

    session_id: str
    version: int
    forks: tuple[Lineage, ...] = ()
    deleted: bool = False


def _descend(store: EventStore, row: SessionRow) -> Lineage:
    version = 0 if row.forked_from is None else row.forked_from.version
    return Lineage(row.session_id, version, _forks(store, row.session_id))


def _forks(store: EventStore, session_id: str) -> tuple[Lineage, ...]:
    forks = sorted(store.sessions(forked_from=session_id), key=lambda each: each.created)
    return tuple([_descend(store, each) for each in forks])


def _names(store: EventStore, session_id: str) -> Iterator[str]:
    """Names for a fork, from the first on that may be free."""
    taken = {row.session_id for row in store.sessions(forked_from=session_id)}
    for number in count(1):
        name = f"{session_id}.fork-{number}"
        if name in taken:
            continue
        try:
            yield check_session_id(name)
        except InvalidSessionId:
            raise InvalidSessionId(
                f"the id {session_id!r} is too long to make one for its fork: name it yourself",
                session_id=session_id,
            ) from None


def _taken(error: StoreError, name: str) -> TurnstreamError:
    return error if isinstance(error, SessionDeleted) else SessionExists(name)


def _no_session(session_id: str) -> SessionNotFound:
    return SessionNotFound(f"there is no session {session_id!r}", session_id=session_id)
