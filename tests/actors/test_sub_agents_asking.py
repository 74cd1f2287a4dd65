"""Decisions that sub-agents wait for: seen from above, taken below, acted on in both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from families import WAIT, Works, children, family, results, wait_for
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, ApprovalShown, Hooks, Session, ToolContext, tool
from turnstream.actors.commands import Resolve
from turnstream.actors.parentage import child_id
from turnstream.actors.recording import record_decision
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AgentDrifted,
    ApprovalDecided,
    ApprovalNotFound,
    ApprovalResolved,
    CorruptEvent,
    SessionAwaitingApproval,
    StoreUnavailable,
    ToolCall,
    ToolCallStarted,
    Usage,
)
from turnstream.stores import MemoryStore, open_store

pytestmark = on_durable_stores

DEEP = "worker helper remove a | look b"


@pytest.fixture
def works() -> Works:
    return Works()


@pytest.fixture
def paused(works: Works, address: str) -> Iterator[ActorSystem]:
    """A system in which a question is asked two sessions below ``s``."""
    with ActorSystem(family(works), store=address) as system:
        result = system.session("s").send(DEEP).result(WAIT)
        assert result.finish_reason == "awaiting-approval"
        yield system


def line(system: ActorSystem) -> list[Session]:
    """``s``, its child, and that one's child."""
    (worker,) = children(system, "s")
    (helper,) = children(system, worker)
    return [system.session("s"), worker, helper]


def test_the_question_is_in_the_inbox_once_with_its_place(paused: ActorSystem) -> None:
    session, worker, helper = line(paused)
    (approval,) = paused.approvals()
    assert (approval.session_id, approval.tool, approval.arguments) == (
        helper.id, "remove", {"path": "a"},
    )  # fmt: skip
    assert (approval.within, approval.path) == (("s", worker.id), ("c1", "c1"))
    for each in (session, worker, helper):
        assert each.status == "awaiting-approval"
        pending = each.pending()
        assert pending is not None and pending.approvals == (approval,)


def test_nothing_else_happens_before_the_decision(paused: ActorSystem, works: Works) -> None:
    asked = list(works.asked)
    (approval,) = paused.approvals()
    for each in line(paused):
        with pytest.raises(SessionAwaitingApproval) as caught:
            each.send("more").result(WAIT)
        assert caught.value.approval_ids == (approval.id,)
    assert paused.resume_all() == []
    assert works.asked == asked and works.done == ["look b"]


@pytest.mark.parametrize("whose", range(4))
def test_it_can_be_decided_from_every_handle_above(
    paused: ActorSystem, works: Works, whose: int
) -> None:
    (approval,) = paused.approvals()
    asked = [*line(paused), paused][whose]
    turn = asked.approve(approval.id, by="mia")
    done = turn.result(WAIT)
    assert done.finish_reason == "stop"
    assert done.text == "boss: worker: helper: removed a; saw b"
    assert turn.session_id == "s" and done.usage == Usage(60, 6)
    assert works.done == ["look b", "a"]
    assert not paused.approvals() and all(each.status == "idle" for each in line(paused))


def test_a_handle_of_another_session_finds_no_such_question(paused: ActorSystem) -> None:
    (approval,) = paused.approvals()
    paused.session("t").send("look x").result(WAIT)
    with pytest.raises(ApprovalNotFound):
        paused.session("t").approve(approval.id).result(WAIT)
    assert paused.approvals() == [approval]


def test_a_rejection_is_read_by_the_one_that_asked(paused: ActorSystem, works: Works) -> None:
    (approval,) = paused.approvals()
    done = paused.reject(approval.id, note="not now").result(WAIT)
    assert done.finish_reason == "stop" and '"note":"not now"' in done.text
    assert works.done == ["look b"]


def test_edited_arguments_are_those_that_run(paused: ActorSystem, works: Works) -> None:
    (approval,) = paused.approvals()
    done = paused.session("s").approve(approval.id, arguments={"path": "z"}).result(WAIT)
    assert done.text == "boss: worker: helper: removed z; saw b"
    assert works.done[-1] == "z"


def test_a_decision_is_taken_once(paused: ActorSystem) -> None:
    (approval,) = paused.approvals()
    paused.approve(approval.id, by="mia").result(WAIT)
    for each in (paused, *line(paused)):
        with pytest.raises(ApprovalDecided) as caught:
            each.reject(approval.id).result(WAIT)
        assert (caught.value.decision, caught.value.by) == ("approved", "mia")


