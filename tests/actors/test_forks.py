"""A fork begins as a copy of another session, goes on by itself, and leaves its source as it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from places import on_durable_stores, on_files_too
from sending import events
from travelling import WAIT, assert_sound, resumed, stored, texts

from turnstream.actors import ActorSystem, Agent, Session, ToolContext, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    ApprovalNotFound,
    ApprovalRequested,
    CheckpointNotFound,
    EncodedEvent,
    InputQueued,
    ModelFailed,
    ModelTurn,
    SessionDeleted,
    SessionNotFound,
    SessionReadOnly,
    SessionStarted,
    ToolCallStarted,
    ToolMessage,
    TurnStarted,
    Usage,
)
from turnstream.stores import Append, EventStore, MemoryStore, RowChange
from turnstream.stores.specimens import NOON

pytestmark = on_files_too

Run = Callable[..., ActorSystem]

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@tool(needs_approval=True)
def remove(context: ToolContext, path: str) -> str:
    """Remove."""
    ran.append(context.session_id)
    return f"removed {path}"


def settled(session: Session) -> Session:
    session.send("hello").result(WAIT)
    return session


class TestARunningSource:
    """Its last call is under way while it is forked, and while the fork goes on."""

    def test_each_runs_the_call_that_has_no_result_for_itself(
        self, opened: EventStore, run: Run, led: Any, held: Any
    ) -> None:
        keys: dict[str, str] = {}

        @tool(name="done")
        def done(context: ToolContext) -> str:
            keys[context.session_id] = context.idempotency_key
            return "done"

        @tool(name="slow")
        async def slow(context: ToolContext, text: str) -> str:
            keys[context.session_id] = context.idempotency_key
            return str(await held.tools[0].fn(text))

        system = run([], model=led, tools=[done, slow], on=opened)
        source = system.session("s")
        first = source.send("one")
        led.asked().answer("first")
        first.result(WAIT)
        turn = source.send("two")
        led.asked().answer([call("done", "c1"), call("slow", "c2", text="x")])
        held.begun("x")
        next(item for item in turn.stream() if item.type == "tool.result")
        before = stored(opened, "s")

        clean = source.fork()
        assert (clean.status, texts(clean.messages), clean.pending()) == (
            *("idle", ["one", "first"]),
            None,
        )
        fork = source.fork(step=2)
        pending = fork.pending()
        assert pending is not None and [each.id for each in pending.calls] == ["c2"]
        assert fork.status == "aborted" and pending.code == "forked"

        there = resumed(fork)
        held.begun("x")
        assert stored(opened, "s") == before
        held.let("x")
        for each, answer in ((led.asked(), "a"), (led.asked(), "b")):
            each.answer(f"{each.request.session_id} {answer}")
        assert there.result(WAIT).text.startswith(fork.id)
        assert turn.result(WAIT).text.startswith("s ")
        assert stored(opened, "s")[: len(before)] == before
        started = events(fork, ToolCallStarted)
        assert [(each.call_id, each.attempt) for each in started][-1] == ("c2", 1)
        assert keys["s"] != keys[fork.id]
        assert_sound(opened, "s", fork.id, clean.id)


def test_results_are_not_run_again(opened: EventStore, run: Run) -> None:
    script = [[call("add", "c1", a=1, b=2)], "three", "three again"]
    session = run(script, on=opened).session("s")
    session.send("1 + 2?").result(WAIT)
    fork = session.fork(step=1)
    assert resumed(fork).result(WAIT).text == "three again"
    assert len(events(fork, ToolCallStarted)) == 1
    assert [m.content for m in fork.messages if isinstance(m, ToolMessage)] == ["3"]


class TestQuestions:
    """Decisions are not copied; what they led to is."""

    def decided(self, run: Run, opened: EventStore) -> tuple[ActorSystem, Session]:
        script = [[call("remove", "c1", path="x")], "done", "f1", "f2", "f3"]
        system = run(script, on=opened, tools=[remove])
        session = system.session("s")
        session.send("go").result(WAIT)
        (asked,) = system.approvals()
        session.approve(asked.id, by="ada").result(WAIT)
        return system, session

    def test_a_fork_before_the_result_asks_anew_under_an_id_of_its_own(
        self, opened: EventStore, run: Run
    ) -> None:
        system, session = self.decided(run, opened)
        before = stored(opened, "s")
        versions = [
            n
            for n, each in enumerate(session.events(), 1)
            if each.topic in ("approval_requested", "approval_resolved", "tool_call_started")
        ]
        for version in versions:
            fork = session.fork(version=version)
            assert system.approvals() == []
            result = resumed(fork).result(WAIT)
            (asked,) = result.approvals
            assert (result.finish_reason, asked.session_id) == ("awaiting-approval", fork.id)
            assert ran == ["s"]
            with pytest.raises(ApprovalNotFound):
                fork.approve(events(session, ApprovalRequested)[0].approval_id).result(WAIT)
            assert fork.reject(asked.id).result(WAIT).finish_reason == "stop"
        assert ran == ["s"] and len(versions) == 3
        assert stored(opened, "s") == before

    def test_a_fork_after_the_result_neither_asks_nor_runs(
        self, opened: EventStore, run: Run
    ) -> None:
        system, session = self.decided(run, opened)
        fork = session.fork(step=1)
        assert resumed(fork).result(WAIT).text == "f1"
        assert ran == ["s"] and system.approvals() == []

    def test_a_fork_of_a_paused_session_asks_in_both_and_each_decides_for_itself(
        self, opened: EventStore, run: Run
    ) -> None:
        script = [[call("remove", "c1", path="x")], "done", "done too"]
        system = run(script, on=opened, tools=[remove])
        session = system.session("s")
        session.send("go").result(WAIT)
        fork = session.fork(version=session.version)
        assert [each.session_id for each in system.approvals()] == ["s"]
        assert resumed(fork).result(WAIT).finish_reason == "awaiting-approval"
        mine = {each.session_id: each for each in system.approvals()}
        assert set(mine) == {"s", fork.id}
        system.approve(mine[fork.id].id).result(WAIT)
        assert ran == [fork.id] and session.status == "awaiting-approval"
        system.approve(mine["s"].id).result(WAIT)
        assert ran == [fork.id, "s"]


class TestAnOpenTurn:
    """It rests in the fork until somebody goes on with it."""

    def forked(self, system: ActorSystem) -> Session:
        session = system.session("s")
        session.send("1 + 2?").result(WAIT)
        return session.fork(step=1, session_id="fork")

    script = ([call("add", "c1", a=1, b=2)], "three", "going on", "and more")

    def test_nobody_goes_on_with_it_by_accident(self, opened: EventStore, run: Run) -> None:
        system = run(list(self.script), on=opened)
        fork = self.forked(system)
        assert system.resume_all() == []
        assert fork.status == "aborted" and fork.messages == []
        assert [each.session_id for each in system.sessions("aborted")] == ["fork"]

    @pytest.mark.parametrize("way", ["resume", "send", "execute", "again"])
    def test_whoever_asks_for_it_goes_on(self, opened: EventStore, run: Run, way: str) -> None:
        fork = self.forked(run(list(self.script), on=opened))
        turns = {
            "resume": lambda: resumed(fork),
            "send": lambda: fork.send("more"),
            "execute": lambda: fork.execute("more"),
            "again": lambda: fork.send("1 + 2?"),
        }
        result = turns[way]().result(WAIT)
        assert result.text == ("and more" if way == "send" else "going on")
        heard = {"send": 2, "execute": 2}.get(way, 1)
        assert sum(each == "user" for each in [m.__struct_config__.tag for m in fork.messages]) == (
            heard
        )

    def test_it_can_be_dropped(self, opened: EventStore, run: Run) -> None:
        fork = self.forked(run(list(self.script), on=opened))
        assert fork.discard_pending().result(WAIT) is True
        assert (fork.status, fork.messages, fork.pending()) == ("idle", [], None)

    def test_an_older_node_may_go_on_with_it(self, opened: EventStore, run: Run) -> None:
        older = run(["older"], on=opened)
        younger = run(list(self.script), on=opened)
        self.forked(younger)
        assert resumed(older.session("fork")).result(WAIT).text == "older"

    @on_durable_stores
    def test_a_later_process_goes_on_with_it(self, store: str, run: Run) -> None:
        with ActorSystem(Agent("agent", model=ScriptedModel(["hi"])), store=store) as first:
            settled(first.session("s")).fork(version=3, session_id="fork")
        assert resumed(run(["later"]).session("fork")).result(WAIT).text == "later"


class TestBudgets:
    """A fork has what was left."""

    def test_steps(self, opened: EventStore, run: Run) -> None:
        script: list[Any] = [[call("add", f"c{n}", a=n, b=n)] for n in range(9)]
        session = run(script, on=opened, max_steps=3).session("s")
        assert session.send("go").result(WAIT).finish_reason == "max-steps"
        for step in (1, 2, 3):
            result = resumed(session.fork(version=session.at(step=step).version - 1)).result(WAIT)
            assert (result.finish_reason, result.steps) == ("max-steps", 3)

    def test_tokens(self, opened: EventStore) -> None:
        turns = [ModelTurn(text, usage=Usage(60, 0)) for text in "abc"]
        agent = Agent("agent", model=ScriptedModel(turns), session_token_budget=100)
        with ActorSystem(agent, store=opened) as system:
            session = system.session("s")
            session.send("x").result(WAIT)
            fork = session.fork()
            assert fork.send("y").result(WAIT).finish_reason == "stop"
            assert fork.send("z").result(WAIT).finish_reason == "budget"
            usage = fork.at(version=fork.version).usage
            assert (usage.recorded, usage.inherited) == (Usage(120, 0), Usage(60, 0))
            nested = fork.fork()
            inherited = nested.at(version=nested.version).usage.inherited
            assert inherited == Usage(120, 0)
            assert session.usage == Usage(60, 0)


def test_a_key_stands_for_the_same_input_in_the_fork(opened: EventStore, run: Run) -> None:
    session = run(["one", "two"], on=opened).session("s")
    session.send("x", key="k").result(WAIT)
    fork = session.fork()
    assert fork.send("x", key="k").result(WAIT).text == "one"
    assert fork.send("y", key="j").result(WAIT).text == "two"
    assert [each.key for each in events(session, InputQueued)] == ["k"]


def test_inputs_that_wait_are_copied_and_run_in_each(
    opened: EventStore, run: Run, led: Any
) -> None:
    session = run([], model=led, on=opened).session("s")
    turns = [session.send("one")]
    first = led.asked()
    turns.append(session.send("two", policy="wait"))
    turns[1].accepted().result(WAIT)
    fork = session.fork(version=session.version)
    pending = fork.pending()
    assert pending is not None and pending.queued == ("two",)
    first.answer("a")
    led.asked().answer("b")
    assert [each.result(WAIT).text for each in turns] == ["a", "b"]
    going_on, last = resumed(fork), fork.send("three")
    for answer in "cde":
        led.asked().answer(answer)
    assert (going_on.result(WAIT).text, last.result(WAIT).text) == ("c", "e")
    assert texts(fork.messages) == ["one", "c", "two", "d", "three", "e"]


def test_what_a_later_version_wrote_is_copied_and_can_be_read(opened: EventStore, run: Run) -> None:
    session = settled(run(["hi"], on=opened).session("s"))
    row = RowChange("idle", "agent", NOON)
    unknown = (EncodedEvent("from_later", b'{"x":1}'),)
    opened.append(Append("s", session.version, unknown, row))
    fork = session.fork(version=session.version)
    assert texts(fork.messages) == ["hello", "hi"]
    assert stored(opened, fork.id)[-2][3:] == stored(opened, "s")[-1][3:]
    with pytest.raises(SessionReadOnly):
        fork.send("more").result(WAIT)
    assert session.fork(version=session.version - 1).send("more") is not None


def test_a_deleted_session_can_not_be_forked_and_its_forks_go_on(
    opened: EventStore, run: Run
) -> None:
    session = settled(run(["hi", "more"], on=opened).session("s"))
    one, two = session.fork(), session.fork()
    opened.delete("s")
    with pytest.raises((SessionNotFound, SessionDeleted)):
        session.fork()
    assert one.send("and?").result(WAIT).text == "more"
    lineage = one.lineage()
    assert (lineage.session_id, lineage.deleted) == ("s", True)
    assert [each.session_id for each in lineage.forks] == [one.id, two.id]


def test_a_fork_of_a_fork_of_a_fork(opened: EventStore, run: Run) -> None:
    session = settled(run(list("abcdef"), on=opened).session("s"))
    chain = [session]
    for text in ("x", "y", "z"):
        chain.append(chain[-1].fork())
        chain[-1].send(text).result(WAIT)
    assert [each.id for each in chain] == ["s", "s.fork-1", "s.fork-1.fork-1",
                                           "s.fork-1.fork-1.fork-1"]  # fmt: skip
    assert texts(chain[-1].messages) == ["hello", "a", "x", "b", "y", "c", "z", "d"]
    origins = [each.forked_from for each in events(chain[-1], SessionStarted)]
    assert [each.session_id if each else None for each in origins] == [
        *(None, "s", "s.fork-1", "s.fork-1.fork-1"),
    ]
    for handle in chain:
        line = handle.lineage()
        assert line.session_id == "s" and line.forks[0].forks[0].forks[0].session_id == chain[3].id
        assert line.forks[0].version == chain[0].version
    assert_sound(opened, *[each.id for each in chain])


def test_a_session_in_its_first_turn_forks_before_it(
    opened: EventStore, run: Run, led: Any
) -> None:
    session = run([], model=led, on=opened).session("s")
    session.send("one").accepted().result(WAIT)
    fork = session.fork()
    assert (fork.messages, fork.pending(), fork.status) == ([], None, "idle")
    assert fork.at(version=1).version == 1


def test_a_stream_that_was_never_settled_has_no_default_point(run: Run) -> None:
    store = MemoryStore()
    row = RowChange("idle", "agent", NOON)
    queued = EncodedEvent(
        "input_queued", b'{"input_id":"i","content":"x","at":"2026-01-01T00:00:00Z"}'
    )
    store.append(Append("s", 0, (queued,), row))
    with pytest.raises(CheckpointNotFound):
        run([], on=store).session("s").fork()
    assert [each.session_id for each in store.sessions()] == ["s"]


def test_a_failed_turn_can_be_forked_and_tried_there(opened: EventStore, run: Run) -> None:
    script = [ConnectionError("no route"), "there it works", "here too"]
    session = run(script, on=opened, on_failure="keep").session("s")
    with pytest.raises(ModelFailed):
        session.send("go").result(WAIT)
    fork = session.fork(step=0)
    assert resumed(fork).result(WAIT).text == "there it works"
    assert session.status == "failed"
    assert resumed(session).result(WAIT).text == "here too"


def test_a_fork_keeps_agent_and_tenant(opened: EventStore) -> None:
    agents = [Agent(name, model=ScriptedModel([name] * 3)) for name in ("one", "two")]
    with ActorSystem(agents, store=opened) as system:
        source = settled(system.session("s", agent="two", tenant="acme"))
        fork = system.session("s").fork()
        assert system.session(fork.id).send("x").result(WAIT).text == "two"
        (row,) = system.sessions(agent="two", tenant="acme", limit=1)
        assert row.session_id == fork.id and row.forked_from is not None
        assert row.forked_from.version == source.version
        assert len(events(fork, TurnStarted)) == 2


def test_the_past_of_a_fork_is_that_of_its_source(opened: EventStore, run: Run) -> None:
    session = run(["a", "b", "c"], on=opened).session("s")
    for text in "xyz":
        session.send(text).result(WAIT)
    fork = session.fork(step=2)
    for version in range(1, session.at(step=2).version + 1):
        assert fork.at(version=version).folded == session.at(version=version).folded
    assert fork.at(time=datetime.now(UTC)).version == fork.version
