"""From a stream to a session: reading, decoding and folding it, and the first model call."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rounds import Cost, Row, alternate, cost, in_directory, ratios, spread
from workload import ANSWER, address, agent, run_turns

from turnstream.actors import ActorSystem, ModelRequest
from turnstream.events.codec import CODEC
from turnstream.projections import fold
from turnstream.stores import open_store

EVENTS, MESSAGES, MESSAGES_A_TURN = 10_000, 2_000, 4
_RAW = (
    "SELECT rowid, originator_id, originator_version, topic, state FROM stored_events "
    "WHERE originator_id = 's' ORDER BY originator_version"
)


def rebuild(rounds: int) -> Sequence[Row]:
    """A session of 10,000 events read, decoded and folded, against the bare SELECT."""
    with tempfile.TemporaryDirectory(prefix="turnstream-") as directory:
        path = Path(directory)
        events = build(path, EVENTS)
        with closing(open_store(address(path, "normal"))) as store:
            records = store.read("s")
            decoded = [CODEC.decode(each.topic, each.payload) for each in records]
            raw, read, decode, folding, all_of_it = alternate(
                3 * rounds,
                partial(_select, path / "benchmark.db"),
                lambda: cost(lambda: store.read("s")),
                lambda: cost(lambda: [CODEC.decode(e.topic, e.payload) for e in records]),
                lambda: cost(lambda: fold(decoded)),
                lambda: cost(lambda: _rebuilt(store)),
            )
    speeds = [events / each.wall for each in all_of_it]
    return [
        Row(f"rebuild {events:,} events: events a second", spread(speeds, 0), "300,000"),
        Row("rebuild against the bare SELECT, time", spread(ratios(all_of_it, raw))),
        Row("read alone against the bare SELECT, time", spread(ratios(read, raw))),
        Row("decode alone, events a second", spread([events / c.wall for c in decode], 0)),
        Row("fold alone, events a second", spread([events / c.wall for c in folding], 0)),
    ]


def first_call(rounds: int) -> Sequence[Row]:
    """A message for a session nobody has open, in a new process: how long until the model is
    asked, with everything imported and the system open."""
    with tempfile.TemporaryDirectory(prefix="turnstream-") as directory:
        path = Path(directory)
        with ActorSystem(agent(), store=address(path, "normal")) as system:
            asyncio.run(run_turns(system, "s", MESSAGES // MESSAGES_A_TURN))
        taken = [in_directory(partial(_in_new_process, path)) for _ in range(2 * rounds)]
    return [
        Row(
            f"first model call of a cold session of {MESSAGES:,} messages",
            spread([first for first, _ in taken], 1, " ms"),
            "within 10 ms",
        ),
        Row(
            "the same against a bare SELECT of its events",
            spread([first / bare for first, bare in taken], 1),
        ),
    ]


def _in_new_process(built: Path, directory: Path) -> tuple[float, float]:
    shutil.copy(built / "benchmark.db", directory)
    done = subprocess.run(
        [sys.executable, __file__, str(directory)], stdout=subprocess.PIPE, text=True, check=True
    )
    first, bare = json.loads(done.stdout)
    return first, bare


def _first_call(path: Path) -> tuple[float, float]:
    called: list[float] = []

    def model(request: ModelRequest) -> str:
        called.append(time.perf_counter())
        assert len(request.messages) == MESSAGES + 1
        return ANSWER

    with ActorSystem(agent(model), store=address(path)) as system:
        start = time.perf_counter()
        system.session("s").send("once more").result()
    bare = median(_select(path / "benchmark.db").wall for _ in range(5))
    return (called[0] - start) * 1000, bare * 1000


def build(path: Path, events: int) -> int:
    """Make a session of so many events or a few more; how many."""
    with ActorSystem(agent(), store=address(path, "normal")) as system:
        asyncio.run(run_turns(system, "s", 20))
        built = len(system.session("s").events())
        asyncio.run(run_turns(system, "s", (events - built) * 20 // built + 1))
        return len(system.session("s").events())


def _rebuilt(store: Any) -> object:
    decode = CODEC.decode
    return fold(decode(each.topic, each.payload) for each in store.read("s"))


def _select(path: Path) -> Cost:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM sessions").fetchall()
        return cost(lambda: connection.execute(_RAW).fetchall())


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_first_call(Path(sys.argv[1]))))
