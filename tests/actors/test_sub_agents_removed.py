"""The sessions of sub-agents go with those that they work for."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from families import WAIT, Works, children, family
from places import on_durable_stores
from typer.testing import CliRunner

from turnstream.actors import ActorSystem, Agent, ModelRequest, prune
from turnstream.actors.cli import retaining
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import SessionDeleted, ToolCall
from turnstream.stores import EventStore, MemoryStore, open_store

pytestmark = on_durable_stores


def later(**delta: float) -> datetime:
    return datetime.now(UTC) + timedelta(**delta)


def grown(address: str, text: str = "worker helper look b | look c") -> set[str]:
    """A boss' session ``s``, of a turn with that text; all sessions there are then."""
    with ActorSystem(family(Works()), store=address) as system:
        system.session("other").send("look d").result(WAIT)
        system.session("s").send(text).result(WAIT)
        return {row.session_id for row in system.sessions()}


def test_a_deleted_session_takes_its_sub_agents_along(address: str) -> None:
    assert len(grown(address)) == 4
    with ActorSystem(family(Works()), store=address) as system:
        assert system.session("s").delete().result(WAIT) is True
        assert [row.session_id for row in system.sessions()] == ["other"]
        assert system.session("s").delete().result(WAIT) is False


def test_a_deleted_session_that_waits_for_a_decision_leaves_no_question(address: str) -> None:
    grown(address, "worker helper remove b | helper remove c")
    with ActorSystem(family(Works()), store=address) as system:
        assert len(system.approvals()) == 2
        assert system.session("s").delete().result(WAIT) is True
        assert not system.approvals()
        assert [row.session_id for row in system.sessions()] == ["other"]


def test_deleting_a_session_whose_sub_agent_works_asks_no_model_again(address: str) -> None:
    begun, release, asked = Event(), Event(), list[str]()

    def slow(request: ModelRequest) -> str:
        begun.set()
        release.wait(WAIT)
        return "late"

    def boss_model(request: ModelRequest) -> list[ToolCall]:
        asked.append(request.session_id)
        return [call("worker", "c1", input="go")]

    worker = Agent("worker", model=slow)
    boss = Agent("boss", model=ScriptedModel([boss_model] * 3), tools=[worker.as_tool()])
    with ActorSystem(boss, store=address) as system:
        turn = system.session("s").send("go")
        assert begun.wait(WAIT)
        assert system.session("s").delete().result(WAIT) is True
        with pytest.raises(SessionDeleted):
            turn.result(WAIT)
        release.set()
        assert asked == ["s"] and not system.sessions()


class Slow(MemoryStore):
    """A store that takes its time to delete sessions of sub-agents."""

    def __init__(self) -> None:
        super().__init__()
        self.release = Event()

    def delete(self, session_id: str, *, expected_version: int | None = None) -> int:
        assert session_id == "s" or self.release.wait(WAIT)
        return super().delete(session_id, expected_version=expected_version)


def test_a_session_stops_before_its_sub_agents_are_deleted() -> None:
    begun, store = Event(), Slow()

    async def endless(request: ModelRequest) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    worker = Agent("worker", model=endless)
    script = [[call("worker", "c1", input="go")]]
    boss = Agent("boss", model=ScriptedModel(script), tools=[worker.as_tool()])
    with ActorSystem(boss, store=store) as system:
        turn = system.session("s").send("go")
        assert begun.wait(WAIT)
        deleted = system.session("s").delete()
        with pytest.raises(SessionDeleted):
            turn.result(WAIT)
        assert len(system.sessions()) == 2
        store.release.set()
        assert deleted.result(WAIT) is True and not system.sessions()


def test_where_the_sub_agent_was_deleted_the_call_says_so(address: str) -> None:
    grown(address, "worker remove b")
    with ActorSystem(family(Works()), store=address) as system:
        session = system.session("s")
        (child,) = children(system, session)
        assert child.delete().result(WAIT) is True
        assert not system.approvals()
        (turn,) = system.resume_all()
        assert turn.result(WAIT).text == "boss: The session of the agent 'worker' was deleted."


def test_the_command_line_deletes_them_as_well(address: str) -> None:
    there = grown(address)
    done = CliRunner().invoke(retaining.app, ["delete", "s", "--yes", "--store", address])
    assert done.exit_code == 0, done.output
    assert set(done.output.replace(":", " ").split()) >= there - {"other"}
    with closing(open_store(address)) as store:
        assert [row.session_id for row in store.sessions()] == ["other"]


def test_they_are_pruned_with_the_session_and_not_before(opened: EventStore, address: str) -> None:
    grown(address)
    assert prune(opened, later(days=-1)).kept == {"recent": 2, "child": 2}
    planned = prune(opened, later(days=1), dry_run=True)
    assert planned.sessions == 4 and len(opened.sessions()) == 4 and not planned.kept
    assert prune(opened, later(days=1)) == planned
    assert not opened.sessions()


def test_a_session_whose_sub_agent_was_used_since_is_kept(opened: EventStore, address: str) -> None:
    grown(address, "worker look a")
    cut = later()
    with ActorSystem(family(Works()), store=address) as system:
        (child,) = children(system)
        assert child.send("look z").result(WAIT).text == "worker: saw z"
    assert prune(opened, cut).kept == {"recent": 1, "child": 1}


def test_a_session_in_whose_sub_agent_something_waits_is_kept(
    opened: EventStore, address: str
) -> None:
    grown(address, "worker look a")
    with ActorSystem(family(Works()), store=address) as system:
        (child,) = children(system)
        assert child.send("remove z").result(WAIT).finish_reason == "awaiting-approval"
    assert prune(opened, later(days=1)).kept == {"awaiting-approval": 1, "child": 1}


def test_one_that_failed_goes_with_its_session(opened: EventStore, address: str) -> None:
    worker = Agent("worker", model=ScriptedModel([RuntimeError("no")]))
    boss = Agent(
        "boss", model=ScriptedModel([[call("worker", input="x")], "so"]), tools=[worker.as_tool()]
    )
    with ActorSystem(boss, store=address) as system:
        system.session("s").send("go").result(WAIT)
        (child,) = children(system)
        assert child.status == "failed"
    assert prune(opened, later(days=1)).sessions == 2


def test_those_that_work_for_nobody_any_more_are_pruned_by_themselves(
    opened: EventStore, address: str
) -> None:
    grown(address)
    opened.delete("s")
    assert prune(opened, later(days=1)).sessions == 3
    assert not opened.sessions()


def test_a_fork_keeps_what_its_source_s_sub_agents_said(opened: EventStore, address: str) -> None:
    grown(address)
    with ActorSystem(family(Works()), store=address) as system:
        copy = system.session("s").fork(session_id="copy")
        assert system.session("s").delete().result(WAIT) is True
        assert {row.session_id for row in system.sessions()} == {"other", "copy"}
        assert copy.messages[-1].text == "boss: worker: helper: saw b; saw c"  # type: ignore[union-attr]
    with ActorSystem(family(Works()), store=address) as system:
        assert system.session("copy").delete().result(WAIT) is True
