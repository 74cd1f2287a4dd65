"""Snapshots: taken of long sessions, used to open them, and never anything but the fold."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, audit_store, tool
from turnstream.actors.recording import Known, read_on
from turnstream.actors.snapshotting import SHORTEST, latest_fold, read_fold, take_snapshot
from turnstream.actors.testing import call
from turnstream.events import ModelTurn, StoreUnavailable, UserMessage, verify
from turnstream.projections import FOLD, Folded, dump_snapshot, fold, fold_usage
from turnstream.stores import EventStore, Snapshot, open_store

WAIT = 20


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def model(request: ModelRequest) -> ModelTurn:
    if isinstance(request.messages[-1], UserMessage):
        return ModelTurn(tool_calls=(call("add", a=len(request.messages), b=1),))
    return ModelTurn(f"said {len(request.messages)}")


AGENT = Agent("agent", model=model, tools=[add])


def hold(store: EventStore, upto: int) -> None:
    """Talk until the stream has so many events."""
    with ActorSystem(AGENT, store=store) as system:
        session = system.session("s")
        while (row := store.session("s")) is None or row.version < upto:
            session.send("go on").result(WAIT)


class Watched:
    """Snapshots that tell when one was kept."""

    def __init__(self, store: EventStore) -> None:
        self._snapshots = store.snapshots
        self.kept = SimpleQueue[Snapshot]()
        self.latest, self.drop = self._snapshots.latest, self._snapshots.drop

    def keep(self, snapshot: Snapshot) -> bool:
        done = self._snapshots.keep(snapshot)
        self.kept.put(snapshot)
        return done


def test_a_session_that_grows_has_snapshots_each_at_twice_the_version_of_the_last(
    opened: EventStore,
) -> None:
    watched: Any = Watched(opened)
    opened.snapshots = watched  # type: ignore[misc]
    with ActorSystem(AGENT, store=opened) as system:
        session, taken = system.session("s"), list[Snapshot]()
        for due in (SHORTEST, 2 * SHORTEST):
            while (session_row := opened.session("s")) is None or session_row.version < due:
                session.send("go on").result(WAIT)
            taken.append(watched.kept.get(timeout=WAIT))
    first, second = (each.version for each in taken)
    assert SHORTEST <= first < 2 * SHORTEST <= second
    assert watched.kept.empty()
    row = opened.session("s")
    assert row is not None
    assert sum(len(each.payload) for each in taken) < 2 * row.size


def test_a_session_opened_from_a_snapshot_is_what_its_events_say_and_goes_on(
    opened: EventStore,
) -> None:
    hold(opened, 300)
    take_snapshot(opened, "s")
    hold(opened, 350)
    events = [each.event for each in records(opened)]
    known = read_on(opened, "s", Known())
    assert known.begun >= 300
    assert known.state == fold(events) and known.version == len(events)
    hold(opened, 400)
    assert verify(opened.read("s"), read_on(opened, "s", Known()).prev) is None
    row = opened.session("s")
    assert row is not None and row.head == read_on(opened, "s", Known()).prev


def records(store: EventStore) -> list[Any]:
    with ActorSystem(AGENT, store=store) as system:
        return list(system.session("s").events())


def test_every_version_is_the_same_with_snapshots_and_without(opened: EventStore) -> None:
    for upto in (60, 120, 180):
        hold(opened, upto)
        take_snapshot(opened, "s")
    events = [each.event for each in records(opened)]
    with ActorSystem(AGENT, store=opened) as system:
        session = system.session("s")
        for version in range(1, len(events) + 1):
            view = session.at(version=version)
            assert view.folded == fold(events[:version])
            assert view.usage == fold_usage(events[:version])
            assert read_fold(opened, "s", version).version == version


def test_a_snapshot_that_can_not_be_used_is_as_good_as_none(opened: EventStore) -> None:
    hold(opened, 100)
    whole = read_fold(opened, "s")
    damaged = [b"", b"no snapshot", b"\0" * 500]
    for payload in damaged:
        opened.snapshots.keep(Snapshot("s", 100, FOLD, payload))
        assert latest_fold(opened, "s") is None
        assert read_fold(opened, "s") == whole
    take_snapshot(opened, "s")
    kept = opened.snapshots.latest("s", fold=FOLD)
    assert kept is not None
    opened.snapshots.drop("s")
    opened.snapshots.keep(kept._replace(version=kept.version - 1))
    assert latest_fold(opened, "s") is None, "it is of another version than it says"
    opened.snapshots.keep(kept._replace(fold=FOLD + 1))
    assert read_fold(opened, "s") == whole


def test_a_snapshot_of_another_fold_is_not_used(
    opened: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(opened, 100)
    take_snapshot(opened, "s")
    assert latest_fold(opened, "s") is not None
    monkeypatch.setattr("turnstream.actors.snapshotting.FOLD", FOLD + 1)
    assert latest_fold(opened, "s") is None


def test_a_store_that_can_not_keep_a_snapshot_fails_nobody(
    opened: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(Watched):
        def keep(self, snapshot: Snapshot) -> bool:
            raise StoreUnavailable("the disk is full")

    hold(opened, 20)
    full: Any = Full(opened)
    opened.snapshots = full  # type: ignore[misc]
    with caplog.at_level(logging.WARNING):
        take_snapshot(opened, "s")
    assert "store-unavailable" in caplog.text
    hold(opened, 40)


def test_a_session_with_values_that_json_lacks_is_folded_from_its_start(
    opened: EventStore,
) -> None:
    @tool
    def strange() -> float:
        return 1.0

    answers = [
        ModelTurn(tool_calls=(call("strange", x=float("nan")),)),
        ModelTurn("done"),
    ]
    agent = Agent("agent", model=lambda request: answers.pop(0), tools=[strange])
    with ActorSystem(agent, store=opened) as system:
        assert system.session("s").send("go").result(WAIT).text == "done"
    take_snapshot(opened, "s")
    assert opened.snapshots.latest("s", fold=FOLD) is None
    assert len(read_fold(opened, "s").state.transcript) == 4


def test_a_fork_of_a_session_with_snapshots_begins_as_its_source(opened: EventStore) -> None:
    hold(opened, 100)
    take_snapshot(opened, "s")
    with ActorSystem(AGENT, store=opened) as system:
        session: Session = system.session("s")
        fork = session.fork(version=100)
        assert fork.messages == session.at(version=100).messages
        assert latest_fold(opened, fork.id) is None
        assert verify(opened.read(fork.id)) is None


def test_emptying_the_table_of_snapshots_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with closing(open_store(f"sqlite:///{path}")) as store:
        hold(store, 100)
        take_snapshot(store, "s")
        before = read_fold(store, "s")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("DELETE FROM snapshots").rowcount == 1
        connection.commit()
    with closing(open_store(f"sqlite:///{path}")) as store:
        assert read_fold(store, "s") == before


def test_a_snapshot_that_is_not_the_fold_of_its_events_is_found_by_the_audit(
    opened: EventStore,
) -> None:
    hold(opened, 60)
    take_snapshot(opened, "s")
    assert [each.findings for each in audit_store(opened)] == [[], [], []]
    folded = read_fold(opened, "s", 40)
    for false in (
        Folded(folded.version + 1, folded.prev, folded.state, folded.usage),
        Folded(folded.version, "another", folded.state, folded.usage),
    ):
        payload = dump_snapshot(false)
        assert payload is not None
        opened.snapshots.drop("s")
        opened.snapshots.keep(Snapshot("s", false.version, FOLD, payload))
        (finding,) = [each for looked in audit_store(opened) for each in looked.findings]
        assert (finding.kind, finding.session_id, finding.version) == (
            "snapshot",
            "s",
            false.version,
        )
    opened.snapshots.drop("s")
    assert [each.findings for each in audit_store(opened)] == [[], [], []]
