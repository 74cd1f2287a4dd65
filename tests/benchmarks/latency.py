"""From ``send`` to the model: what a caller waits for before any token can come.

An input is durable before the model is asked, so a commit is the least it can take.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import quantiles

from rounds import Row, spread, tell
from workload import ANSWER, agent, text

from turnstream.actors import ActorSystem, ModelRequest

SENDS, WARM = 200, 20

Seconds = Callable[[int], float]


def latency(rounds: int) -> Sequence[Row]:
    """``send`` on an idle warm session until its model is entered, against one insert and commit
    by hand, all taken alternately; each with ``synchronous=full``."""
    with (
        tempfile.TemporaryDirectory(prefix="turnstream-") as directory,
        _raw(Path(directory)) as raw,
        _sends(Path(directory), sync=True) as plain,
        _sends(Path(directory), sync=False) as coroutine,
    ):
        taken = [_round(number, raw, plain, coroutine) for number in range(rounds + 1)][1:]
    floor = [costs[0] for costs in taken]
    return [
        *_rows("sync model", [costs[1] for costs in taken], floor),
        *_rows("async model", [costs[2] for costs in taken], floor),
    ]


def _round(number: int, *measured: Seconds) -> Sequence[Sequence[float]]:
    """The seconds of each, in order. They alternate, so that a slow moment strikes them all."""
    tell(f"  round {number}")
    taken = [[each(number) for each in measured] for _ in range(SENDS)]
    return list(zip(*taken, strict=True))


def _rows(
    what: str, ours: Sequence[Sequence[float]], floor: Sequence[Sequence[float]]
) -> list[Row]:
    rows = []
    for name, at, target in (("p50", 4, "at most 2"), ("p90", 8, "")):
        mine, bare = ([quantiles(each, n=10)[at] for each in costs] for costs in (ours, floor))
        shares = [a / b for a, b in zip(mine, bare, strict=True)]
        figure = f"send to the model being entered, {what}, {name}"
        rows += [
            Row(f"{figure}: times an insert and commit", spread(shares), target),
            Row(figure, f"{_micros(mine)}; insert and commit {_micros(bare)}"),
        ]
    return rows


def _micros(seconds: Sequence[float]) -> str:
    return spread([each * 1e6 for each in seconds], 0, " µs")


@contextmanager
def _raw(directory: Path) -> Iterator[Seconds]:
    """One insert and commit with nothing but sqlite3."""
    path = directory / "raw.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE inputs (id INTEGER PRIMARY KEY, content TEXT)")

        def insert(number: int) -> float:
            start = time.perf_counter()
            connection.execute("INSERT INTO inputs (content) VALUES (?)", (text(number),))
            return time.perf_counter() - start

        yield insert


@contextmanager
def _sends(directory: Path, *, sync: bool) -> Iterator[Seconds]:
    """A send on a session that is live and has nothing to do."""
    entered = 0.0

    def function(_: ModelRequest) -> str:
        nonlocal entered
        entered = time.perf_counter()
        return ANSWER

    async def coroutine(request: ModelRequest) -> str:
        return function(request)

    url = f"sqlite:///{directory}/{'sync' if sync else 'async'}.db?synchronous=full"
    with ActorSystem(agent(function if sync else coroutine), store=url) as system:
        session = system.session("s")

        def send(number: int) -> float:
            start = time.perf_counter()
            session.send(text(number)).result()
            return entered - start

        for number in range(WARM):
            send(number)
        yield send
