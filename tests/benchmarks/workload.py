"""The work that is measured: a turn of two model calls and one tool call, without any waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from turnstream.actors import ActorSystem, Agent, ModelRequest, tool
from turnstream.events import ModelTurn, ToolCall, UserMessage

RESULT = "0123456789" * 10
ANSWER = "The answer of this turn, forty chars long."


def reply(request: ModelRequest) -> ModelTurn:
    """A tool call for the user, an answer for the tool."""
    if isinstance(request.messages[-1], UserMessage):
        return ModelTurn(tool_calls=(ToolCall(f"call-{request.turn_id}", "fetch", {}),))
    return ModelTurn(ANSWER)


@tool
async def fetch() -> str:
    """Fetch something."""
    return RESULT


def agent(model: Any = reply) -> Agent:
    """An agent that does the work; ``model`` may be another one."""
    return Agent("benchmark", model=model, instructions="Be brief.", tools=[fetch])


def address(directory: Path, synchronous: str = "full") -> str:
    """The address of a store in ``directory``."""
    return f"sqlite:///{directory}/benchmark.db?synchronous={synchronous}"


def text(number: int) -> str:
    """What the user says in a turn."""
    return f"user message number {number:06d}, please fetch and answer"


async def run_turns(system: ActorSystem, session_id: str, turns: int) -> None:
    """Run that many turns of one session, one after the other."""
    session = system.session(session_id)
    for number in range(turns):
        await session.send(text(number))


async def run_sessions(system: ActorSystem, sessions: int, turns: int) -> None:
    """Run that many sessions at once."""
    await asyncio.gather(*(run_turns(system, f"s{n}", turns) for n in range(sessions)))
