"""Listings are made anew from the events, whatever became of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from msgspec.structs import replace
from places import on_files_too

from turnstream.actors import (
    ActorSystem,
    Agent,
    audit_store,
    import_transcript,
    restore_rows,
    tool,
)
from turnstream.actors.recording import Known, append_after, read_on
from turnstream.actors.restoring import NAME, row_of
from turnstream.actors.testing import call
from turnstream.events import (
    CorruptEvent,
    ForkOrigin,
    ModelFailed,
    ModelTurn,
    SessionStarted,
    StateChanged,
    WrongExpectedVersion,
)
from turnstream.projections import evolve
from turnstream.stores import Append, EventStore, RowChange, SessionRow, open_store
from turnstream.stores.specimens import NOON, append_of, event

pytestmark = on_files_too

WAIT = 20


@tool(needs_approval=True)
def remove(path: Any) -> str:
    """Remove."""
    return f"removed {path}"


def model(request: Any) -> Any:
    said = str(request.messages)
    if "fail" in said:
        raise ConnectionError("away")
    calls = (call("remove", path=float("nan")), call("remove", path="\ud83d"))
    return ModelTurn(tool_calls=calls) if "ask" in said else "done"


@pytest.fixture(name="opened")
def _opened(store: str) -> Iterator[EventStore]:
    """A store with sessions of every kind in it."""
    with closing(open_store(store)) as opened:
        agent = Agent("planner", model=model, tools=[remove])
        with ActorSystem(agent, store=opened, on_failure="keep") as system:
            for sid, said in (("done", "hello"), ("asks", "ask"), ("ä/'", "hi")):
                system.session(sid, tenant="acme").send(said).result(WAIT)
            with pytest.raises(ModelFailed):
                system.session("failed").send("fail").result(WAIT)
        import_transcript([{"role": "user", "content": "a"}], opened, "imported")
        fork(opened, "asks", "fork")
        fork(opened, "fork", "fork of the fork")
        opened.append(append_of("gone", 0, "x"))
        opened.delete("gone")
        yield opened


def fork(store: EventStore, source: str, session_id: str) -> None:
    """A stream that begins as another one does."""
    known = read_on(store, source, Known())
    origin = ForkOrigin(source, known.version)
    mark = SessionStarted(at=NOON, agent="planner", tenant="acme", forked_from=origin)
    append, _ = append_after(known, session_id, [mark], evolve(known.state, mark))
    store.append(replace(append, copied=origin))


def listed(store: EventStore) -> dict[str, str]:
    """Rows as text: numbers that are no numbers equal nothing."""
    return {row.session_id: repr(row) for row in store.sessions()}


def damage(store: EventStore) -> int:
    """Make every row say something else; how many there are."""
    rows = store.sessions()
    for number, row in enumerate(rows):
        wrong: tuple[SessionRow, ...] = (
            replace(row, status="aborted", tenant="other"),
            replace(row, agent="", head=""),
            replace(row, created=NOON - timedelta(days=1), approvals=()),
            replace(row, updated=NOON, size=0),
            replace(row, forked_from=ForkOrigin("nobody", 1)),
        )
        assert store.restore(wrong[number % 5])
    return len(rows)


def test_a_row_is_what_its_events_say(opened: EventStore) -> None:
    rows = listed(opened)
    assert len(rows) == 7
    assert {sid: repr(row_of(opened, sid)) for sid in rows} == rows
    statuses = {row.status for row in opened.sessions()}
    assert statuses == {"aborted", "awaiting-approval", "failed", "idle", "running"}
    assert row_of(opened, "nobody") is None and row_of(opened, "gone") is None


def test_rows_that_differ_are_put_right(opened: EventStore) -> None:
    before = listed(opened)
    assert restore_rows(opened).differed == 0
    count = damage(opened)
    assert not set(listed(opened).values()) & set(before.values())
    restored = restore_rows(opened)
    assert (restored.sessions, restored.differed, restored.unreadable) == (7, count, 0)
    assert restored.events == len(opened.read_all(limit=10**6))
    assert listed(opened) == before
    assert restore_rows(opened).differed == 0


def test_what_was_put_right_is_found_right_by_an_audit(opened: EventStore) -> None:
    def faults() -> set[tuple[str, str]]:
        audited = [each for found in audit_store(opened) for each in found.findings]
        return {(each.session_id, each.reason) for each in audited if each.is_fault}

    before = faults()
    damage(opened)
    assert len(faults() - before) >= 4
    restore_rows(opened)
    assert faults() <= before


def test_a_stream_without_a_row_gets_one_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    agent = Agent("echo", model=lambda request: "hi")
    with (
        closing(open_store(f"sqlite:///{path}")) as store,
        ActorSystem(agent, store=store) as system,
    ):
        for sid in ("a", "b"):
            system.session(sid).send("hello").result(WAIT)
        before = listed(store)
        with closing(sqlite3.connect(path)) as other:
            other.execute("DELETE FROM sessions WHERE id = 'a'")
            other.commit()
        assert set(listed(store)) == {"b"}
        assert len(store.read("a")) > 0
        assert restore_rows(store).differed == 1
        assert listed(store) == before
    with ActorSystem(agent, store=f"sqlite:///{path}") as system:
        assert len(system.session("a").send("again").result(WAIT).messages) == 4


def test_a_deleted_session_stays_deleted(opened: EventStore) -> None:
    restore_rows(opened)
    assert opened.session("gone") is None and "gone" not in listed(opened)


def test_what_is_interrupted_after_any_page_goes_on(
    opened: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstream.actors.restoring.PAGE", 2)
    before = listed(opened)
    total = len(opened.read_all(limit=10**6))
    damage(opened)
    reached = 0
    for _ in range(3):
        told: list[tuple[int, int]] = []

        def interrupt(done: int, end: int, told: list[tuple[int, int]] = told) -> None:
            told.append((done, end))
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            restore_rows(opened, interrupt)
        assert told == [(reached + 2, 7)]
        reached = told[0][0]
    assert listed(opened) != before
    restored = restore_rows(opened)
    assert (restored.sessions, restored.differed, restored.events) == (7, 7, total)
    assert listed(opened) == before
    assert opened.read_models.find(NAME, live=False) is None


@pytest.mark.slow
def test_live_writers_are_not_held_up_and_win(opened: EventStore) -> None:
    over = Event()
    version = {"live": 0}

    def write() -> None:
        known = Known()
        # In memory one writer outruns whoever reads what it writes.
        while not over.is_set() and known.version < 2_000:
            said = (
                SessionStarted(at=NOON, agent="live")
                if known.version == 0
                else StateChanged(at=NOON, value=known.version)
            )
            append, known = append_after(known, "live", [said], evolve(known.state, said))
            version["live"] = opened.append(append).version

    writer = Thread(target=write)
    writer.start()
    for _ in range(10):
        row = opened.session("live")
        if row is not None:
            opened.restore(replace(row, tenant="wrong", size=1))
        restore_rows(opened)
    over.set()
    writer.join(WAIT)
    restore_rows(opened)
    row = opened.session("live")
    assert row is not None and row.version == version["live"] == len(opened.read("live"))
    assert repr(row) == repr(row_of(opened, "live"))


def test_a_stream_that_cannot_be_read_is_told_of_and_keeps_its_row(opened: EventStore) -> None:
    change = RowChange("running", "planner", NOON)
    opened.append(Append("broken", 0, (event("{", "turn_started"),), change))
    before = listed(opened)
    damaged = damage(opened) - 1
    kept = repr(opened.session("broken"))
    errors: list[CorruptEvent] = []
    restored = restore_rows(opened, complain=errors.append)
    assert (restored.sessions, restored.differed, restored.unreadable) == (8, damaged, 1)
    assert [(error.session_id, error.version) for error in errors] == [("broken", 1)]
    assert listed(opened) == {**before, "broken": kept}


def test_the_row_of_a_stream_that_a_newer_version_wrote_stays_as_it_is(opened: EventStore) -> None:
    row = opened.session("done")
    assert row is not None
    newer = RowChange("awaiting-approval", "newer", NOON, "acme", head="digest")
    opened.append(Append("done", row.version, (event("{}", "asked_by_newer"),), newer))
    written = repr(opened.session("done"))
    assert restore_rows(opened).differed == 0
    assert repr(opened.session("done")) == written


def test_a_stream_without_a_row_takes_no_append_until_it_has_one(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.append(append_of("s", 0, "a"))
        with closing(sqlite3.connect(path)) as other:
            other.execute("DELETE FROM sessions")
            other.commit()
        with pytest.raises(WrongExpectedVersion):
            store.append(append_of("s", 1, "b"))
