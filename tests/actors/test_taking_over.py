"""Two nodes on one store: a turn has one owner in its stream."""

from __future__ import annotations

import threading

from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import ToolResultRecorded, TurnResumed, TurnStarted, verify
from turnstream.stores import open_store

WAIT = 20


@on_durable_stores
def test_a_node_that_lost_its_turn_appends_nothing_more_to_it(address: str) -> None:
    started, release = threading.Event(), threading.Event()

    @tool
    def work(context_free: int = 0) -> str:
        if not started.is_set():
            started.set()
            release.wait(WAIT)
            return "of the old owner"
        return "of the new owner"

    old = ActorSystem(
        Agent("agent", model=ScriptedModel([[call("work", id="c")]]), tools=[work]), store=address
    )
    successor = Agent("agent", model=ScriptedModel(["done"]), tools=[work])
    new = ActorSystem(successor, store=address, lease=0)
    with old, new:
        lost = old.session("s").send("go")
        assert started.wait(WAIT)
        taken = new.session("s").resume()
        assert taken is not None
        assert taken.result(WAIT).text == "done"
        release.set()
        assert lost.result(WAIT).text == "done", "whoever waits has the result all the same"
        events = [each.event for each in new.session("s").events()]

    begun = next(each for each in events if isinstance(each, TurnStarted))
    resumed = next(each for each in events if isinstance(each, TurnResumed))
    assert resumed.owner > begun.owner, "the younger generation took it"
    results = [each.content for each in events if isinstance(each, ToolResultRecorded)]
    assert results == ["of the new owner"]
    assert verify(open_store(address).read("s")) is None


@on_durable_stores
def test_a_session_two_systems_write_to_in_turns_keeps_one_order(address: str) -> None:
    agents = [Agent("agent", model=lambda request: str(len(request.messages))) for _ in "ab"]
    one, two = (ActorSystem(agent, store=address) for agent in agents)
    with one, two:
        answers = [
            system.session("s").send("hi").result(WAIT).text
            for _ in range(5)
            for system in (one, two)
        ]

    assert answers == [str(2 * n + 1) for n in range(10)]
