"""A process that pays in durable steps, and may be killed in between or inside of one.

``python steps_child.py STORE DIRECTORY KIND MOMENT`` where the moment is ``before-2``, ``in-2``
(the second step has acted, and is not recorded yet), ``after-2`` or ``never``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from turnstream.actors import ActorSystem, Agent, ModelRequest, Tool, ToolContext, tool
from turnstream.actors.testing import call
from turnstream.events import ModelTurn, UserMessage

STEPS = ("reserve", "charge", "ship", "tell")


class Till:
    """What is done leaves a line that outlives the process."""

    def __init__(self, directory: Path, moment: str) -> None:
        self._directory, self._moment = directory, moment

    def reach(self, moment: str) -> None:
        if moment == self._moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def act(self, number: int, name: str) -> str:
        descriptor = os.open(self._directory / "done", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{name}\n".encode())
        os.close(descriptor)
        self.reach(f"in-{number}")
        return f"{name} by {os.getpid()}"

    async def act_async(self, number: int, name: str) -> str:
        return self.act(number, name)

    def acts(self, number: int, name: str) -> Iterator[str]:
        yield self.act(number, name)

    async def acts_async(self, number: int, name: str) -> AsyncIterator[str]:
        yield self.act(number, name)


def tools(till: Till) -> dict[str, Tool]:
    @tool(name="pay")
    def pay(context: ToolContext) -> list[str]:
        receipts: list[str] = []
        for number, name in enumerate(STEPS, 1):
            till.reach(f"before-{number}")
            receipts.append(context.step(name, till.act, number, name))
            till.reach(f"after-{number}")
        return receipts

    @tool(name="pay")
    async def pay_async(context: ToolContext) -> list[str]:
        receipts: list[str] = []
        for number, name in enumerate(STEPS, 1):
            till.reach(f"before-{number}")
            receipts.append(
                await context.step(name, till.act_async, number, name, idempotency_key=name)
            )
            till.reach(f"after-{number}")
        return receipts

    @tool(name="pay")
    def stream(context: ToolContext) -> list[str]:
        receipts: list[str] = []
        for number, name in enumerate(STEPS, 1):
            till.reach(f"before-{number}")
            receipts += context.step_stream(name, till.acts, number, name)
            till.reach(f"after-{number}")
        return receipts

    @tool(name="pay")
    async def stream_async(context: ToolContext) -> list[str]:
        receipts: list[str] = []
        for number, name in enumerate(STEPS, 1):
            till.reach(f"before-{number}")
            items = context.step_stream(name, till.acts_async, number, name)
            receipts += [each async for each in items]
            till.reach(f"after-{number}")
        return receipts

    return {"sync": pay, "async": pay_async, "stream": stream, "async-stream": stream_async}


def model(request: ModelRequest) -> ModelTurn:
    if isinstance(request.messages[-1], UserMessage):
        return ModelTurn(tool_calls=(call("pay"),))
    return ModelTurn("paid")


def main(store: str, directory: str, kind: str, moment: str) -> None:
    till = Till(Path(directory), moment)
    agent = Agent("till", model=model, tools=[tools(till)[kind]])
    with ActorSystem(agent, store=store) as system:
        session = system.session("order")
        turn = session.resume() or session.send("pay")
        assert turn.result(30).text == "paid"


if __name__ == "__main__":
    main(*sys.argv[1:])
