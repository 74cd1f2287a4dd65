"""Read models to try projectors with, and logs for them."""

from __future__ import annotations

import sys
from typing import Any

from msgspec import Struct

from turnstream.actors import Projector
from turnstream.events import RecordedEvent
from turnstream.projections import Rows
from turnstream.stores import EventStore, open_store
from turnstream.stores.specimens import append_of


class Count(Struct, frozen=True):
    """How many events of a session were seen, and the version of the last."""

    events: int
    version: int


class Tally:
    """Counts the events of each session."""

    row: Any = Count

    def __init__(self, name: str = "tally", fold: int = 1, *, step: int = 1) -> None:
        self.name, self.fold, self.step = name, fold, step

    def apply(self, event: RecordedEvent, rows: Rows[Count]) -> None:
        before = rows.get(event.session_id) or Count(0, 0)
        rows.put(event.session_id, Count(before.events + self.step, event.version))


class Fragile(Tally):
    """Raises on an event, after it has changed rows."""

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version = version

    def apply(self, event: RecordedEvent, rows: Rows[Count]) -> None:
        super().apply(event, rows)
        if event.version == self.version:
            raise LookupError(event.session_id)


def fill(store: EventStore, events: int, *, sessions: int = 3, texts: str = "x") -> None:
    """Append so many events, to one session after the other."""
    for n in range(events):
        sid = f"s{n % sessions}"
        row = store.session(sid)
        store.append(append_of(sid, row.version if row else 0, texts))


def tallied(store: EventStore, step: int = 1) -> list[tuple[str, Count]]:
    """What the rows of a ``Tally`` are to be."""
    counts = [(sid, len(store.read(sid))) for sid in store.stream_ids()]
    return [(sid, Count(count * step, count)) for sid, count in counts]


def main(url: str, work: str) -> None:
    """A process that keeps a tally, and says how far it is after each batch."""
    store = open_store(url)

    def tell(position: int, end: int) -> None:
        print(position, flush=True)

    match work:
        case "rebuild":
            Projector(store, Tally(), batch=5).rebuild(tell)
        case "catch-up":
            projector = Projector(store, Tally(), batch=60)
            while True:
                projector.catch_up(tell)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
