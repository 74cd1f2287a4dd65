"""The rows beside the streams, made anew from the events.

Sessions and approvals are listed from rows that are written with every append. So they never lag
behind; but a row that was lost, or changed from outside, stays so until the events are asked. A
stream without a row is in no listing, and takes no append.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from ..events.approvals import dump_approvals
from ..events.chain import link
from ..events.codec import CODEC
from ..events.errors import CorruptEvent
from ..events.session import AnyEvent, SessionStarted, UnknownEvent
from ..events.terms import ForkOrigin
from ..projections import INITIAL, SessionState, fold
from ..stores import EventStore, SessionRow
from .projecting import Progress
from .recording import row_after

NAME = "turnstream/rows"
"""The table that says how far an interrupted run came. It has no live one."""

FOLD = 1
PAGE = 100
MAX_CONFLICTS = 20
_SO_FAR = "so far"


class Restored(Struct, frozen=True):
    """What became of the rows: how many streams were read, up to the session ``after``, and how
    many of their rows differed from the events; and how many streams can't be read."""

    sessions: int = 0
    events: int = 0
    differed: int = 0
    unreadable: int = 0
    after: str = ""


def restore_rows(
    store: EventStore,
    progress: Progress = lambda done, end: None,
    complain: Callable[[CorruptEvent], object] = lambda error: None,
) -> Restored:
    """Make every row anew, and put right those that differ. Live sessions go on meanwhile.

    ``progress`` is told how many streams were read, and of how many. ``complain`` is told of each
    stream that can't be read; its row stays as it is. A run that was interrupted is gone on with.
    Raises the store's errors.
    """
    tables = store.read_models
    table = tables.begin(NAME, FOLD, live=False)
    stored = tables.get(table.generation, _SO_FAR)
    so_far = Restored() if stored is None else decode(stored, type=Restored)
    end = so_far.sessions + sum(map(len, _pages(store, so_far)))
    for page in _pages(store, so_far):
        for session_id in page:
            so_far = _added(so_far, _restore(store, session_id, complain))
        table = tables.advance(table, {_SO_FAR: encode(so_far)}, so_far.sessions)
        progress(so_far.sessions, max(end, so_far.sessions))
    tables.drop(table)
    return so_far


def row_of(store: EventStore, session_id: str) -> SessionRow | None:
    """The row that a session's events make, beside the one it has; None where it has no events.

    Raises ``CorruptEvent``, and the store's errors.
    """
    making = _Making(session_id)
    with closing(store.replay(session_id)) as pages:
        for page in pages:
            making.read(CODEC.replayed(page))
            making.version = page.version
            making.head = link(page.topics[-1], page.version, page.payloads[-1])
            making.size += sum(map(len, page.payloads))
    return making.row(store.session(session_id))


class _Making:
    """A row in the making."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._state: SessionState = INITIAL
        self._created: datetime | None = None
        self._updated: datetime | None = None
        self._origin: ForkOrigin | None = None
        self.version = self.size = 0
        self.head = ""

    def read(self, events: Sequence[AnyEvent]) -> None:
        for event in events:
            if isinstance(event, UnknownEvent):
                continue
            self._updated = event.at
            if self._created is None:
                self._created = event.at
            if isinstance(event, SessionStarted) and event.forked_from is not None:
                # What stands before it happened in another session.
                self._created, self._origin = event.at, event.forked_from
        self._state = fold(events, self._state)

    def row(self, found: SessionRow | None) -> SessionRow | None:
        if self._created is None or self._updated is None:
            return found
        if self._state.unfolded and found is not None and found.version == self.version:
            # Who wrote what this version does not know wrote the row too, and knows better.
            return found
        change = row_after(self._state, self._session_id, self._updated, self.head)
        return SessionRow(
            self._session_id,
            self.version,
            change.status,
            change.agent,
            change.tenant,
            self._created,
            self._updated,
            change.approvals,
            change.head,
            self.size,
            self._origin,
        )


def _pages(store: EventStore, so_far: Restored) -> Iterator[Sequence[str]]:
    after = so_far.after
    while page := store.stream_ids(after=after, limit=PAGE):
        yield page
        after = page[-1]


def _added(so_far: Restored, one: Restored) -> Restored:
    return Restored(
        so_far.sessions + one.sessions,
        so_far.events + one.events,
        so_far.differed + one.differed,
        so_far.unreadable + one.unreadable,
        one.after,
    )


def _restore(
    store: EventStore, session_id: str, complain: Callable[[CorruptEvent], object]
) -> Restored:
    """What became of one row."""
    looked = Restored(1, after=session_id)
    for _ in range(MAX_CONFLICTS):
        try:
            row = row_of(store, session_id)
        except CorruptEvent as error:
            complain(error)
            return replace(looked, unreadable=1)
        looked = replace(looked, events=0 if row is None else row.version)
        if row is None or _says(row) == _says(store.session(session_id)):
            break
        if store.restore(row):
            return replace(looked, differed=1)
    return looked


def _says(row: SessionRow | None) -> object:
    """What is compared: numbers that are no numbers differ from themselves, their text does not."""
    return row and (replace(row, approvals=()), dump_approvals(row.approvals))
