"""Old sessions are removed, and nothing that somebody still needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from composing import conversation, put
from places import on_durable_stores, on_files_too

from turnstream.actors import ActorSystem, Agent, Pruned, prune, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AgentHandedOff,
    ApprovalRequested,
    EncodedEvent,
    InputQueued,
    SessionEvent,
    TurnAborted,
    TurnFailed,
)
from turnstream.stores import Append, EventStore, RowChange, open_store
from turnstream.stores.specimens import ALIKE, event

pytestmark = on_files_too

WAIT = 20
NOW = datetime.now(UTC)
OLD, CUTOFF = NOW - timedelta(days=60), NOW - timedelta(days=30)


def sessions(at: datetime) -> dict[str, list[SessionEvent]]:
    """Sessions of that age, by what they wait for."""
    turns = conversation(3, at)
    asked = ApprovalRequested(at=at, approval_id="q", turn_id="turn-3", call_id="c3")
    return {
        "finished": turns,
        "dropped": [*turns[:-3], TurnAborted(at=at, turn_id="turn-3")],
        "awaiting-approval": [*turns[:-4], asked],
        "crashed": turns[:-3],
        "queued": [*turns, InputQueued(at=at, input_id="i9", content="later")],
        "failed": [*turns[:-2], TurnFailed(at=at, turn_id="turn-3", code="c", error="e")],
        "aborted": [*turns[:-2], TurnAborted(at=at, turn_id="turn-3", kept=True)],
        "newer": [*turns, AgentHandedOff(at=at, turn_id="t", source="a", target="b")],
    }


def fill(store: EventStore) -> None:
    for name, events in sessions(OLD).items():
        put(store, name, events)
    put(store, "young", conversation(1, NOW))


def test_only_old_sessions_with_nothing_unfinished_go(opened: EventStore) -> None:
    fill(opened)
    before = {row.session_id: row for row in opened.sessions()}
    wanted = Pruned(
        2,
        before["finished"].version + before["dropped"].version,
        before["finished"].size + before["dropped"].size,
        ("dropped", "finished"),
        {
            "recent": 1,
            "awaiting-approval": 1,
            "running": 2,
            "failed": 1,
            "aborted": 1,
            "read-only": 1,
        },
    )
    assert prune(opened, CUTOFF, dry_run=True) == wanted
    assert {row.session_id for row in opened.sessions()} == before.keys()
    assert prune(opened, CUTOFF) == wanted
    assert {row.session_id for row in opened.sessions()} == before.keys() - {*wanted.ids}
    again = prune(opened, CUTOFF)
    assert (again.sessions, again.ids, again.kept) == (0, (), wanted.kept)


def test_bytes_are_those_of_the_payloads(opened: EventStore) -> None:
    fill(opened)
    ids = ("finished", "dropped")
    size = sum(len(record.payload) for each in ids for record in opened.read(each))
    assert prune(opened, CUTOFF).bytes == size


def test_a_session_whose_row_calls_it_idle_is_judged_by_its_stream(opened: EventStore) -> None:
    fill(opened)
    for row in opened.sessions(status="running"):
        stored = opened.read(row.session_id)
        events = tuple(EncodedEvent(each.topic, each.payload) for each in stored)
        change = RowChange("idle", "agent", OLD)
        opened.append(Append(f"{row.session_id}-2", 0, events, change))
    assert set(prune(opened, CUTOFF).ids) == {"finished", "dropped"}


def test_a_session_that_can_t_be_read_is_kept(opened: EventStore) -> None:
    opened.append(
        Append("s", 0, (event("no json", "turn_started"),), RowChange("idle", "agent", OLD))
    )
    assert prune(opened, CUTOFF).kept == {"unreadable": 1}


class Racing:
    """A store where each session goes on right before it is deleted."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def delete(self, session_id: str, *, expected_version: int | None = None) -> int:
        row = self._store.session(session_id)
        assert row is not None
        change = RowChange("running", row.agent, NOW)
        self._store.append(Append(session_id, row.version, (event("{}"),), change))
        return self._store.delete(session_id, expected_version=expected_version)


def test_a_session_that_goes_on_meanwhile_is_kept(opened: EventStore) -> None:
    put(opened, "s", conversation(2, OLD))
    racing: Any = Racing(opened)
    assert prune(racing, CUTOFF) == Pruned(0, 0, 0, (), {"moved": 1})
    assert opened.session("s") is not None


def test_a_session_deleted_by_somebody_else_meanwhile_is_no_error(opened: EventStore) -> None:
    put(opened, "s", conversation(2, OLD))

    class Gone(Racing):
        def delete(self, session_id: str, *, expected_version: int | None = None) -> int:
            self._store.delete(session_id)
            return self._store.delete(session_id, expected_version=expected_version)

    gone: Any = Gone(opened)
    assert prune(gone, CUTOFF).ids == ()


PROCESS = """
import sys, threading
from turnstream import ActorSystem, Agent, ModelTurn

def model(request):
    print("asked", flush=True)
    sys.stdin.readline()
    return ModelTurn("done")

with ActorSystem(Agent("agent", model=model), store=sys.argv[1]) as system:
    turn = system.session("elsewhere").send("go")
    print(turn.result(20).text, flush=True)
"""


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


@pytest.fixture
def child(address: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the session "elsewhere", in the middle of a model call."""
    command = [sys.executable, "-c", PROCESS, address]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asked\n"
    yield process
    process.kill()
    process.communicate()


@on_durable_stores
def test_retention_takes_only_what_is_finished_also_with_others_at_work(
    address: str, child: subprocess.Popen[str]
) -> None:
    with closing(open_store(address)) as store:
        for name, events in sessions(OLD).items():
            put(store, name, events)
    script = [[call("remove", path="a")], "removed", "went on", "and on"]
    agent = Agent("agent", model=ScriptedModel(script), tools=[remove])
    with ActorSystem(agent, store=address) as system:
        waiting = system.session("waiting")
        assert waiting.send("go").result(WAIT).finish_reason == "awaiting-approval"
        (_, approval) = system.approvals()

        pruned = system.prune(older_than=timedelta(0))

        assert set(pruned.ids) == {"finished", "dropped"}
        assert pruned.kept["awaiting-approval"] == 2
        assert pruned.kept["running"] == 3, "the crashed one, the queued one, and the one elsewhere"
        assert waiting.approve(approval.id).result(WAIT).text == "removed"
        resumed = system.session("queued").resume()
        assert resumed is not None and resumed.result(WAIT).text == "went on"
        crashed = system.session("failed").resume()
        assert crashed is not None and crashed.result(WAIT).text == "and on"
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write("\n")
        assert child.stdout.readline() == "done\n"


def test_ids_that_look_alike_are_pruned_apart(opened: EventStore) -> None:
    ids = list(ALIKE)
    for number, each in enumerate(ids):
        put(opened, each, conversation(1, OLD if number % 2 else NOW))
    assert set(prune(opened, CUTOFF).ids) == set(ids[1::2])
    assert {row.session_id for row in opened.sessions()} == set(ids[::2])


def test_an_age_that_is_none_is_refused(run: Callable[..., ActorSystem]) -> None:
    age: Any = 30
    with pytest.raises(TypeError, match="older_than is a timedelta, not int"):
        run(["hi"]).prune(older_than=age)
