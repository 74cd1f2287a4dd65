"""The benchmarks can be run; what they measure is no matter here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("benchmarks") / "run.py"


@pytest.mark.slow
def test_the_benchmarks_of_a_turn_and_of_a_stream_run() -> None:
    command = [
        sys.executable,
        RUN,
        "turn",
        "latency",
        "rebuild",
        "travel",
        "files",
        "--rounds",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)

    assert "turns a second" in done.stdout and "failed" not in done.stdout, done.stdout


@pytest.mark.slow
def test_the_benchmark_of_read_models_runs() -> None:
    command = [sys.executable, RUN, "read-models", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)

    assert "events a second" in done.stdout and "failed" not in done.stdout, done.stdout


@pytest.mark.slow
def test_the_benchmark_of_postgresql_runs() -> None:
    command = [sys.executable, RUN, "postgres", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)

    assert "inserts of its rows" in done.stdout and "failed" not in done.stdout, done.stdout
