"""A deleted session is gone, for everybody and for good, and nobody waits for it for ever."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from composing import conversation, put
from places import on_durable_stores, on_files_too

from turnstream.actors import ActorSystem, Session, Turn, tool
from turnstream.actors.recording import Known, append_after, read_on
from turnstream.actors.testing import call
from turnstream.events import (
    ApprovalNotFound,
    ForkOrigin,
    InputQueued,
    ModelTurn,
    SessionDeleted,
    ToolResultRecorded,
    TurnTakenOver,
)
from turnstream.projections import evolve
from turnstream.stores import Append, EventStore, RowChange, open_store
from turnstream.stores.specimens import ALIKE, NOON, event, together

pytestmark = on_files_too

WAIT = 20
Run = Callable[..., ActorSystem]


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


def reading(place: EventStore | str) -> EventStore:
    return open_store(place) if isinstance(place, str) else place


def fork(store: EventStore, session: Session, version: int, session_id: str) -> None:
    change = RowChange("idle", "agent", NOON)
    origin = ForkOrigin(session.id, version)
    store.append(Append(session_id, version, (event("{}"),), change, origin))


def test_everything_of_a_session_goes_and_its_forks_stay(run: Run, place: Any) -> None:
    script = [[call("remove", path="a")], "other"]
    system, store = run(script, tools=[remove], on=place), reading(place)
    session = system.session("s")
    assert session.send("go").result(WAIT).finish_reason == "awaiting-approval"
    (approval,) = system.approvals()
    store_append_input(store, session)
    fork(store, session, 3, "fork-1")
    fork(store, session, 5, "fork-2")
    kept = {each: store.read(each) for each in ("fork-1", "fork-2")}

    assert session.delete().result(WAIT) is True

    assert list(store.read("s")) == [] and store.session("s") is None
    assert {each.session_id for each in system.sessions()} == {"fork-1", "fork-2"}
    assert list(system.approvals()) == []
    assert {each.session_id for each in store.read_all()} == {"fork-1", "fork-2"}
    assert {each: store.read(each) for each in kept} == kept
    assert session.pending() is None and session.messages == [] and session.version == 0
    with pytest.raises(ApprovalNotFound):
        system.approve(approval.id).result(WAIT)
    with pytest.raises(SessionDeleted):
        session.send("again").result(WAIT)
    assert session.delete().result(WAIT) is False


def store_append_input(store: EventStore, session: Session) -> None:
    """An input from elsewhere, which waits."""
    known = read_on(store, session.id, Known())
    waiting = InputQueued(at=NOON, input_id="later", content="later")
    append, _ = append_after(known, session.id, [waiting], evolve(known.state, waiting))
    store.append(append)


@pytest.mark.parametrize("name", ["held", "held_sync"])
def test_a_session_deleted_while_a_tool_runs_takes_no_late_result(
    run: Run, held: Any, name: str, place: Any
) -> None:
    system, store = (
        run([[call(name, text="x")], "done"], tools=held.tools, on=place),
        reading(place),
    )
    session = system.session("s")
    turn, waiting = session.send("go"), session.send("and then")
    held.begun("x")
    assert session.delete().result(WAIT)
    for each in (turn, waiting):
        with pytest.raises(SessionDeleted):
            each.result(WAIT)
    assert list(turn.stream())[-1].type == "turn.done"
    if name == "held":
        held.cancelled("x")
    held.let("x")
    other = system.session("other")
    assert other.delete().result(WAIT) is False  # whatever was told to the first was handled
    assert list(store.read_all()) == []
    with pytest.raises(SessionDeleted):
        session.send("again").result(WAIT)


def test_a_session_deleted_while_its_model_is_asked_fails_who_waits(run: Run, led: Any) -> None:
    session = run([], model=led).session("s")
    turn = session.send("go")
    asked = led.asked()
    assert session.delete().result(WAIT)
    with pytest.raises(SessionDeleted):
        turn.result(WAIT)
    assert asked.cancelled.wait(WAIT)
    assert session.version == 0


def test_a_live_session_deleted_elsewhere_fails_its_callers_at_its_next_append(
    run: Run, led: Any, place: Any
) -> None:
    here = run([], model=led, on=place).session("s")
    elsewhere = run(["x"], on=place).session("s")
    turn, waiting = here.send("go"), here.send("later")
    asked = led.asked()
    assert waiting.accepted().result(WAIT)
    assert elsewhere.delete().result(WAIT)
    asked.answer("too late")
    for each in (turn, waiting, here.send("again")):
        with pytest.raises(SessionDeleted):
            each.result(WAIT)
    assert here.version == 0


def test_a_session_is_deleted_after_a_crash_and_without_its_agent(run: Run, place: Any) -> None:
    store = reading(place)
    put(store, "s", conversation(2)[:-2])
    session = run(["x"], on=place).session("s")
    assert session.pending() is not None
    assert session.delete().result(WAIT)
    assert store.session("s") is None


@pytest.mark.slow
@pytest.mark.usefixtures("switching_often")
def test_whoever_sends_while_a_session_is_deleted_has_an_answer(run: Run, place: Any) -> None:
    """From two systems, one of which deletes."""
    one, other = (run([], model=lambda request: ModelTurn("hi"), on=place) for _ in range(2))
    names = [f"s{number}" for number in range(20)]
    answers: list[str] = []

    def answer(turn: Turn) -> str:
        try:
            return turn.result(WAIT).text
        except (SessionDeleted, TurnTakenOver) as error:
            return error.code

    def work(number: int) -> None:
        system = (one, other)[number % 2]
        for name in names:
            if number == 0:
                while system.session(name).version == 0:
                    pass
                assert system.session(name).delete().result(WAIT)
            else:
                turns = [system.session(name).send("go") for _ in range(3)]
                answers.extend(map(answer, turns))

    together(5, work)
    assert len(answers) == 4 * 3 * len(names)
    assert "session-deleted" in answers
    assert list(reading(place).read_all()) == [] and list(one.sessions()) == []


PROCESS = """
import sys, threading
from turnstream import ActorSystem, Agent, ModelTurn, tool
from turnstream.actors.testing import ScriptedModel, call

