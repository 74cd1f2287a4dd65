"""Processes that keep read models are killed: no event is counted twice or left out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from places import on_durable_stores
from tallies import Tally, fill, tallied

from turnstream.actors import Projector
from turnstream.stores import open_store

pytestmark = on_durable_stores

PROGRAM = Path(__file__).with_name("tallies.py")


@contextmanager
def processes(address: str, *works: str) -> Iterator[Iterator[int]]:
    """Processes at work: the positions that they tell of. In the end they are killed."""
    told, tell = os.pipe()
    commands = [[sys.executable, PROGRAM, address, work] for work in works]
    children = [subprocess.Popen(command, stdout=tell) for command in commands]
    os.close(tell)
    try:
        with open(told) as lines:  # noqa: PTH123 - it has no path
            yield map(int, lines)
    finally:
        for child in children:
            child.send_signal(signal.SIGKILL)
            child.wait()


def test_a_rebuild_that_was_killed_goes_on_where_it_stood(address: str) -> None:
    with closing(open_store(address)) as store:
        fill(store, 400)
        Projector(store, Tally()).catch_up()
        reached = 0
        for batches in (1, 7, 3):
            with processes(address, "rebuild") as positions:
                told = [next(positions) for _ in range(batches)]
            assert told[0] > reached
            reached = told[-1]
            assert Projector(store, Tally()).rows() == tallied(store)
        interrupted = store.read_models.find("tally", live=False)
        assert interrupted is not None and interrupted.position >= reached
        with processes(address, "rebuild") as positions:
            assert [*positions][-1] == 400
        assert store.read_models.find("tally", live=False) is None
        assert store.read_models.find("tally").generation == interrupted.generation
        assert Projector(store, Tally()).rows() == tallied(store)


@pytest.mark.slow
def test_of_processes_that_are_killed_again_and_again_each_event_is_counted_once(
    address: str,
) -> None:
    with closing(open_store(address)) as store:
        for batches in range(1, 7):
            # Rows that are first read in the middle of a batch: what another process wrote there
            # meanwhile must not count.
            fill(store, 500, sessions=97)
            with processes(address, "catch-up", "catch-up", "catch-up") as positions:
                for _ in range(batches):
                    fill(store, 40, sessions=97)
                    next(positions)
        Projector(store, Tally()).catch_up()
        assert Projector(store, Tally()).rows() == tallied(store)
