"""Old sessions removed: which may go, and that none goes that went on meanwhile.

A session is judged by its stream and not by the row beside it, and is deleted only at the version
that was judged. It works on the store alone: no agent is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from ..events.errors import CorruptEvent, SessionDeleted, WrongExpectedVersion
from ..stores import EventStore, SessionRow
from .recording import Known, read_on

Kept: TypeAlias = Literal[
    "recent",
    "running",
    "failed",
    "aborted",
    "awaiting-approval",
    "read-only",
    "unreadable",
    "moved",
]
PAGE = 500


class Pruned(Struct, frozen=True):
    """What was removed, or would be: how many ``sessions``, ``events`` and ``bytes`` of payload,
    and the sessions' ``ids``. ``kept`` counts the others by why they were kept."""

    sessions: int
    events: int
    bytes: int
    ids: tuple[str, ...]
    kept: Mapping[Kept, int]


def prune(
    store: EventStore,
    before: datetime,
    *,
    dry_run: bool = False,
    watch: Callable[[], object] | None = None,
) -> Pruned:
    """Delete the sessions whose last event is older than ``before`` and in which nothing is
    unfinished: no open turn, no waiting input, no open question. ``dry_run`` only counts.
    ``watch`` is called after each session. Raises the store's errors."""
    went, kept = list[SessionRow](), Counter[Kept]()
    for row in _rows(store):
        why = _reason_to_keep(store, row, before)
        if why is None and not dry_run:
            why = _delete(store, row)
        if why is None:
            went.append(row)
        else:
            kept[why] += 1
        if watch is not None:
            watch()
    return Pruned(
        len(went),
        sum(row.version for row in went),
        sum(row.size for row in went),
        tuple(row.session_id for row in went),
        dict(kept),
    )


def _rows(store: EventStore) -> Iterator[SessionRow]:
    last = ""
    while page := store.stream_ids(after=last, limit=PAGE):
        for last in page:
            if (row := store.session(last)) is not None:
                yield row


def _reason_to_keep(store: EventStore, row: SessionRow, before: datetime) -> Kept | None:
    if row.updated >= before:
        return "recent"
    if row.status != "idle":
        return row.status
    try:
        known = read_on(store, row.session_id, Known())
    except CorruptEvent:
        return "unreadable"
    if known.version != row.version:
        return "moved"
    if known.state.unfolded:
        return "read-only"
    return None if known.state.status == "idle" else known.state.status


def _delete(store: EventStore, row: SessionRow) -> Kept | None:
    try:
        store.delete(row.session_id, expected_version=row.version)
    except (WrongExpectedVersion, SessionDeleted):
        return "moved"
    return None
