"""Several processes on the same sessions, killed and stopped at random."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeAlias

import node_child
import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, audit_store
from turnstream.events import (
    CODEC,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    ModelTurnRecorded,
    SessionEvent,
    ToolCallStarted,
    ToolResultRecorded,
    TurnResumed,
    TurnStarted,
    TurnstreamError,
)
from turnstream.stores import EventStore, open_store

Child: TypeAlias = "subprocess.Popen[str]"
NODES, SESSIONS, LEASE = 4, 20, 1.0
WAIT = 60


class Nodes:
    """Processes on one store; one that is killed is followed by another."""

    def __init__(self, store: str, directory: Path) -> None:
        self._store, self._directory, self._made = store, directory, 0
        self.running: list[Child] = [self._start() for _ in range(NODES)]

    def _start(self) -> Child:
        self._made += 1
        arguments = (self._store, self._directory, f"n{self._made}", SESSIONS, LEASE)
        command = [sys.executable, Path(__file__).with_name("node_child.py"), *map(str, arguments)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    def strike(self, dice: random.Random) -> None:
        """Kill one, and start another; or let one stand still for longer than its lease."""
        place = dice.randrange(NODES)
        victim = self.running[place]
        if dice.random() < 0.6:
            victim.kill()
            victim.communicate()
            self.running[place] = self._start()
        else:
            victim.send_signal(signal.SIGSTOP)
            time.sleep(2.5 * LEASE)
            victim.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for child in self.running:
            child.terminate()
        for child in self.running:
            child.wait(WAIT)

    def kill(self) -> None:
        for child in self.running:
            child.kill()
            child.communicate()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in ("accepted", "effects", "asked"):
        (tmp_path / name).touch()
    return tmp_path


def hammered(store: str, directory: Path, seconds: float, seed: int) -> None:
    nodes = Nodes(store, directory)
    try:
        dice, end = random.Random(seed), time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(dice.uniform(0.2, 1.0))
            nodes.strike(dice)
        nodes.stop()
    finally:
        nodes.kill()


def finished(address: str, directory: Path) -> None:
    """Let one node finish what is unfinished, and decide what waits."""
    agent = node_child.make_agent(directory)
    with ActorSystem(agent, store=address, on_failure="keep", lease=LEASE) as system:
        node_child.node = system._runtime.owner.node
        end = time.monotonic() + WAIT
        while any(row.status != "idle" for row in system.sessions()):
            assert time.monotonic() < end, [
                row for row in system.sessions() if row.status != "idle"
            ]
            for approval in system.approvals():
                system.approve(approval.id).result(WAIT)
            for turn in system.resume_all():
                with suppress(TurnstreamError):  # it may be paused by now
                    turn.result(WAIT)


def streams(store: EventStore) -> Iterator[list[SessionEvent]]:
    for session_id in store.stream_ids():
        records = store.read(session_id)
        found: list[Any] = [CODEC.decode(each.topic, each.payload) for each in records]
        yield found


def lines(directory: Path, name: str) -> list[str]:
    return (directory / name).read_text().split("\n")[:-1]


def check_used_once(found: list[list[SessionEvent]], accepted: list[str]) -> None:
    queued: Counter[Any] = Counter()
    for events in found:
        ids = {e.input_id: e.content for e in events if isinstance(e, InputQueued)}
        queued.update(ids.values())
        used: Counter[str] = Counter()
        for event in events:
            match event:
                case TurnStarted(input_ids=input_ids):
                    used.update(input_ids)
                case InputApplied(input_id=input_id) | InputWithdrawn(input_id=input_id):
                    used[input_id] += 1
                case _:
                    pass
        assert used == dict.fromkeys(ids, 1)
    assert set(accepted) <= set(queued), "an accepted input is lost"
    assert set(queued.values()) <= {1}


def check_owners(events: list[SessionEvent]) -> None:
    """What a node did is recorded while the turn is its own."""
    owner, generation = "", 0
    for event in events:
        match event:
            case TurnStarted(owner=new):
                owner, generation = new.node, new.generation
            case TurnResumed(owner=new):
                assert new.node == owner or new.generation > generation
                owner, generation = new.node, new.generation
            case ModelTurnRecorded(text=node) | ToolResultRecorded(outcome="ok", content=node):
                assert node == owner, f"recorded by {node} in a turn of {owner}"
            case _:
                pass


def check_runs(found: list[list[SessionEvent]], effects: list[str]) -> None:
    """A tool ran no more often than the stream says that it was started."""
    started: Counter[str] = Counter()
    for events in found:
        numbers: dict[tuple[str, str], str] = {}
        for event in events:
            match event:
                case ModelTurnRecorded(turn_id=turn_id, tool_calls=calls):
                    for each in calls:
                        numbers[turn_id, each.id] = str(each.arguments["number"])
                case ToolCallStarted(turn_id=turn_id, call_id=call_id):
                    started[numbers[turn_id, call_id]] += 1
                case _:
                    pass
    for number, times in Counter(effects).items():
        assert times <= started[number], f"call {number} ran {times} times"


SECONDS = float(os.environ.get("TURNSTREAM_HAMMER_SECONDS", "15"))
"""How long it goes on. Longer runs find more; they are not for every day."""


@pytest.mark.slow
@on_durable_stores
@pytest.mark.timeout(4 * SECONDS + 180)
def test_four_nodes_killed_and_stopped_lose_nothing_and_stay_in_their_turns(
    directory: Path, address: str
) -> None:
    hammered(address, directory, SECONDS, seed=7)
    finished(address, directory)
    with closing(open_store(address)) as store:
        assert [f for looked in audit_store(store) for f in looked.findings] == []
        found = list(streams(store))
    check_used_once(found, lines(directory, "accepted"))
    for events in found:
        check_owners(events)
    check_runs(found, lines(directory, "effects"))
    assert sum(map(len, found)) > 100
