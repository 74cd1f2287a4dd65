"""Nodes that share sessions: what is asked of one that does not run the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from queue import SimpleQueue
from threading import Barrier, Event, Thread
from typing import Any, get_args

import pytest

from turnstream.actors import ActorSystem, Agent, ModelRequest, TurnDone, tool
from turnstream.actors.testing import call, said
from turnstream.events import (
    InputQueued,
    ModelTurn,
    Owner,
    Policy,
    ToolResultRecorded,
    TurnAborted,
    TurnResumed,
    TurnStarted,
    UserMessage,
    verify,
)
from turnstream.stores import EventStore, open_store

WAIT = 20
Open = Callable[..., ActorSystem]


class World:
    """A model and tools that every node has. ``begun`` is set when the tool runs, which goes on
    when ``release`` is; ``ran`` says on which node."""

    def __init__(self) -> None:
        self.begun, self.release = Event(), Event()
        self.ran = SimpleQueue[str]()
        self.cancelled = Event()

    def agent(self, node: str) -> Agent:
        @tool
        def work() -> str:
            self.ran.put(node)
            self.begun.set()
            assert self.release.wait(WAIT)
            return f"of {node}"

        @tool
        async def linger() -> str:
            self.begun.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "never"

        @tool(needs_approval=True)
        def remove(path: str) -> str:
            self.ran.put(node)
            return f"removed {path} at {node}"

        def model(request: ModelRequest) -> ModelTurn:
            last = request.messages[-1]
            match last:
                case UserMessage(content="work"):
                    return ModelTurn(tool_calls=(call("work"),))
                case UserMessage(content="linger"):
                    return ModelTurn(tool_calls=(call("linger"),))
                case UserMessage(content="remove"):
                    return ModelTurn(tool_calls=(call("remove", path="x"), call("work")))
            users = [each for each in request.messages if isinstance(each, UserMessage)]
            return ModelTurn(f"{node} after {users[-1].content}")

        return Agent("agent", model=model, tools=[work, linger, remove])


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.release.set()


@pytest.fixture
def node(address: str, world: World) -> Iterator[Open]:
    """Start nodes on one store: each with a store of its own on one file, or all on one in
    memory."""
    with ExitStack() as stack:
        shared: EventStore | None = None
        if address == "memory://":
            shared = stack.enter_context(closing(open_store(address)))

        def start(name: str, **options: Any) -> ActorSystem:
            store = shared or address
            system = ActorSystem(world.agent(name), store=store, on_failure="keep", **options)
            stack.callback(world.release.set)
            return stack.enter_context(system)

        yield start


def texts(system: ActorSystem) -> list[Any]:
    return said(system.session("s").messages)


def owners(system: ActorSystem) -> list[Owner]:
    kinds = (TurnStarted, TurnResumed)
    return [e.event.owner for e in system.session("s").events() if isinstance(e.event, kinds)]


def begin(world: World, owner: ActorSystem, what: str = "work") -> Any:
    turn = owner.session("s").send(what)
    assert world.begun.wait(WAIT)
    return turn


@pytest.mark.parametrize("policy", get_args(Policy))
def test_an_input_sent_elsewhere_has_the_result_that_the_owner_makes(
    world: World, node: Open, policy: Policy
) -> None:
    owner, other = node("a"), node("b")
    turn = begin(world, owner)
    sent = other.session("s").send("more", policy=policy)
    sent.accepted().result(WAIT)
    world.release.set()
    assert sent.result(WAIT).text == "a after more"
    if policy == "wait":
        assert turn.result(WAIT).text == "a after work"
        assert texts(other) == ["work", "", "of a", "a after work", "more", "a after more"]
    else:
        assert turn.result(WAIT).text == "a after more"
        assert texts(other) == ["work", "", "of a", "more", "a after more"]
    assert len({each.node for each in owners(other)}) == 1
    assert verify(other._store.read("s")) is None


@pytest.mark.slow
def test_who_resumes_elsewhere_waits_for_the_owner(world: World, node: Open) -> None:
    owner, other = node("a"), node("b")
    turn = begin(world, owner)
    resumed = other.session("s").resume()
    assert resumed is not None
    items = resumed.stream()
    world.release.set()
    assert resumed.result(WAIT).text == turn.result(WAIT).text == "a after work"
    assert [type(each) for each in items][-1] is TurnDone
    assert world.ran.qsize() == 1
    assert len(owners(other)) == 1


def test_what_runs_at_a_node_that_lives_is_not_resumed_at_another(world: World, node: Open) -> None:
    owner, other = node("a"), node("b")
    turn = begin(world, owner)
    assert list(other.resume_all()) == []
    world.release.set()
    assert turn.result(WAIT).text == "a after work"


@pytest.mark.slow
def test_an_abort_elsewhere_stops_what_runs_at_the_owner(world: World, node: Open) -> None:
    owner, other = node("a"), node("b")
    turn = begin(world, owner, "linger")
    resumed = other.session("s").resume()
    assert resumed is not None
    resumed.accepted().result(WAIT)
    assert resumed.abort().result(WAIT)
    assert world.cancelled.wait(WAIT)
    assert turn.result(WAIT).finish_reason == "aborted"
    assert resumed.result(WAIT).finish_reason == "aborted"
    events = [each.event for each in other.session("s").events()]
    assert sum(isinstance(each, TurnAborted) for each in events) == 1


def test_a_decision_elsewhere_lets_the_call_run_at_the_owner(world: World, node: Open) -> None:
    owner, other = node("a"), node("b")
    turn = begin(world, owner, "remove")
    (approval,) = other.approvals()
    decided = other.approve(approval.id, by="mia")
    decided.accepted().result(WAIT)
    world.release.set()
    assert turn.result(WAIT).text == decided.result(WAIT).text == "a after remove"
    assert {world.ran.get(timeout=WAIT) for _ in range(2)} == {"a"}
    assert len(owners(other)) == 1


def test_a_decision_on_a_paused_turn_lets_it_go_on_where_it_was_taken(
    world: World, node: Open
) -> None:
    owner, other = node("a"), node("b")
    world.release.set()
    paused = owner.session("s").send("remove").result(WAIT)
    assert paused.finish_reason == "awaiting-approval"
    assert other.approve(paused.approvals[0].id).result(WAIT).text == "b after remove"
    assert owner.session("s").send("more").result(WAIT).text == "a after more"


def test_inputs_that_wait_go_on_elsewhere_when_their_owner_is_closed(
    world: World, node: Open
) -> None:
    owner, other = node("a"), node("b")
    turn = begin(world, owner)
    sent = other.session("s").send("more")
    sent.accepted().result(WAIT)
    closing_owner = Thread(target=owner.close)
    closing_owner.start()
    while not owner._runtime.directory.closing:
        pass
    world.release.set()
    assert sent.result(WAIT).text == "b after more"
    closing_owner.join(WAIT)
    assert turn.done()


@pytest.mark.slow
def test_an_older_node_takes_the_turn_of_a_younger_one_that_is_gone(
    world: World, node: Open
) -> None:
    older = node("a")
    younger = node("b", lease=0.3)
    begin(world, younger)
    younger._runtime.follower._closing.set()  # as if its process stood still
    resumed = older.session("s").send("more")
    assert [world.ran.get(timeout=WAIT) for _ in range(2)] == ["b", "a"]
    world.release.set()
    assert resumed.result(WAIT).text == "a after more"
    first, second = dict.fromkeys(owners(older))
    assert second.generation > first.generation and second.node != first.node


def test_inputs_sent_at_the_same_moment_at_two_nodes_are_answered_once_each(
    world: World, node: Open
) -> None:
    nodes = [node("a"), node("b")]
    together, failures = Barrier(2), SimpleQueue[BaseException]()

    def talk(system: ActorSystem, name: str) -> None:
        try:
            for number in range(30):
                together.wait(WAIT)
                answer = system.session("s").send(f"{name}{number}").result(WAIT).text
                assert answer.endswith(f"after {name}{number}")
        except BaseException as error:
            failures.put(error)
            together.abort()

    threads = [Thread(target=talk, args=each) for each in zip(nodes, "xy", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * WAIT)
    assert failures.empty(), failures.get()
    events = [each.event for each in nodes[0].session("s").events()]
    queued = [each.content for each in events if isinstance(each, InputQueued)]
    assert sorted(queued) == sorted(f"{name}{n}" for name in "xy" for n in range(30))
    assert not any(isinstance(each, ToolResultRecorded) for each in events)
    assert len(texts(nodes[1])) == 120
