"""Measuring on a machine that does other things as well.

What is compared runs alternately, round by round, in one process. A ratio is taken within each
round, and the median of the rounds is told, with the lowest and the highest beside it.
"""

from __future__ import annotations

import gc
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Row(NamedTuple):
    """A line of the report."""

    figure: str
    measured: str
    target: str = ""


class Cost(NamedTuple):
    """What a piece of work took: seconds by the clock, and of this process's CPU time."""

    wall: float
    cpu: float


def cost(work: Callable[[], object]) -> Cost:
    """Run ``work`` once."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def in_directory(work: Callable[[Path], T]) -> T:
    """Run ``work`` in a directory of its own, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="turnstream-") as directory:
        return work(Path(directory))


def alternate(rounds: int, *works: Callable[[], Cost]) -> list[list[Cost]]:
    """The costs of each work, round by round. The first round only warms up."""
    measured = [[work() for work in works] for _ in range(rounds + 1)]
    return [list(costs) for costs in zip(*measured[1:], strict=True)]


def spread(values: Sequence[float], digits: int = 2, unit: str = "") -> str:
    """The median, and the range around it."""
    low, middle, high = (f"{v:,.{digits}f}" for v in (min(values), median(values), max(values)))
    return f"{middle}{unit} ({low} to {high})"


def ratios(above: Sequence[Cost], below: Sequence[Cost]) -> list[float]:
    """How often the second goes into the first by the clock, round by round."""
    return [a.wall / b.wall for a, b in zip(above, below, strict=True)]


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = [Row("figure", "measured: median (range of the rounds)", "target"), Row(*["---"] * 3)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [*lines, *rows])


def machine() -> str:
    """Where and under which load this was measured."""
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    return (
        f"{_processor()}, {os.cpu_count()} CPUs, load {load}; {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}, SQLite "
        f"{sqlite3.sqlite_version}; a write with fsync takes {_fsync_seconds() * 1000:.2f} ms"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _fsync_seconds() -> float:
    taken = []
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(50):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - start)
    return median(taken)


def tell(text: str) -> None:
    """Show progress, apart from the report."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
