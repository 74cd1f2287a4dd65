"""Recorded conversations in OpenAI chat format, and how to hold them again."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from plan import Asked, Log, Ran, Talks, digest

from turnstream.actors import ActorSystem, Agent, Delta, ModelRequest, Tool, ToolContext
from turnstream.actors.importing import transcript_events
from turnstream.actors.testing import RecordedModel
from turnstream.events import InputQueued, Message, ModelTurn, TurnError, UserMessage
from turnstream.projections import fold


@cache
def read_talks(source: str) -> Sequence[Sequence[Message]]:
    """The conversations of a file, one a line."""
    with gzip.open(source, "rt") as file:
        return [_messages(json.loads(line)["messages"]) for line in file]


def _messages(chat: list[dict[str, Any]]) -> Sequence[Message]:
    events = transcript_events(chat, agent="talk", at=datetime.fromtimestamp(0, UTC))
    return list(fold(events).transcript)


class LoggedModel:
    """A recorded model that notes each time it is asked, and so do its tools."""

    def __init__(self, recorded: Sequence[Message], plan: Talks, log: Log) -> None:
        self._recorded, self._plan, self._log = RecordedModel(recorded), plan, log

    @property
    def id(self) -> str:
        return self._recorded.id

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelTurn]:
        key = (self._plan.life, request.session_id, request.turn_id, request.step)
        self._log.write(Asked(*key, digest(request.messages)))
        async for item in self._recorded.stream(request):
            yield item

    @property
    def tools(self) -> Iterator[Tool]:
        for each in self._recorded.tools:
            yield Tool.from_schema(each.name, self._logged(each), each.spec.schema)

    def _logged(self, recorded: Tool) -> Any:
        def replay(context: ToolContext, /, **arguments: Any) -> Any:
            key = (context.session_id, context.turn_id, context.call_id, context.attempt)
            self._log.write(Ran(self._plan.life, *key, context.idempotency_key))
            return recorded(context, **arguments)

        return replay


def recorded_agents(plan: Talks, log: Log) -> Iterator[Agent]:
    """An agent for each of the chosen conversations."""
    talks = read_talks(plan.source)
    for place in plan.chosen:
        model = LoggedModel(talks[place], plan, log)
        yield Agent(f"talk-{place}", model=model, tools=model.tools)


async def hold_all(system: ActorSystem, plan: Talks) -> None:
    """Finish what is unfinished, and say what was not said yet, in all conversations at once."""
    talks = read_talks(plan.source)
    await asyncio.gather(*[_hold(system, place, talks[place]) for place in plan.chosen])


async def _hold(system: ActorSystem, place: int, talk: Sequence[Message]) -> None:
    session = system.session(f"talk-{place}", agent=f"talk-{place}")
    said = [each.content for each in talk if isinstance(each, UserMessage)]
    accepted = sum(isinstance(each.event, InputQueued) for each in session.events())
    pending = session.pending()
    if pending is not None and pending.error:
        return
    try:
        if (turn := session.resume()) is not None:
            await turn
        for content in said[accepted:]:
            await session.send(content)
    except TurnError:
        return  # the recording ends before this turn is answered
