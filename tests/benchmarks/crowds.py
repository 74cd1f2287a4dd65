"""Many sessions in one process: idle ones, and ones that wait for their model."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from rounds import Row, alternate, cost, spread

IDLE, WAITING = 10_000, 1_000


def idle_sessions(_rounds: int) -> Sequence[Row]:
    """Memory and threads of sessions that had a turn and stay live. Nothing else may have been
    imported before: the interpreter alone is what they are measured against."""
    interpreter = _resident()
    from workload import ANSWER, address, agent

    from turnstream.actors import ActorSystem, ModelRequest

    async def polite(_: ModelRequest) -> str:
        return ANSWER

    async def greet(system: ActorSystem) -> None:
        for first in range(0, IDLE, 500):
            turns = (system.session(f"s{first + n}").send("Hello") for n in range(500))
            await asyncio.gather(*turns)

    with tempfile.TemporaryDirectory(prefix="turnstream-") as directory:
        url = address(Path(directory), "normal")
        with ActorSystem(agent(polite), store=url, idle_timeout=3600) as system:
            system.session("first").send("Hello").result()
            gc.collect()
            loaded = _resident()
            asyncio.run(greet(system))
            gc.collect()
            resident, threads = _resident(), threading.active_count()
    each = (resident - loaded) * 1000 / IDLE
    return [
        Row(
            f"{IDLE:,} idle sessions, memory above the interpreter",
            f"{resident - interpreter:.0f} MB, of which {loaded - interpreter:.0f} MB with one "
            f"session; {each:.1f} KB a session",
            "under 100 MB",
        ),
        Row(f"{IDLE:,} idle sessions, threads", str(threads), "under 50"),
    ]


def waiting_sessions(rounds: int) -> Sequence[Row]:
    """Sessions that wait for a model that takes a second, against the same number of bare
    coroutines."""
    from workload import ANSWER, agent

    from turnstream.actors import ActorSystem, ModelRequest

    async def slow(_: ModelRequest) -> str:
        await asyncio.sleep(1)
        return ANSWER

    async def bare() -> None:
        await asyncio.gather(*(asyncio.sleep(1) for _ in range(WAITING)))

    async def ask(system: ActorSystem) -> None:
        await asyncio.gather(*(system.session(f"s{n}").send("Hello") for n in range(WAITING)))

    threads = 0

    def product() -> None:
        nonlocal threads
        with tempfile.TemporaryDirectory(prefix="turnstream-") as directory:
            url = f"sqlite:///{directory}/benchmark.db"
            with ActorSystem(agent(slow), store=url) as system:
                asyncio.run(ask(system))
                threads = threading.active_count()

    coroutines, sessions = alternate(
        min(rounds, 3), lambda: cost(lambda: asyncio.run(bare())), lambda: cost(product)
    )
    walls = [each.wall for each in sessions]
    floor = min(each.wall for each in coroutines)
    return [
        Row(
            f"{WAITING:,} sessions wait for a model of 1 s",
            f"{spread(walls, 2, ' s')}; bare coroutines {floor:.2f} s",
        ),
        Row(
            f"{WAITING:,} waiting sessions, CPU each",
            spread([each.cpu / WAITING * 1000 for each in sessions], 2, " ms"),
        ),
        Row(f"{WAITING:,} waiting sessions, threads", str(threads), "under 50"),
    ]


def _resident() -> float:
    """Memory in use, in MB."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
