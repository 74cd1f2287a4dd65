"""The benchmarks: ``python tests/benchmarks/run.py [NAME ...] [--rounds 5]``.

Each runs in a process of its own. What is told are ratios of things measured alternately in one
process, with the load of the machine; figures by themselves say little elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from rounds import Row, machine, table, tell

BENCHMARKS: Mapping[str, str] = {
    "turn": "turns:against_raw_inserts",
    "crowd": "turns:sessions_at_once",
    "commits": "turns:commits",
    "growth": "turns:growth",
    "latency": "latency:latency",
    "idle": "crowds:idle_sessions",
    "waiting": "crowds:waiting_sessions",
    "rebuild": "rebuilding:rebuild",
    "read-models": "projecting:rebuild_read_models",
    "first-call": "rebuilding:first_call",
    "travel": "travelling:travel",
    "postgres": "appending:against_raw_inserts",
    "files": "files:appends_to_files",
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or list(BENCHMARKS)
    if unknown := set(names) - BENCHMARKS.keys():
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    if options.here:
        sys.stdout.write(json.dumps(_measure(names[0], options.rounds)))
        return
    sys.stdout.write(f"{machine()}\n\n")
    rows = [row for name in names for row in _in_new_process(name, options.rounds)]
    sys.stdout.write(f"{table(rows)}\n\nload now: {os.getloadavg()[0]:.1f}\n")


def _in_new_process(name: str, rounds: int) -> Sequence[Row]:
    tell(f"{name} ...")
    done = subprocess.run(
        [sys.executable, Path(__file__), name, "--rounds", str(rounds), "--here"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        return [Row(name, f"failed with exit status {done.returncode}")]
    return [Row(*each) for each in json.loads(done.stdout)]


def _measure(name: str, rounds: int) -> Sequence[Row]:
    module, _, function = BENCHMARKS[name].partition(":")
    measure: Callable[[int], Sequence[Row]] = getattr(import_module(module), function)
    return measure(rounds)


if __name__ == "__main__":
    main()
