"""A run that several processes ask for at once is done once, though the one that does it is
killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from places import on_durable_stores
from run_child import make_agent
from run_child import told as told_by

from turnstream.actors import ActorSystem
from turnstream.events import CODEC, InputQueued, ModelTurnRecorded, TurnResumed, TurnStarted
from turnstream.stores import open_store

Child: TypeAlias = "subprocess.Popen[str]"
NODES, TIMES, LEASE = 4, 5, 1.0
WAIT = 60
PROGRAM = Path(__file__).with_name("run_child.py")


@pytest.fixture
def start(address: str, tmp_path: Path) -> Iterator[Callable[[str], Child]]:
    """Start a process that asks when it is told to."""
    children = []

    def begin(name: str) -> Child:
        arguments = (address, tmp_path, name, TIMES, LEASE)
        command = [sys.executable, PROGRAM, *map(str, arguments)]
        children.append(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        )
        return children[-1]

    yield begin
    for child in children:
        child.kill()
        with suppress(BrokenPipeError):
            child.communicate()


def noted(directory: Path, file: str) -> list[str]:
    place = directory / file
    return place.read_text().splitlines() if place.exists() else []


def wait_until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def ask_all(start: Callable[[str], Child], directory: Path) -> dict[str, Child]:
    """Processes that have asked, at the same moment, and the one of them that runs the tool."""
    nodes = {name: start(name) for name in [f"n{number}" for number in range(NODES)]}
    for node in nodes.values():
        assert node.stdout is not None
        assert node.stdout.readline() == "ready\n"
    for node in nodes.values():
        assert node.stdin is not None
        node.stdin.write("\n")
    wait_until(lambda: noted(directory, "ran") and len(noted(directory, "accepted")) == NODES)
    return nodes


def told(node: Child) -> list[str]:
    output, _ = node.communicate(timeout=WAIT)
    assert node.returncode == 0
    return output.splitlines()


def recorded(address: str, *kinds: type) -> list[Any]:
    with closing(open_store(address)) as store:
        events = [CODEC.recorded(each).event for each in store.read("s")]
    return [each for each in events if isinstance(each, kinds)]


@pytest.mark.slow
@on_durable_stores
@pytest.mark.parametrize("kills", [False, True])
def test_processes_that_ask_for_the_same_run_have_one_turn_and_one_result(
    start: Callable[[str], Child], address: str, tmp_path: Path, kills: bool
) -> None:
    nodes = ask_all(start, tmp_path)
    if kills:
        victim = nodes.pop(noted(tmp_path, "ran")[0])
        victim.kill()
        victim.wait(WAIT)
    (tmp_path / "go").touch()
    results = [each for node in nodes.values() for each in told(node)]

    assert len(results) == len(nodes) * TIMES
    assert all(each == results[0] for each in results)
    assert '"run_id":"r","finish_reason":"stop"' in results[0]
    assert sorted(noted(tmp_path, "asked")) == ["turn-1 1", "turn-1 2"]
    assert len(noted(tmp_path, "ran")) == (2 if kills else 1)
    assert len(recorded(address, InputQueued)) == len(recorded(address, TurnStarted)) == 1
    assert [each.step for each in recorded(address, ModelTurnRecorded)] == [1, 2]
    assert len(recorded(address, TurnResumed)) == (1 if kills else 0)

    with ActorSystem(make_agent(tmp_path, "later"), store=address) as system:
        turn = system.session("s").send("go", run_id="r")
        assert told_by(turn) == results[0]
    assert len(noted(tmp_path, "asked")) == 2
