"""Old sessions removed: which may go, and that none goes that went on meanwhile.

A session is judged by its stream and not by the row beside it, and is deleted only at the version
that was judged. It works on the store alone: no agent is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from ..events.errors import CorruptEvent, SessionDeleted, WrongExpectedVersion
from ..stores import EventStore, SessionRow
from .descent import descendants, parent_of
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
    "child",
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
    unfinished: no open turn, no waiting input, no open question. The sessions of sub-agents stay
    and go with those that they work for. ``dry_run`` only counts. ``watch`` is called after each
    session. Raises the store's errors."""
    went, kept, children = list[SessionRow](), Counter[Kept](), set[str]()
    for row in _rows(store):
        if _works_for_another(store, row):
            children.add(row.session_id)
        else:
            family, why = _judged(store, row, before)
            if why is None and not dry_run:
                why = _delete(store, family)
            if why is None:
                went += family
            else:
                kept[why] += 1
        if watch is not None:
            watch()
    if staying := children - {row.session_id for row in went}:
        kept["child"] = len(staying)
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


def _works_for_another(store: EventStore, row: SessionRow) -> bool:
    parent = parent_of(store, row.session_id)
    return parent is not None and store.session(parent.session_id) is not None


def _judged(
    store: EventStore, row: SessionRow, before: datetime
) -> tuple[list[SessionRow], Kept | None]:
    """The sessions that go with one, itself the first, and why they are kept, if they are: one of
    a sub-agent's whose call is over may have failed, but somebody may have gone on in it."""
    if why := _reason_to_keep(store, row, before):
        return [row], why
    found = [store.session(each) for each in descendants(store, row.session_id)]
    children = [each for each in found if each is not None]
    for each in children:
        if each.updated >= before:
            return [row], "recent"
        if each.status in ("running", "awaiting-approval"):
            return [row], each.status
    return [row, *reversed(children)], None


def _delete(store: EventStore, family: Sequence[SessionRow]) -> Kept | None:
    """Delete them, those that work for others after these: what is left where that is cut short
    works for nobody, and is judged by itself the next time."""
    first, *children = family
    try:
        store.delete(first.session_id, expected_version=first.version)
    except (WrongExpectedVersion, SessionDeleted):
        return "moved"
    for row in children:
        with suppress(WrongExpectedVersion, SessionDeleted):
            store.delete(row.session_id, expected_version=row.version)
    return None
