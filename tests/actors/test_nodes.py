"""Nodes: who counts as alive, and who as lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from turnstream.actors import ActorSystem, Agent
from turnstream.actors.nodes import TABLE, Node, Nodes, birth_of
from turnstream.events import Owner
from turnstream.stores import EventStore
from turnstream.stores.specimens import together

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def store(opened: EventStore) -> EventStore:
    return opened


def a_node(process: int, born: str, host: str = "here") -> Node:
    return Node("n", host, process, born, NOW, 10.0)


def test_a_process_of_this_host_that_ended_is_lost_at_once() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    node = a_node(child.pid, birth_of(child.pid))
    assert node.lives("here", NOW)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not node.lives("here", NOW), "though nobody has buried it yet"
    child.communicate()
    assert not node.lives("here", NOW)


def test_another_process_with_the_number_of_one_that_ended_is_not_taken_for_it() -> None:
    me = os.getpid()
    assert a_node(me, birth_of(me)).lives("here", NOW)
    assert not a_node(me, "1").lives("here", NOW)


def test_what_is_elsewhere_is_lost_when_its_lease_has_run_out() -> None:
    node = a_node(1, "never", host="there")
    assert node.lives("here", NOW + timedelta(seconds=10))
    assert not node.lives("here", NOW + timedelta(seconds=10.1))


def test_a_process_that_stands_still_is_lost_when_its_lease_has_run_out() -> None:
    node = a_node(os.getpid(), birth_of(os.getpid()))
    assert not node.lives("here", NOW + timedelta(seconds=11))
    assert replace(node, seen=NOW + timedelta(seconds=9)).lives("here", NOW + timedelta(seconds=11))


def test_a_node_is_seen_by_the_others_until_it_leaves(store: EventStore) -> None:
    one, other = Nodes(store, 10.0), Nodes(store, 10.0)
    assert not one.is_lost(other.owner) and not one.is_lost(one.owner)
    assert not one.alone()
    other.leave()
    assert one.is_lost(other.owner) and one.alone()
    assert one.is_lost(Owner(1, "unknown"))


def test_with_no_lease_no_heed_is_taken_of_the_others(store: EventStore) -> None:
    one, other = Nodes(store, 10.0), Nodes(store, 0)
    assert other.is_lost(one.owner) and other.alone()
    assert not other.is_lost(other.owner)


def test_whoever_leaves_clears_away_those_that_were_lost(store: EventStore) -> None:
    clock = Clock()
    lost, last = Nodes(store, 5.0, clock), Nodes(store, 5.0, clock)
    clock.now += timedelta(seconds=6)
    last.beat()
    last.leave()
    assert store.read_models.rows(TABLE) == []
    assert last.is_lost(lost.owner)


def test_beats_of_many_nodes_at_once_are_all_kept(store: EventStore) -> None:
    nodes = [Nodes(store, 10.0) for _ in range(6)]

    def beat(number: int) -> None:
        for _ in range(10):
            nodes[number].beat()

    together(6, beat)
    assert len(store.read_models.rows(TABLE)) == 6
    assert len({each.owner.generation for each in nodes}) == 6


def test_a_node_becomes_younger_than_one_whose_turn_it_takes(store: EventStore) -> None:
    older, younger = Nodes(store, 10.0), Nodes(store, 10.0)
    before = older.owner
    older.rejuvenate(younger.owner)
    assert older.owner.generation > younger.owner.generation
    assert older.owner.node == before.node
    older.rejuvenate(younger.owner)
    assert not younger.is_lost(older.owner)


def test_a_row_that_is_none_is_of_a_node_that_is_lost(store: EventStore) -> None:
    nodes = Nodes(store, 10.0)
    table = store.read_models.begin(TABLE, 1)
    store.read_models.advance(table, {"strange": b"{}"}, table.position + 1)
    assert nodes.is_lost(Owner(9, "strange")) and nodes.alone()


@pytest.mark.parametrize("lease", [-1, float("nan"), "ten", None])
def test_a_lease_that_is_none_is_refused(lease: Any) -> None:
    with pytest.raises(ValueError, match="lease"):
        ActorSystem(Agent("a", model=lambda request: "hi"), lease=lease)
