"""Snapshots taken and used.

They save time and decide nothing: one that is missing, of another fold or damaged is as good as
none, and a store that fails to keep one has failed nobody.
"""

from __future__ import annotations

import logging
from contextlib import closing

from ..events.chain import link
from ..events.codec import CODEC
from ..events.errors import StoreError
from ..events.session import ContentErased
from ..projections import INITIAL, SessionUsage, fold, fold_usage
from ..projections.snapshot import FOLD, Folded, dump_snapshot, load_snapshot
from ..stores import EventStore, Snapshot
from .logging_context import about

log: logging.Logger = logging.getLogger("turnstream")

SHORTEST = 1000
"""A stream shorter than this is folded as quickly as a snapshot is read."""
_NOTHING = Folded(0, "", INITIAL, SessionUsage())


def latest_fold(store: EventStore, session_id: str, upto: int | None = None) -> Folded | None:
    """The last fold of a stream that was kept, up to a version; None where there is none."""
    kept = store.snapshots.latest(session_id, fold=FOLD, upto=upto)
    if kept is None:
        return None
    folded = load_snapshot(kept.payload)
    return folded if folded is not None and folded.version == kept.version else None


def read_fold(store: EventStore, session_id: str, upto: int | None = None) -> Folded:
    """What a stream says, up to a version or by now. Raises as ``read_on``."""
    return _read_on(store, session_id, upto, latest_fold(store, session_id, upto) or _NOTHING)


def _read_on(store: EventStore, session_id: str, upto: int | None, folded: Folded) -> Folded:
    begun = folded.version
    with closing(store.replay(session_id, after=begun)) as pages:
        for page in pages:
            events = CODEC.replayed(page)
            if begun and any(isinstance(each, ContentErased) for each in events):
                return _read_on(store, session_id, upto, _NOTHING)
            if upto is not None and page.version >= upto:
                events = events[: upto - page.after]
            if events:
                folded = Folded(
                    page.after + len(events),
                    link(
                        page.topics[len(events) - 1],
                        page.after + len(events),
                        page.payloads[len(events) - 1],
                    ),
                    fold(events, folded.state),
                    fold_usage(events, folded.usage),
                )
            if upto is not None and folded.version >= upto:
                break
    return folded


def next_due(begun: int) -> int:
    """The version at which the next snapshot is taken, where the last is of version ``begun``."""
    return max(2 * begun, SHORTEST)


def take_snapshot(store: EventStore, session_id: str) -> None:
    """Keep the fold of a stream as it is now."""
    try:
        folded = read_fold(store, session_id)
        payload = dump_snapshot(folded)
        if payload is not None:
            store.snapshots.keep(Snapshot(session_id, folded.version, FOLD, payload))
    except StoreError as error:
        extra = about(session_id)
        log.warning("no snapshot of session %r was kept: %s", session_id, error.code, extra=extra)
