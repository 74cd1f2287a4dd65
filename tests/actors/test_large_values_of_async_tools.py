"""What async tools return is made plain data where that keeps nobody else waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hooked import made

from turnstream.actors import ActorSystem, Agent, Tool, ToolContext, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import ToolMessage
from turnstream.events.values import is_light

WAIT = 20


class Report:
    """A value that takes as long to be read as it takes the loop to go on."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    def model_dump(self) -> dict[str, Any]:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result(WAIT / 2)
        return {"rows": [1, 2]}


@tool
async def returned() -> Any:
    """Give it at the end."""
    return Report()


@tool
async def stepped(context: ToolContext) -> Any:
    """Give it in a step."""
    return await context.step("report", Report)


@tool
async def streamed(context: ToolContext) -> Any:
    """Give it in a step that gives several."""

    async def reports() -> AsyncIterator[Report]:
        yield Report()

    (item,) = [item async for item in context.step_stream("reports", reports)]
    return item


@tool
async def nothing() -> None:
    """Leave it to a hook."""


async def reported(*_: object) -> Any:
    return Report()


@pytest.mark.parametrize(
    ("gives", "hooks"),
    [
        (returned, {}),
        (returned, {"before_tool": lambda *_: None}),
        (stepped, {}),
        (streamed, {}),
        (nothing, {"after_tool": reported}),
    ],
    ids=["result", "result_with_hooks", "step", "item_of_a_step", "hook"],
)
def test_the_loop_goes_on_while_a_value_of_an_async_tool_is_read(
    gives: Tool, hooks: dict[str, Callable[..., Any]]
) -> None:
    model = ScriptedModel([[call(gives.name)], "done"])
    agent = Agent(
        "agent", model=model, tools=[gives], hooks=[made(False, **hooks)] if hooks else []
    )
    with ActorSystem(agent, store="memory://") as system:
        result = system.session("s").send("go").result(WAIT)
    (told,) = [each for each in result.messages if isinstance(each, ToolMessage)]
    assert told.outcome == "ok"
    assert told.content == '{"rows":[1,2]}'


def test_many_small_pieces_are_as_large_as_one_of_another_kind() -> None:
    rows: list[Any] = [{"n": n, "of": ["a", "b"]} for n in range(250)]
    assert not is_light(rows)
    assert is_light(rows[:100])
    assert is_light("x" * 10_000_000)
    rows.append(rows)
    assert not is_light(rows)
