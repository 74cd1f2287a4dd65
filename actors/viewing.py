"""A session read as it is or was, without its actor."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from ..events.codec import CODEC
from ..events.errors import CheckpointNotFound, SessionNotFound
from ..events.session import AnyEvent, UnknownEvent
from ..projections import Checkpoint, View, checkpoints, fold, fold_usage, steps
from ..projections.snapshot import Folded
from ..stores import EventStore
from .commands import Rewind
from .snapshotting import read_fold


class AtVersion(Struct, frozen=True, gc=False):
    """Right after the event of this version."""

    version: int


class AtStep(Struct, frozen=True, gc=False):
    """When this step ended."""

    step: int


class AtTime(Struct, frozen=True, gc=False):
    """After what had happened by this time."""

    time: datetime


Point: TypeAlias = AtVersion | AtStep | AtTime


def point(version: int | None, step: int | None, time: datetime | None = None) -> Point | None:
    """The point that is given; None where none is. ``TypeError`` for several, ``ValueError`` for
    what is none."""
    given = [name for name, value in (("version", version), ("step", step), ("time", time))
             if value is not None]  # fmt: skip
    if len(given) > 1:
        raise TypeError(f"give one of version, step and time, not {' and '.join(given)}")
    for name, number in (("version", version), ("step", step)):
        if number is not None and type(number) is not int:
            raise TypeError(f"{name} is a whole number, not {type(number).__name__}")
    if time is not None and (not isinstance(time, datetime) or time.tzinfo is None):
        raise ValueError("a time is a datetime with a time zone; use UTC")
    if version is not None:
        return AtVersion(version)
    if step is not None:
        return AtStep(step)
    return None if time is None else AtTime(time)


def stream(store: EventStore, session_id: str) -> list[AnyEvent]:
    """All events of a session, in order."""
    with closing(store.replay(session_id)) as pages:
        return [event for page in pages for event in CODEC.replayed(page)]


def view(store: EventStore, session_id: str, at: Point | None = None) -> View:
    """The session at a point; as of now where none is given.

    Raises ``CheckpointNotFound``, and ``SessionNotFound`` where a point is asked for in a session
    that does not exist.
    """
    match at:
        case None:
            return _view(session_id, read_fold(store, session_id))
        case AtVersion(version=version) if version > 0:
            folded = read_fold(store, session_id, version)
            if folded.version == version:
                return _view(session_id, folded)
    events = stream(store, session_id)
    version = version_at(session_id, events, at)
    known = events[:version]
    return View(session_id, version, fold(known), fold_usage(known))


def _view(session_id: str, folded: Folded) -> View:
    return View(session_id, folded.version, folded.state, folded.usage)


def history(store: EventStore, session_id: str, limit: int | None) -> Sequence[Checkpoint]:
    """The session's checkpoints, newest first, at most so many; none for an unknown session."""
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, not {limit!r}")
    found = list(checkpoints(session_id, stream(store, session_id)))
    return list(islice(reversed(found), limit))


def rewinding(store: EventStore, session_id: str, at: Point, by: str) -> Rewind:
    """The command that goes back to a point. Raises as ``view``."""
    state = view(store, session_id, at).folded
    results = len(state.turn.results) if state.turn is not None else 0
    return Rewind(len(state.transcript) + results, len(state.edits), by)


def version_at(session_id: str, events: Sequence[AnyEvent], at: Point) -> int:
    """The version that a point of the stream is at. Raises as ``view``."""
    if not events:
        raise SessionNotFound(f"there is no session {session_id!r}", session_id=session_id)
    match at:
        case AtVersion(version=version) if 1 <= version <= len(events):
            return version
        case AtVersion(version=version):
            raise _not_found(session_id, f"versions 1 to {len(events)}, not {version}")
        case AtStep(step=step):
            ends = {each.step: each.version for each in steps(events)}
            if step in ends:
                return ends[step]
            kept = f"steps 0 to {max(ends)}" if ends else "no steps"
            raise _not_found(session_id, f"{kept}, not {step}")
        case AtTime(time=time):
            return _version_at_time(session_id, events, time)


def _version_at_time(session_id: str, events: Sequence[AnyEvent], time: datetime) -> int:
    found, counts, first = 0, False, ""
    for version, event in enumerate(events, 1):
        if not isinstance(event, UnknownEvent):  # one of those happened with the one before it
            counts = event.at <= time
            first = first or f" from {event.at.isoformat()} on"
        if counts:
            found = version
    if not found:
        raise _not_found(session_id, f"events{first}, none by {time.isoformat()}")
    return found


def _not_found(session_id: str, there: str) -> CheckpointNotFound:
    return CheckpointNotFound(f"session {session_id!r} has {there}", session_id=session_id)