def test_it_is_decided_cold_and_everything_goes_on(address: str) -> None:
    first, second = Works(), Works()
    with ActorSystem(family(first), store=address) as system:
        system.session("s").send(DEEP).result(WAIT)
        (approval,) = system.approvals()
    with ActorSystem(family(second), store=address) as system:
        assert system.approvals() == [approval]
        done = system.approve(approval.id).result(WAIT)
        assert done.text == "boss: worker: helper: removed a; saw b"
        assert done.usage == system.session("s").usage == Usage(60, 6)
    assert first.done == ["look b"] and second.done == ["a"]
    assert not {each for each in first.asked if each in second.asked}


def test_where_no_agent_is_it_is_recorded_and_resumed_later(address: str) -> None:
    works = Works()
    with ActorSystem(family(works), store=address) as system:
        system.session("s").send(DEEP).result(WAIT)
        (approval,) = system.approvals()
    with closing(open_store(address)) as store:
        record_decision(store, Resolve(approval.id, "approved"), datetime.now(UTC))
    with ActorSystem(family(works), store=address) as system:
        (turn,) = system.resume_all()
        assert turn.session_id == "s"
        assert turn.result(WAIT).text == "boss: worker: helper: removed a; saw b"
    assert works.done == ["look b", "a"]


def test_several_children_are_decided_one_by_one(works: Works, address: str) -> None:
    text = "worker remove a & remove b | helper remove c | remove d"
    with ActorSystem(family(works), store=address) as system:
        session = system.session("s")
        listed = session.send(text).result(WAIT).approvals
        assert [each.arguments["path"] for each in listed] == ["a", "b", "c", "d"]
        assert {each.id for each in listed} == {each.id for each in system.approvals()}
        for number, each in enumerate(listed, 1):
            result = system.approve(each.id).result(WAIT)
            assert [left.id for left in result.approvals] == [left.id for left in listed[number:]]
            assert result.finish_reason == ("stop" if number == 4 else "awaiting-approval")
        assert sorted(works.done) == ["a", "b", "c", "d"]
        assert [each[0] for each in sorted(results(session))] == ["c1", "c2", "c3"]


def test_decisions_that_come_at_once_are_all_taken(works: Works, address: str) -> None:
    text = " | ".join(f"worker remove a{n} & helper remove b{n}" for n in range(4))
    with ActorSystem(family(works), store=address) as system:
        session = system.session("s")
        session.send(text).result(WAIT)
        turns = [system.approve(each.id) for each in system.approvals()]
        assert len(turns) == 8
        for turn in turns:
            turn.result(WAIT)
        wait_for(lambda: session.status == "idle")
        assert sorted(works.done) == sorted([f"{w}{n}" for w in "ab" for n in range(4)])
        assert len(results(session)) == 4 and not system.approvals()


def test_an_expired_question_is_rejected_below_and_the_parent_goes_on(address: str) -> None:
    @tool(needs_approval=True, approval_timeout=0.3)
    def remove(path: str) -> str:
        """Remove."""
        raise AssertionError

    worker = Agent("worker", model=ScriptedModel([[call("remove", path="a")], "I could not"]),
                   tools=[remove])  # fmt: skip
    boss = Agent("boss", model=ScriptedModel([[call("worker", "c1", input="x")], "so be it"]),
                 tools=[worker.as_tool()])  # fmt: skip
    with ActorSystem(boss, store=address) as system:
        session = system.session("s")
        assert session.send("go").result(WAIT).finish_reason == "awaiting-approval"
        wait_for(lambda: session.status == "idle")
        assert results(session) == [("c1", "ok", "I could not")]


def test_a_gated_sub_agent_begins_when_it_is_approved(address: str) -> None:
    works = Works()
    worker = Agent("worker", model=works.obeying("worker"), tools=works.tools())
    boss = Agent("boss", model=works.obeying("boss"), tools=[worker.as_tool(needs_approval=True)])
    with ActorSystem(boss, store=address) as system:
        session = system.session("s")
        (approval,) = session.send("worker remove a").result(WAIT).approvals
        assert (approval.session_id, approval.tool) == ("s", "worker")
        assert not children(system)
        (nested,) = session.approve(approval.id).result(WAIT).approvals
        assert nested.within == ("s",) and nested.tool == "remove"
        assert session.approve(nested.id).result(WAIT).text == "boss: worker: removed a"
    assert works.done == ["a"]


class Failing(MemoryStore):
    """A store that fails to read one session while ``broken`` names it."""

    broken = ""

    def replay(self, session_id: str, **bounds: Any) -> Any:
        if session_id == self.broken:
            raise StoreUnavailable("the disk is away")
        return super().replay(session_id, **bounds)

    def read(self, session_id: str, **bounds: Any) -> Any:
        if session_id == self.broken:
            raise StoreUnavailable("the disk is away")
        return super().read(session_id, **bounds)


