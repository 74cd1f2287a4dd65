"""Runs a folder of peer benchmarks, unchanged, in alternating rounds.

    python tests/benchmarks/comparing.py FOLDER [--rounds 5]

The folder holds ``bench_turnstream.py`` and ``bench_floor.py``, which share a harness: W1 is one
session of 200 turns, W2 100 sessions of 10 turns at once, W3 the first model call of a session
of 2,000 entries in a new process, W4 a kill while a tool runs and what is done again after it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rounds import Row, machine, spread, table, tell

FULL = [("bench_turnstream.py", "full"), ("bench_floor.py", "events-full")]
NORMAL = [("bench_turnstream.py", "normal"), ("bench_floor.py", "events-normal")]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--normal", action="store_true", help="synchronous=normal on both sides")
    parser.add_argument("--only", default="W1,W2,W3,W4,PROBE", help="the workloads to run")
    options = parser.parse_args()
    chosen = options.only.split(",")
    sys.stdout.write(f"{machine()}\n\n")
    with tempfile.TemporaryDirectory(prefix="turnstream-") as scratch:
        harness = Harness(options.folder, Path(scratch))
        pair = NORMAL if options.normal else FULL
        rows: list[Row] = []
        if speeds := [each for each in chosen if each in ("W1", "W2")]:
            rows += _speeds(harness, pair, speeds, options.rounds)
        if "W3" in chosen:
            rows += _first_calls(harness, pair)
        rows += _after_kills(harness, pair) if "W4" in chosen else []
        rows += _fsyncs(harness, pair) if "PROBE" in chosen else []
    sys.stdout.write(f"{table(rows)}\n\nload now: {os.getloadavg()[0]:.1f}\n")


class Harness:
    """The scripts of ``folder``, writing to ``scratch`` only."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._folder = folder.resolve()
        self._environment = {
            **os.environ,
            "BENCH_TMP": str(scratch),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, script: str, variant: str, work: str) -> Mapping[str, Any]:
        """One workload in a new process; what the harness says of it."""
        tell(f"{work} {script} {variant}")
        done = subprocess.run(
            [sys.executable, self._folder / script, "--variant", variant, "--work", work],
            capture_output=True,
            text=True,
            check=False,
            env=self._environment,
            timeout=900,
        )
        if done.returncode or not done.stdout.strip():
            raise SystemExit(f"{script} {work} failed:\n{done.stderr[-2000:]}")
        found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


Pair = Sequence[tuple[str, str]]


def _speeds(harness: Harness, pair: Pair, works: Sequence[str], rounds: int) -> Sequence[Row]:
    rows: list[Row] = []
    for work in works:
        both = [[harness.run(*each, work) for each in pair] for _ in range(rounds)]
        rows += _speed_rows(work, both)
    return rows


def _speed_rows(work: str, both: Sequence[Sequence[Mapping[str, Any]]]) -> Sequence[Row]:
    ours = [product for product, _ in both]
    target = "at least 0.6" if work == "W1" else "at least 0.8"
    shares = [product["turns_per_s"] / floor["turns_per_s"] for product, floor in both]
    rows = [
        Row(f"{work}: turns a second, share of the floor's", spread(shares), target),
        Row(f"{work}: turns a second", spread([each["turns_per_s"] for each in ours], 0)),
        Row(f"{work}: the floor's", spread([floor["turns_per_s"] for _, floor in both], 0)),
        Row(f"{work}: CPU a turn", spread([each["cpu_ms_per_turn"] for each in ours], 2, " ms")),
        Row(
            f"{work}: the floor's",
            spread([floor["cpu_ms_per_turn"] for _, floor in both], 2, " ms"),
        ),
    ]
    if work == "W1":
        growth = [each["growth"] for each in ours]
        size = max(each["db_bytes"] for each in ours) / 1024
        rows.append(Row("W1: turns 181-200 against 1-20", spread(growth), "at most 1.1"))
        rows.append(Row("W1: database after 200 turns", f"{size:.0f} KiB", "at most 400 KiB"))
    else:
        failed = sum(each["failed_turns"] for each in ours)
        rows.append(Row("W2: failed turns", str(failed), "0"))
    return rows


def _first_calls(harness: Harness, pair: Pair) -> Sequence[Row]:
    product, floor = (harness.run(*each, "W3,") for each in pair)
    mine, bare = product["W3"], floor["W3"]
    return [
        Row(
            f"W3: first model call, {mine['hist_len']} entries",
            f"{mine['ttfmc_ms']} ms; floor {bare['ttfmc_ms']} ms",
            "within 10 ms",
        )
    ]


def _after_kills(harness: Harness, pair: Pair) -> Sequence[Row]:
    found = harness.run(*pair[0], "W4,")["W4"]
    return [
        Row(
            f"W4 {scenario}: done again after the kill",
            f"{seen.get('after')}; next turn {seen.get('next_turn')}"
            + (f"; {seen['err']}" if seen.get("err") else ""),
            "B M2",
        )
        for scenario, seen in found.items()
    ]


def _fsyncs(harness: Harness, pair: Pair) -> Sequence[Row]:
    found = harness.run(*pair[0], "PROBE,")["PROBE"]
    return [
        Row("commits a turn", str(found.get("commits_per_turn")), "at most 4"),
        Row("fsyncs a turn", str(found.get("fsync_per_turn", "no strace here")), "at most 4"),
    ]


if __name__ == "__main__":
    main()
