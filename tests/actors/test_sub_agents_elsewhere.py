"""A family of sessions on several nodes: what is decided or stopped at one that runs none of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event

import pytest
from families import WAIT, children, results, wait_for
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, ModelRequest, tool
from turnstream.actors.testing import call
from turnstream.events import (
    ModelTurn,
    ModelTurnRecorded,
    ToolMessage,
    TurnAborted,
    Usage,
)

pytestmark = on_durable_stores

Open = Callable[[str], ActorSystem]


class World:
    """Agents that every node has: the boss waits for a tool of its own, and the worker for a
    decision. It says where a tool ran."""

    def __init__(self) -> None:
        self.begun, self.release = Event(), Event()
        self.ran: list[tuple[str, str]] = []
        self.asked: list[str] = []

    def agent(self, node: str) -> Agent:
        @tool(needs_approval=True)
        def remove(path: str) -> str:
            self.ran.append((node, path))
            return f"removed {path}"

        @tool
        def linger() -> str:
            self.begun.set()
            assert self.release.wait(WAIT)
            self.ran.append((node, "linger"))
            return "lingered"

        def model(*calls: object) -> Callable[[ModelRequest], ModelTurn]:
            def answer(request: ModelRequest) -> ModelTurn:
                self.asked.append(f"{request.session_id} {request.step}")
                told = [str(e.content) for e in request.messages if isinstance(e, ToolMessage)]
                if told:
                    return ModelTurn("; ".join(told), usage=Usage(1, 1))
                return ModelTurn(tool_calls=calls, usage=Usage(1, 1))  # type: ignore[arg-type]

            return answer

        worker = Agent("worker", model=model(call("remove", path="x")), tools=[remove])
        both = model(call("worker", "c1", input="go"), call("linger", "c2"))
        return Agent("boss", model=both, tools=[worker.as_tool(), linger])


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.release.set()


@pytest.fixture
def node(world: World, address: str) -> Iterator[Open]:
    with ExitStack() as stack:

        def start(name: str) -> ActorSystem:
            system = ActorSystem(world.agent(name), store=address, lease=5)
            return stack.enter_context(system)

        yield start


def once(asked: list[str]) -> bool:
    return len(asked) == len(set(asked))


def test_a_decision_at_another_node_reaches_a_parent_that_still_runs(
    node: Open, world: World
) -> None:
    one, two = node("one"), node("two")
    session = one.session("s")
    turn = session.send("go")
    assert world.begun.wait(WAIT)
    wait_for(two.approvals)
    (asked,) = two.approvals()
    decided = two.approve(asked.id)
    wait_for(lambda: ("two", "x") in world.ran)
    (worker,) = children(one)
    wait_for(lambda: worker.status == "idle")
    world.release.set()
    assert turn.result(WAIT).text == "removed x; lingered"
    assert decided.result(WAIT).text == "removed x; lingered"
    assert once(world.asked) and ("one", "linger") in world.ran and len(world.ran) == 2
    assert session.usage == Usage(4, 4)


def test_a_decision_at_another_node_goes_on_with_a_parent_that_is_paused(
    node: Open, world: World
) -> None:
    one, two = node("one"), node("two")
    world.release.set()
    assert one.session("s").send("go").result(WAIT).finish_reason == "awaiting-approval"
    (asked,) = two.approvals()
    assert two.session("s").approve(asked.id).result(WAIT).text == "removed x; lingered"
    assert world.ran == [("one", "linger"), ("two", "x")] and once(world.asked)
    assert one.session("s").usage == Usage(4, 4)
    assert one.session("s").send("more").result(WAIT).finish_reason == "stop"


def test_an_abort_at_another_node_aborts_the_family(node: Open, world: World) -> None:
    one, two = node("one"), node("two")
    turn = one.session("s").send("go")
    assert world.begun.wait(WAIT)
    wait_for(two.approvals)
    there = two.session("s").resume()
    assert there is not None and there.abort().result(WAIT) is True
    (worker,) = children(one)
    wait_for(lambda: worker.status == "idle")
    assert [e for e in worker.events() if isinstance(e.event, TurnAborted)]
    assert not two.approvals()
    world.release.set()
    assert turn.result(WAIT).finish_reason == "aborted"


def test_others_leave_a_sub_agent_to_the_session_it_works_for(node: Open, world: World) -> None:
    one, two = node("one"), node("two")
    turn = one.session("s").send("go")
    assert world.begun.wait(WAIT)
    wait_for(two.approvals)
    assert two.resume_all() == []
    (asked,) = one.approvals()
    world.release.set()
    one.approve(asked.id).result(WAIT)
    turn.result(WAIT)
    (worker,) = children(two)
    answers = [e for e in worker.events() if isinstance(e.event, ModelTurnRecorded)]
    assert len(answers) == 2 and once(world.asked)
    assert [each[0] for each in results(two.session("s"))] == ["c2", "c1"]
