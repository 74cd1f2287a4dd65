"""Waits that could never end are refused when they begin."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from turnstream.actors import ActorSystem, Agent, ModelRequest, ToolContext, tool
from turnstream.actors.testing import call
from turnstream.events import (
    ModelTurn,
    ToolCall,
    ToolMessage,
    WouldDeadlock,
)

WAIT = 20
Run = Callable[..., ActorSystem]


def test_a_blocking_wait_on_a_running_loop_is_refused(store: str) -> None:
    release = threading.Event()

    def model(request: ModelRequest) -> str:
        release.wait(WAIT)
        return "ok"

    async def main() -> None:
        async with ActorSystem(Agent("agent", model=model), store=store) as system:
            turn = system.session("s").send("hi")
            with pytest.raises(WouldDeadlock, match="await"):
                turn.result()
            release.set()
            assert (await turn).text == "ok"

    asyncio.run(main())


def test_a_tool_that_waits_for_its_own_session_is_refused(run: Run) -> None:
    systems: list[ActorSystem] = []

    @tool
    def ask_myself() -> str:
        return systems[0].session("s").send("me").result().text

    system = run([[call("ask_myself")], "done", "me too"], tools=[ask_myself])
    systems.append(system)
    result = system.session("s").send("go").result(WAIT)

    assert "WouldDeadlock" in next(
        str(m.content) for m in result.messages if isinstance(m, ToolMessage)
    )


def test_two_sessions_that_would_wait_for_each_other_are_refused(run: Run) -> None:
    systems: list[ActorSystem] = []

    @tool
    async def ask(context: ToolContext, other: str) -> str:
        return (await systems[0].session(other).send("ping")).text

    def model(request: ModelRequest) -> ModelTurn:
        if isinstance(request.messages[-1], ToolMessage):
            return ModelTurn(str(request.messages[-1].content))
        other = "b" if request.session_id == "a" else "a"
        return ModelTurn(tool_calls=(ToolCall("", "ask", {"other": other}),))

    system = run([], model=model, tools=[ask])
    systems.append(system)

    assert "WouldDeadlock" in system.session("a").send("go").result(WAIT).text
