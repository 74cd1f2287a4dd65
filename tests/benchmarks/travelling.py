"""Going back in a long session: a fork of it, and what it was at a version."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

from rebuilding import EVENTS, build
from rounds import Cost, Row, alternate, cost, ratios, spread
from workload import address, agent

from turnstream.actors import ActorSystem
from turnstream.events.codec import CODEC
from turnstream.projections import FOLD, INITIAL, SessionState, fold
from turnstream.stores import EventStore, open_store

_COPY = (
    "INSERT INTO stored_events (originator_id, originator_version, topic, state) "
    "SELECT ?, originator_version, topic, state FROM stored_events WHERE originator_id = 's' "
    "AND originator_version <= ?"
)


def travel(rounds: int) -> Sequence[Row]:
    """A fork of a session of 10,000 events against the bare copy of its rows, and the session at
    versions all over it, with its snapshots and folded from the start."""
    with tempfile.TemporaryDirectory(prefix="turnstream-") as directory:
        path, number = Path(directory), count()
        events = build(path, EVENTS)
        with (
            closing(open_store(address(path, "normal"))) as store,
            ActorSystem(agent(), store=store) as system,
        ):
            session = system.session("s")
            versions = range(events // 10, events + 1, events // 10)
            forks, bare, views, folds = alternate(
                rounds,
                lambda: cost(lambda: session.fork(version=events)),
                partial(_copy, path / "benchmark.db", number, events),
                lambda: cost(lambda: [session.at(version=each) for each in versions]),
                lambda: cost(lambda: [_from_the_start(store, each) for each in versions]),
            )
            assert store.snapshots.latest("s", fold=FOLD) is not None
            assert _from_the_start(store, events) == session.at(version=events).folded
    return [
        Row(f"fork of {events:,} events", _millis(forks), "under 100 ms"),
        Row("fork against the bare copy of the rows, time", spread(ratios(forks, bare))),
        Row(f"session of {events:,} events at a version", _millis(views, 10), "under 50 ms"),
        Row("the same against folding from the start, time", spread(ratios(views, folds))),
    ]


def _copy(path: Path, number: count[int], events: int) -> Cost:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = NORMAL")

        def copy() -> None:
            connection.execute(_COPY, (f"bare-{next(number)}", events))
            connection.commit()

        return cost(copy)


def _from_the_start(store: EventStore, version: int) -> SessionState:
    """The session at a version, with none of its snapshots."""
    state = INITIAL
    with closing(store.replay("s")) as pages:
        for page in pages:
            state = fold(CODEC.replayed(page)[: max(version - page.after, 0)], state)
    return state


def _millis(costs: Sequence[Cost], pieces: int = 1) -> str:
    return spread([each.wall * 1000 / pieces for each in costs], 1, " ms")
