"""What stops a turn stops its sub-agents; what copies it leaves them alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Event

import pytest
from families import WAIT, Works, children, family, results, wait_for
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session
from turnstream.actors.testing import call
from turnstream.events import (
    AgentDrifted,
    ApprovalDecided,
    ModelTurn,
    StoredRecord,
    ToolCallStarted,
    ToolMessage,
    TurnAborted,
    Usage,
)
from turnstream.stores import open_store

pytestmark = on_durable_stores

DEEP = "worker helper remove a | look b"


@pytest.fixture
def works() -> Works:
    return Works()


class Held:
    """Agents whose innermost model waits until it is let go, or is cancelled."""

    def __init__(self) -> None:
        self.begun, self.cancelled = Event(), Event()
        self.free = False
        self._freed: list[Callable[[], object]] = []
        self.asked: list[str] = []

    async def helper(self, request: ModelRequest) -> str:
        self.asked.append("helper")
        freed, loop = asyncio.Event(), asyncio.get_running_loop()
        self._freed.append(lambda: loop.call_soon_threadsafe(freed.set))
        self.begun.set()
        try:
            if not self.free:
                await freed.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "helped"

    def let_go(self) -> None:
        self.free = True
        for each in self._freed:
            each()

    def asking(self, name: str) -> object:
        def model(request: ModelRequest) -> ModelTurn:
            self.asked.append(request.session_id[:3])
            if isinstance(last := request.messages[-1], ToolMessage):
                return ModelTurn(str(last.content), usage=Usage(1, 1))
            return ModelTurn(tool_calls=(call(name, "c1", input="x"),), usage=Usage(1, 1))

        return model

    def family(self, told: str = "") -> Agent:
        helper = Agent("helper", model=self.helper, instructions=told)
        worker = Agent("worker", model=self.asking("helper"), tools=[helper.as_tool()])  # type: ignore[arg-type]
        return Agent("boss", model=self.asking("worker"), tools=[worker.as_tool()])  # type: ignore[arg-type]


def below(system: ActorSystem) -> list[Session]:
    (worker,) = children(system)
    (helper,) = children(system, worker)
    return [worker, helper]


def stopped(session: Session) -> list[bool]:
    return [each.event.kept for each in session.events() if isinstance(each.event, TurnAborted)]


@pytest.mark.parametrize("keep", [False, True])
def test_an_aborted_turn_aborts_all_below_it(address: str, keep: bool) -> None:
    held = Held()
    with ActorSystem(held.family(), store=address) as system:
        session = system.session("s")
        turn = session.send("go")
        assert held.begun.wait(WAIT)
        assert turn.abort(keep=keep).result(WAIT) is True
        assert turn.result(WAIT).finish_reason == "aborted"
        assert held.cancelled.wait(WAIT)
        for each in below(system):
            wait_for(lambda each=each: stopped(each))  # type: ignore[misc]
            assert stopped(each) == [keep]
        assert held.asked == ["s", "sub", "helper"]


def test_a_kept_turn_goes_on_with_its_sub_agents_where_they_were(address: str) -> None:
    held = Held()
    with ActorSystem(held.family(), store=address) as system:
        session = system.session("s")
        turn = session.send("go")
        assert held.begun.wait(WAIT)
        assert turn.abort(keep=True).result(WAIT) is True
        worker, helper = below(system)
        wait_for(lambda: worker.status == helper.status == "aborted")
        assert system.resume_all() == [] and worker.status == "aborted"
        held.free = True
        resumed = session.resume()
        assert resumed is not None and resumed.result(WAIT).text == "helped"
        assert held.asked == ["s", "sub", "helper", "helper", "sub", "s"]
        assert len(system.sessions()) == 3


def test_a_kept_turn_that_is_dropped_then_drops_them(address: str) -> None:
    held = Held()
    with ActorSystem(held.family(), store=address) as system:
        session = system.session("s")
        turn = session.send("go")
        assert held.begun.wait(WAIT)
        turn.abort(keep=True).result(WAIT)
        worker, helper = below(system)
        wait_for(lambda: helper.status == "aborted")
        assert session.discard_pending().result(WAIT) is True
        wait_for(lambda: worker.status == helper.status == "idle")


def test_an_abort_takes_the_nested_question_back(address: str, works: Works) -> None:
    with ActorSystem(family(works), store=address) as system:
        turn = system.session("s").send(DEEP)
        turn.result(WAIT)
        (approval,) = system.approvals()
        assert turn.abort().result(WAIT) is True
        with pytest.raises(ApprovalDecided):
            system.approve(approval.id).result(WAIT)
        wait_for(lambda: not system.approvals())
        assert works.done == ["look b"]
        assert {row.status for row in system.sessions()} == {"idle"}


def test_a_parent_that_was_stopped_elsewhere_lets_no_decision_act(
    address: str, works: Works
) -> None:
    """The process dies between the parent's abort and the child's."""
    with ActorSystem(family(works), store=address) as system:
        turn = system.session("s").send(DEEP)
        turn.result(WAIT)
        (approval,) = system.approvals()
        system._runtime.children.stop = lambda *given: None  # type: ignore[method-assign]
        assert turn.abort().result(WAIT) is True
    with ActorSystem(family(works), store=address) as system:
        assert system.approvals() == [approval]
        with pytest.raises(ApprovalDecided) as caught:
            system.approve(approval.id).result(WAIT)
        assert caught.value.decision == "aborted" and works.done == ["look b"]
        system.resume_all()
        wait_for(lambda: {row.status for row in system.sessions()} == {"idle"})
        assert not system.approvals() and works.done == ["look b"]


def test_a_child_that_is_aborted_by_itself_gives_the_call_a_cancelled_result(
    address: str,
) -> None:
    held = Held()
    with ActorSystem(held.family(), store=address) as system:
        session = system.session("s")
        turn = session.send("go")
        assert held.begun.wait(WAIT)
        worker, helper = below(system)
        running = helper.resume()
        assert running is not None and running.abort().result(WAIT) is True
        assert turn.result(WAIT).text == "The agent 'helper' was stopped."
        assert results(worker)[0][1] == "cancelled"


def bytes_of(address: str) -> dict[str, list[StoredRecord]]:
    with closing(open_store(address)) as store:
        return {each: list(store.read(each)) for each in store.stream_ids()}


@pytest.fixture
def paused(address: str, works: Works) -> Iterator[ActorSystem]:
    with ActorSystem(family(works), store=address) as system:
        system.session("s").send(DEEP).result(WAIT)
        yield system


def test_a_fork_with_an_open_call_asks_the_sub_agent_anew_in_a_session_of_its_own(
    paused: ActorSystem, works: Works, address: str
) -> None:
    before = bytes_of(address)
    (asked,) = paused.approvals()
    copy = paused.session("s").fork(version=paused.session("s").version, session_id="copy")
    assert paused.approvals() == [asked] and copy.status == "aborted"
    resumed = copy.resume()
    assert resumed is not None
    (nested,) = resumed.result(WAIT).approvals
    assert nested.within[0] == "copy" and nested.session_id != asked.session_id
    assert paused.approve(nested.id).result(WAIT).text == ("boss: worker: helper: removed a; saw b")
    assert copy.usage == Usage(60, 6)
    after = bytes_of(address)
    assert {each: after[each] for each in before} == before
    (child,) = children(paused, copy)
    begun = [e.event for e in copy.events() if isinstance(e.event, ToolCallStarted)]
    assert begun[-1].child == child.id
    assert paused.session("s").approve(asked.id).result(WAIT).usage == Usage(60, 6)
    assert works.done == ["look b", "a", "a"]


def test_a_fork_after_the_call_has_its_result_and_asks_nobody(
    paused: ActorSystem, works: Works
) -> None:
    (asked,) = paused.approvals()
    paused.approve(asked.id).result(WAIT)
    session = paused.session("s")
    asked_before, there = list(works.asked), len(paused.sessions())
    copy = session.fork(step=1)
    assert copy.send("look z", policy="queue").result(WAIT).finish_reason == "stop"
    assert len(paused.sessions()) == there + 1
    assert {each for each, _ in works.asked[len(asked_before) :]} == {copy.id}
    assert copy.usage.total_tokens >= session.usage.total_tokens


def test_a_fork_of_a_sub_agent_s_session_works_for_nobody(
    paused: ActorSystem, works: Works, address: str
) -> None:
    (worker,) = children(paused)
    (helper,) = children(paused, worker)
    before = bytes_of(address)
    copy = helper.fork(version=helper.version, session_id="copy")
    resumed = copy.resume()
    assert resumed is not None
    (asked,) = resumed.result(WAIT).approvals
    assert asked.session_id == "copy" and asked.within == ()
    turn = paused.approve(asked.id)
    assert turn.result(WAIT).text == "helper: removed a" and turn.session_id == "copy"
    after = bytes_of(address)
    assert {each: after[each] for each in before} == before


def test_a_rewound_parent_leaves_the_sub_agent_s_session_as_a_record(
    address: str, works: Works
) -> None:
    with ActorSystem(family(works), store=address) as system:
        session = system.session("s")
        session.send("look a").result(WAIT)
        session.send("worker look b").result(WAIT)
        session.rewind(to_step=2).result(WAIT)
        (child,) = children(system)
        assert child.messages[-1].text == "worker: saw b"  # type: ignore[union-attr]
        session.send("worker look c").result(WAIT)
        assert len(children(system)) == 2
        assert session.usage == Usage(20 + 40 + 40, 10)


def test_closing_the_system_interrupts_the_family_and_the_next_one_goes_on(address: str) -> None:
    held = Held()
    with ActorSystem(held.family(), store=address) as system:
        system.session("s").send("go")
        assert held.begun.wait(WAIT)
        assert system.close(timeout=0.2) is False
    held.free = True
    with ActorSystem(held.family(), store=address) as system:
        (turn,) = system.resume_all()
        assert turn.session_id == "s" and turn.result(WAIT).text == "helped"
        assert held.asked == ["s", "sub", "helper", "helper", "sub", "s"]


def test_a_sub_agent_that_must_not_go_on_holds_the_family_until_it_may(address: str) -> None:
    held = Held()
    with ActorSystem(held.family(), store=address) as system:
        system.session("s").send("go")
        assert held.begun.wait(WAIT)
        system.close(timeout=0.2)
    held.free = True
    changed = held.family("Be brief.")
    with ActorSystem(changed, store=address, on_agent_drift="error") as system:
        (turn,) = system.resume_all()
        with pytest.raises(AgentDrifted):
            turn.result(WAIT)
        assert system.session("s").status == "running" and not results(system.session("s"))
    with ActorSystem(held.family(), store=address, on_agent_drift="error") as system:
        (turn,) = system.resume_all()
        assert turn.result(WAIT).text == "helped"


def test_a_message_to_a_session_that_works_for_another_waits_its_turn(address: str) -> None:
    held = Held()
    with ActorSystem(held.family(), store=address) as system:
        turn = system.session("s").send("go")
        assert held.begun.wait(WAIT)
        worker, _ = below(system)
        other = worker.send("more")
        held.let_go()
        assert turn.result(WAIT).text == "helped"
        assert other.result(WAIT).text == "helped"
        assert system.session("s").usage == Usage(4, 4)