@contextmanager
def restarted(store: Failing, works: Works) -> Iterator[ActorSystem]:
    with ActorSystem(family(works), store=store, on_failure="keep") as system:
        yield system


@pytest.mark.parametrize("which", range(3))
def test_a_decision_is_not_consumed_where_something_of_the_line_fails_to_load(which: int) -> None:
    store, works = Failing(), Works()
    with restarted(store, works) as system:
        system.session("s").send(DEEP).result(WAIT)
        (approval,) = system.approvals()
        ids = [each.id for each in line(system)]
    with restarted(store, works) as system:
        store.broken = ids[which]
        with pytest.raises((StoreUnavailable, CorruptEvent)):
            system.approve(approval.id).result(WAIT)
        store.broken = ""
        assert works.done == ["look b"]
        assert system.approvals() == [approval]
        assert not decided(system, ids[2])
        done = system.approve(approval.id).result(WAIT)
        assert done.text == "boss: worker: helper: removed a; saw b"
        assert works.done == ["look b", "a"]
        assert [each[0] for each in results(system.session("s"))] == ["c2", "c1"]
        for each in ids:
            found = [one[0] for one in results(system.session(each))]
            assert len(found) == len(set(found))


def test_a_sub_agent_whose_store_fails_is_no_result_but_a_turn_to_be_resumed() -> None:
    store, works = Failing(), Works()
    store.broken = child_id("s", "turn-1", "c1")
    with restarted(store, works) as system:
        session = system.session("s")
        with pytest.raises(StoreUnavailable):
            session.send("worker look a | look b").result(WAIT)
        assert session.status == "running" and "c1" not in [e[0] for e in results(session)]
        store.broken = ""
        resumed = session.resume()
        assert resumed is not None
        assert resumed.result(WAIT).text == "boss: worker: saw a; saw b"
        assert works.done.count("look a") == 1


def decided(system: ActorSystem, session_id: str) -> list[object]:
    found = [each.event for each in system.session(session_id).events()]
    return [each for each in found if isinstance(each, ApprovalResolved)]


def test_the_call_is_run_again_with_a_higher_attempt_and_no_new_session(
    paused: ActorSystem,
) -> None:
    (approval,) = paused.approvals()
    before = {row.session_id for row in paused.sessions()}
    paused.approve(approval.id).result(WAIT)
    assert {row.session_id for row in paused.sessions()} == before
    started = [
        each.event for each in paused.session("s").events()
        if isinstance(each.event, ToolCallStarted) and each.event.call_id == "c1"
    ]  # fmt: skip
    assert [each.attempt for each in started] == [1, 2]
    assert len({each.child for each in started}) == 1


def test_an_agent_that_changed_is_noticed_however_deep_it_is(address: str, works: Works) -> None:
    with ActorSystem(family(works), store=address) as system:
        system.session("s").send(DEEP).result(WAIT)
        (approval,) = system.approvals()
    changed = family(works, helper="Be brief.")
    with ActorSystem(changed, store=address, on_agent_drift="error") as system:
        with pytest.raises(AgentDrifted) as caught:
            system.approve(approval.id).result(WAIT)
        assert caught.value.changes == ("instructions",)
        assert system.approvals() == [approval] and works.done == ["look b"]
    with ActorSystem(family(works), store=address, on_agent_drift="error") as system:
        assert system.approve(approval.id).result(WAIT).finish_reason == "stop"


def test_a_stream_shows_the_question_of_a_sub_agent(address: str, works: Works) -> None:
    with ActorSystem(family(works), store=address) as system:
        items = list(system.session("s").send(DEEP).stream())
        (shown,) = [each for each in items if isinstance(each, ApprovalShown)]
        assert [shown.approval] == list(system.approvals())
        assert items[-1].type == "turn.done"


class Watching(Hooks):
    """Looks at the calls of sub-agents, and changes what they say."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_tool(self, context: ToolContext, call: ToolCall) -> None:
        self.seen.append(f"before {call.name}")

    def after_tool(self, context: ToolContext, call: ToolCall, outcome: str, content: Any) -> Any:
        self.seen.append(f"after {call.name}")
        return str(content).upper()


def test_hooks_see_a_sub_agent_s_result_and_no_pause(address: str, works: Works) -> None:
    watching = Watching()
    with ActorSystem(family(works, hooks=[watching]), store=address) as system:
        session = system.session("s")
        assert session.send("worker remove a").result(WAIT).finish_reason == "awaiting-approval"
        assert watching.seen == ["before worker"] and works.done == []
        done = system.approve(system.approvals()[0].id).result(WAIT)
        assert done.text == "boss: WORKER: REMOVED A"
        assert watching.seen == ["before worker", "before worker", "after worker"]
        assert done.usage == session.usage == Usage(40, 4)
