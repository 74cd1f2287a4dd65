"""What the tests of durable steps share: a tool that takes steps, and prefixes of its stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from turnstream.actors import ActorSystem, Agent, Journal, Tool, ToolContext, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    CODEC,
    EncodedEvent,
    StepRecorded,
    StoredRecord,
    ToolMessage,
)
from turnstream.projections import fold
from turnstream.stores import Append, MemoryStore, RowChange

WAIT = 20
AT = datetime(2026, 1, 1, tzinfo=UTC)
PAY = call("pay", id="c")


class Till:
    """Tools that follow a plan, step by step, and what was really done for them. A step of the
    plan is its name, what it is called with, and its key, if it has one."""

    def __init__(self, *plan: tuple[str, int, str | None]) -> None:
        self.plan = list(plan)
        self.done: list[tuple[str, int]] = []

    def act(self, name: str, number: int) -> dict[str, Any]:
        self.done.append((name, number))
        return {"by": name, "many": [number] * number}

    async def act_async(self, name: str, number: int) -> dict[str, Any]:
        return self.act(name, number)

    def pay(self, context: ToolContext) -> list[Any]:
        return [
            context.step(name, self.act, name, number, idempotency_key=key)
            for name, number, key in self.plan
        ]

    async def pay_async(self, context: ToolContext) -> list[Any]:
        acts: list[Callable[..., Any]] = [self.act, self.act_async]
        return [
            await context.step(name, acts[number % 2], name, number, idempotency_key=key)
            for name, number, key in self.plan
        ]

    def stream(self, context: ToolContext) -> list[Any]:
        return [
            [*context.step_stream(name, self.acts, name, number, idempotency_key=key)]
            for name, number, key in self.plan
        ]

    async def stream_async(self, context: ToolContext) -> list[Any]:
        return [
            [
                item
                async for item in context.step_stream(
                    name, self.acts_async, name, number, idempotency_key=key
                )
            ]
            for name, number, key in self.plan
        ]

    def acts(self, name: str, number: int) -> Any:
        for each in range(1, number + 1):
            yield self.act(name, each)

    async def acts_async(self, name: str, number: int) -> AsyncIterator[Any]:
        for each in self.acts(name, number):
            yield each

    def tool(self, kind: str) -> Tool:
        return tool(name="pay")(getattr(self, kind))


def run(tools: Sequence[Tool], *script: Any, store: Any = None) -> Sequence[StoredRecord]:
    """The stream of a session that was lived to its end."""
    store = MemoryStore() if store is None else store
    with system_of(store, tools, *script) as system:
        system.session("s").send("go").result(WAIT)
    return store.read("s")


def system_of(store: Any, tools: Sequence[Tool], *script: Any, **options: Any) -> ActorSystem:
    agent = Agent("agent", model=ScriptedModel(script), tools=list(tools))
    return ActorSystem(agent, store=store, lease=0, **options)


def resumed(
    records: Sequence[StoredRecord], tools: Sequence[Tool], *script: Any
) -> Sequence[StoredRecord]:
    """The stream of a session whose process was lost when it had these records, resumed."""
    store = store_with(records)
    with system_of(store, tools, *script) as system:
        session = system.session("s")
        turn = session.resume()
        assert turn is not None
        turn.result(WAIT)
    return store.read("s")


def store_with(records: Sequence[StoredRecord]) -> MemoryStore:
    store = MemoryStore()
    encoded = tuple(EncodedEvent(each.topic, each.payload) for each in records)
    store.append(Append("s", 0, encoded, RowChange("running", "agent", AT)))
    return store


def place(records: Sequence[StoredRecord], topic: str, number: int = 1) -> int:
    """The version of the event of a topic, the first or a later one."""
    return [each.version for each in records if each.topic == topic][number - 1]


def steps(records: Sequence[StoredRecord]) -> list[StepRecorded]:
    """The steps recorded, without what tells one stream from another."""
    events = [CODEC.recorded(each).event for each in records]
    found = [each for each in events if isinstance(each, StepRecorded)]
    return [replace(each, at=AT, prev="") for each in found]


def answers(records: Sequence[StoredRecord]) -> list[Any]:
    """What the calls came to."""
    messages = fold(CODEC.recorded(each).event for each in records).transcript
    return [each.content for each in messages if isinstance(each, ToolMessage)]


def recorded_run(work: Callable[..., Any]) -> tuple[Sequence[StoredRecord], Any]:
    """The stream of a journal's run that was lived to its end, and its result."""
    store = MemoryStore()
    with Journal(store) as journal:
        result = journal.run("r", work)
    return store.read("r"), result
