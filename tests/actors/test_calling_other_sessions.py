"""Code that calls other sessions, and its own system: fine, unless a wait could never end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, ModelRequest, ToolContext, tool
from turnstream.actors.testing import ScriptedModel, call, said
from turnstream.events import ModelTurn, SystemClosed, ToolMessage

WAIT = 20
Run = Callable[..., ActorSystem]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_may_wait_for_another_session(run: Run, is_async: bool) -> None:
    systems: list[ActorSystem] = []

    async def ask_async() -> str:
        return (await systems[0].session("other").send("ping")).text

    def ask() -> str:
        return systems[0].session("other").send("ping").result(WAIT).text

    def model(request: ModelRequest) -> ModelTurn:
        first = request.session_id == "s" and len(request.messages) == 1
        return ModelTurn(tool_calls=(call("ask"),)) if first else ModelTurn("pong")

    asking = tool(name="ask")(ask_async if is_async else ask)
    systems.append(run([], model=model, tools=[asking]))
    result = systems[0].session("s").send("go").result(WAIT)

    (answer,) = [each for each in result.messages if isinstance(each, ToolMessage)]
    assert (answer.outcome, answer.content) == ("ok", "pong")


def test_a_session_of_the_same_id_in_another_system_is_another_session(run: Run) -> None:
    @tool
    def ask() -> str:
        return other.session("s").send("ping").result(WAIT).text

    with ActorSystem(Agent("other", model=ScriptedModel(["pong"]))) as other:
        system = run([[call("ask")], "done"], tools=[ask])
        result = system.session("s").send("go").result(WAIT)

    assert said(result.messages) == ["go", "", "pong", "done"]


@pytest.mark.parametrize("policy", ["wait", "queue"])
def test_sessions_that_wait_for_each_other_in_a_ring_are_refused(run: Run, policy: Any) -> None:
    systems: list[ActorSystem] = []
    following = {"a": "b", "b": "c", "c": "a"}

    @tool
    def ask(context: ToolContext) -> str:
        session = systems[0].session(following[context.session_id])
        return session.send("ping", policy=policy).result(WAIT).text

    def model(request: ModelRequest) -> ModelTurn:
        told = [str(m.content) for m in request.messages if isinstance(m, ToolMessage)]
        return ModelTurn(told[-1]) if told else ModelTurn(tool_calls=(call("ask"),))

    systems.append(run([], model=model, tools=[ask]))
    assert "WouldDeadlock" in systems[0].session("a").send("go").result(WAIT).text


def test_a_tool_may_tell_the_session_that_waits_for_it_something_more(run: Run) -> None:
    systems: list[ActorSystem] = []

    @tool
    def ask() -> str:
        return systems[0].session("b").send("ping").result(WAIT).text

    @tool
    def tell() -> str:
        systems[0].session("a").send("by the way", policy="queue").accepted().result(WAIT)
        return "told"

    def model(request: ModelRequest) -> ModelTurn:
        if len(request.messages) > 1:
            return ModelTurn("done")
        return ModelTurn(tool_calls=(call("ask" if request.session_id == "a" else "tell"),))

    systems.append(run([], model=model, tools=[ask, tell]))
    result = systems[0].session("a").send("go").result(WAIT)
    assert said(result.messages) == ["go", "", "done", "by the way", "done"]


@on_durable_stores
@pytest.mark.parametrize("where", ["thread", "loop", "thread of the loop's"])
def test_closing_the_system_inside_a_tool_ends_and_leaves_the_turn_to_be_resumed(
    store: str, where: str
) -> None:
    clean: list[bool] = []
    returned = threading.Event()

    def close() -> str:
        clean.append(system.close(timeout=0.1))
        returned.set()
        return "closed"

    async def close_on_the_loop() -> str:
        return close()

    async def close_off_the_loop() -> str:
        return await asyncio.to_thread(close)

    fns = {"thread": close, "loop": close_on_the_loop}
    tools = [tool(name="close")(fns.get(where, close_off_the_loop))]
    agent = Agent("agent", model=ScriptedModel([[call("close")], "never"]), tools=tools)
    system = ActorSystem(agent, store=store)
    with pytest.raises(SystemClosed):
        system.session("s").send("go").result(WAIT)
    assert returned.wait(WAIT) and clean == [False]

    tools = [tool(name="close")(lambda: "ok")]
    agent = Agent("agent", model=ScriptedModel(["done"]), tools=tools)
    with ActorSystem(agent, store=store) as other:
        resumed = other.session("s").resume()
        assert resumed is not None and resumed.result(WAIT).text == "done"
