"""A turn alone: against raw inserts of the same rows, its commits, and how it grows."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from floor import Floor
from rounds import Cost, Row, alternate, cost, in_directory, ratios, spread
from workload import address, agent, reply, run_sessions, run_turns, text

from turnstream.actors import ActorSystem, ModelRequest, Session
from turnstream.events import ModelTurn

TURNS = 200
OLD, YOUNG = 2000, 20


async def async_reply(request: ModelRequest) -> ModelTurn:
    """The same answers from a coroutine."""
    return reply(request)


def against_raw_inserts(rounds: int) -> Sequence[Row]:
    """Turns of one session against the bare statements."""
    floor, rows = Floor(1, TURNS), []
    for synchronous in ("full", "normal"):
        raw, plain, coroutine = alternate(
            rounds,
            partial(in_directory, partial(floor.write, synchronous=synchronous)),
            partial(in_directory, partial(_product, synchronous, reply)),
            partial(in_directory, partial(_product, synchronous, async_reply)),
        )
        rows += _compared(f"one session, {synchronous}, sync model", plain, raw)
        rows += _compared(f"one session, {synchronous}, async model", coroutine, raw)
    return rows


def sessions_at_once(rounds: int) -> Sequence[Row]:
    """100 sessions of 10 turns against the bare statements, one transaction an append."""
    floor, rows = Floor(100, 10), []
    for synchronous in ("full", "normal"):
        raw, product = alternate(
            rounds,
            partial(in_directory, partial(floor.write, synchronous=synchronous)),
            partial(in_directory, partial(_crowd, synchronous)),
        )
        rows += _compared(f"100 sessions at once, {synchronous}", product, raw, turns=1000)
    return rows


def commits(_rounds: int) -> Sequence[Row]:
    """Commits a turn, alone and with 100 sessions at once."""
    with tempfile.TemporaryDirectory(prefix="turnstream-") as directory:
        counted = _Counted()
        with ActorSystem(agent(), store=address(Path(directory))) as system:
            asyncio.run(run_turns(system, "warm", 5))
            alone = counted.during(lambda: asyncio.run(run_turns(system, "alone", 50))) / 50
            crowd = counted.during(lambda: asyncio.run(run_sessions(system, 100, 10))) / 1000
    return [
        Row("commits a turn, one session", f"{alone:.2f}", "at most 4"),
        Row("commits a turn, 100 sessions at once", f"{crowd:.2f}", "under 1"),
    ]


def growth(rounds: int) -> Sequence[Row]:
    """Turns of an old session and of young ones, taken alternately; and the bytes of both."""
    with tempfile.TemporaryDirectory(prefix="turnstream-") as directory:
        path = Path(directory)
        with ActorSystem(agent(), store=address(path, "normal")) as system:
            asyncio.run(run_turns(system, "old", OLD // 2))
            half = _settled_bytes(path)
            asyncio.run(run_turns(system, "old", OLD // 2))
            whole = _settled_bytes(path)
            pairs = [asyncio.run(_old_against_young(system, n)) for n in range(4 * rounds)]
    return [
        Row(
            f"turn {OLD:,} against turn {YOUNG}",
            spread([old / young for old, young in pairs]),
            "at most 1.1",
        ),
        Row(
            f"bytes a turn, turns {OLD // 2:,} to {OLD:,} against the first {OLD // 2:,}",
            f"{(whole - half) / half:.2f} ({half / (OLD // 2):,.0f} bytes a turn)",
            "1",
        ),
    ]


async def _old_against_young(system: ActorSystem, number: int) -> tuple[float, float]:
    old, young = system.session("old"), system.session(f"young-{number}")
    await run_turns(system, young.id, YOUNG)
    taken = [(await _seconds(old), await _seconds(young)) for _ in range(20)]
    return median(a for a, _ in taken), median(b for _, b in taken)


async def _seconds(session: Session) -> float:
    start = time.perf_counter()
    await session.send(text(0))
    return time.perf_counter() - start


def _settled_bytes(directory: Path) -> int:
    path = directory / "benchmark.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return path.stat().st_size


def _product(synchronous: str, model: Callable[[ModelRequest], object], directory: Path) -> Cost:
    with ActorSystem(agent(model), store=address(directory, synchronous)) as system:
        return cost(lambda: asyncio.run(run_turns(system, "s0", TURNS)))


def _crowd(synchronous: str, directory: Path) -> Cost:
    with ActorSystem(agent(), store=address(directory, synchronous)) as system:
        return cost(lambda: asyncio.run(run_sessions(system, 100, 10)))


def _compared(
    what: str, product: Sequence[Cost], raw: Sequence[Cost], turns: int = TURNS
) -> list[Row]:
    rate = [turns / each.wall for each in product]
    floor = median([turns / each.wall for each in raw])
    return [
        Row(f"{what}: share of the raw inserts' speed", spread(ratios(raw, product))),
        Row(f"{what}: turns a second", f"{spread(rate, 0)}; raw inserts {floor:,.0f}"),
        Row(f"{what}: CPU a turn", spread([c.cpu / turns * 1000 for c in product], 2, " ms")),
    ]


class _Counted:
    """Counts the commits of every connection that is opened after it was made."""

    def __init__(self) -> None:
        self._commits = 0
        counted = self

        class Traced(sqlite3.Connection):
            def __init__(self, *arguments: object, **options: object) -> None:
                super().__init__(*arguments, **options)  # type: ignore[arg-type]
                self.set_trace_callback(counted._see)

        sqlite3.connect = partial(sqlite3.connect, factory=Traced)  # type: ignore[assignment]

    def _see(self, statement: str) -> None:
        self._commits += statement.startswith("COMMIT")

    def during(self, work: Callable[[], object]) -> int:
        before = self._commits
        work()
        return self._commits - before