@tool
def hang() -> str:
    print("running", flush=True)
    threading.Event().wait()

agent = Agent("agent", model=ScriptedModel([[call("hang")]]), tools=[hang])
ActorSystem(agent, store=sys.argv[1]).session("s").send("go").result()
"""


@on_durable_stores
@pytest.mark.parametrize("what", ["delete", "discard_pending"])
def test_what_a_killed_process_left_behind_can_be_removed_at_once(
    run: Run, store: str, what: str
) -> None:
    command = [sys.executable, "-c", PROCESS, store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.kill()
    session = run(["fine"], on=store).session("s")
    pending = session.pending()
    assert pending is not None and len(pending.calls) == 1
    assert getattr(session, what)().result(WAIT) is True
    assert session.pending() is None
    if what == "discard_pending":
        assert session.send("again").result(WAIT).text == "fine"


def test_a_deletion_can_be_awaited(run: Run) -> None:
    async def main(session: Session) -> tuple[bool, bool]:
        await session.send("go")
        return await session.delete(), await session.delete()

    assert asyncio.run(main(run(["hi"]).session("s"))) == (True, False)


def test_ids_that_look_alike_are_deleted_apart(run: Run, place: Any) -> None:
    system, store = run([], on=place), reading(place)
    ids = [each for each in ALIKE if len(each) < 300]
    for each in ids:
        store.append(Append(each, 0, (event("{}"),), RowChange("idle", "agent", NOON)))
    for count, each in enumerate(ids, 1):
        assert system.session(each).delete().result(WAIT)
        assert {row.session_id for row in system.sessions()} == set(ids[count:])


@pytest.mark.slow
def test_450_sessions_are_deleted_at_once(run: Run, place: Any) -> None:
    system, store = run([], model=lambda request: ModelTurn("hi"), on=place), reading(place)
    sessions = [system.session(f"s{n}") for n in range(450)]
    for turn in [each.send("go") for each in sessions]:
        turn.result(WAIT)
    assert all(reply.result(WAIT) for reply in [each.delete() for each in sessions])
    assert list(system.sessions()) == [] and list(store.stream_ids()) == []


def test_nothing_of_a_deleted_session_is_left_in_the_file(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/own.db"
    system = run([[call("remove", path="a")]], tools=[remove], on=url)
    session = system.session("s")
    session.send("go").result(WAIT)
    with closing(sqlite3.connect(tmp_path / "own.db", isolation_level=None)) as connection:
        connection.execute("INSERT INTO snapshots VALUES ('s', 1, 1, x'00')")
        assert session.delete().result(WAIT)
        tables = ("stored_events", "snapshots")
        counts = [connection.execute(f"SELECT count(*) FROM {t}").fetchone() for t in tables]
        assert counts == [(0,), (0,)]
        (row,) = connection.execute("SELECT * FROM sessions").fetchall()
    assert row[0] == "s" and "remove" not in str(row)


def test_a_tool_may_delete_its_own_session(run: Run) -> None:
    systems: list[ActorSystem] = []

    @tool
    async def leave() -> str:
        """Leave."""
        await systems[0].session("s").delete()
        return "unheard"

    systems.append(run([[call("leave")], "done"], tools=[leave]))
    session = systems[0].session("s")
    with pytest.raises(SessionDeleted):
        session.send("go").result(WAIT)
    assert not any(isinstance(each.event, ToolResultRecorded) for each in session.events())
