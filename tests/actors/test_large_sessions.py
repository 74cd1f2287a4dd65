"""What is large: results of many megabytes, long instructions, and pauses in long conversations."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from places import on_durable_stores
from sending import events

from turnstream.actors import ActorSystem, Agent, Tool, tool
from turnstream.actors.results import ApprovalShown
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import AgentConfigured, StoreError
from turnstream.stores import Append, Appended, MemoryStore, SQLiteStore, open_store

WAIT = 60

LARGE_RESULT = """
import resource, sys
from time import perf_counter
from turnstream import ActorSystem, Agent, ToolMessage, tool
from turnstream.actors.testing import ScriptedModel, call

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

address, kind, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
made = bytes(size) if kind == "bytes" else "x" * size

@tool
def fetch():
    return made

model = ScriptedModel([[call("fetch", "c")], "done", *["small"] * 10])
before = peak()
with ActorSystem(Agent("agent", model=model, tools=[fetch]), store=address) as system:
    session = system.session("s")
    assert session.send("go").result(60).text == "done"
    assert peak() - before < 6 * size, f"{(peak() - before) / size:.1f} times the result"
    times = []
    for _ in range(10):
        begun = perf_counter()
        session.send("more").accepted().result(60)
        times.append(perf_counter() - begun)
    assert sorted(times)[5] < 0.05, times
with ActorSystem(Agent("agent", model=ScriptedModel([])), store=address) as system:
    recorded, = [e.event for e in system.session("s").events() if e.topic == "tool_result_recorded"]
    assert recorded.outcome == "ok" and recorded.content == made
"""


@pytest.mark.slow
@on_durable_stores
@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_a_result_of_64_megabytes_is_recorded_whole_and_what_follows_is_not_slower(
    address: str, kind: str
) -> None:
    child = [sys.executable, "-c", LARGE_RESULT, address, kind, str(64_000_000)]
    done = subprocess.run(child, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr


def test_instructions_and_tools_are_stored_once_for_each_change(tmp_path: Path) -> None:
    tools = [
        Tool.from_schema(f"tool_{n}", lambda: "", {}, description="d" * 500) for n in range(50)
    ]

    def told(words: str) -> Agent:
        model = ScriptedModel(["yes"] * 200)
        return Agent("agent", model=model, instructions=words * 10_000, tools=tools)

    with closing(open_store(f"sqlite:///{tmp_path}/s.db")) as store:
        sizes = list[int]()
        for words in ("Be brief. ", "Be clear. "):
            with ActorSystem(told(words), store=store) as system:
                session = system.session("s")
                for n in range(200):
                    session.send(str(n)).result(WAIT)
                assert len(session.messages) == 400 * (len(sizes) + 1)
            row = store.session("s")
            assert row is not None
            sizes.append(row.size)
        assert len(events(session, AgentConfigured)) == 2
    one = 100_000 + 50 * 500
    assert one < sizes[0] < 2 * one + 200 * 1000
    assert sizes[1] - sizes[0] < 2 * one + 200 * 1000


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


def slow(store: type[Any]) -> type[Any]:
    """A store of that kind whose appends take a fifth of a second to be told."""

    class Slow(store):  # type: ignore[misc]
        def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
            def tell(outcome: Appended | StoreError) -> None:
                Timer(0.2, done, (outcome,)).start()

            super().submit(append, tell)

    return Slow


def stores(tmp_path: Path) -> list[Any]:
    return [slow(MemoryStore)(), slow(SQLiteStore)(tmp_path / "s.db")]


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1], ids=["memory", "sqlite"])
def test_a_question_in_a_long_conversation_is_decided_the_moment_it_is_shown(
    tmp_path: Path, place: int
) -> None:
    """However long the conversation is to read, and however slow the store."""

    def agent() -> Agent:
        script: list[Any] = ["y" * 10_000_000, [call("remove", "c", path="a")], "done"]
        return Agent("agent", model=ScriptedModel(script), tools=[remove])

    with closing(stores(tmp_path)[place]) as store, ActorSystem(agent(), store=store) as system:
        session = system.session("s")
        session.send("x" * 10_000_000).result(WAIT)
        decided = [
            session.approve(item.approval.id)
            for item in session.send("go").stream()
            if isinstance(item, ApprovalShown)
        ]
        assert [each.result(WAIT).text for each in decided] == ["done"]


@pytest.mark.slow
def test_a_question_is_decided_elsewhere_as_soon_as_its_row_can_be_seen(tmp_path: Path) -> None:
    script: list[Any] = ["y" * 10_000_000, [call("remove", "c", path="a")]]
    asking = Agent("agent", model=ScriptedModel(script), tools=[remove])
    deciding = Agent("agent", model=ScriptedModel(["done"]), tools=[remove])
    with closing(stores(tmp_path)[1]) as store, ActorSystem(asking, store=store) as system:
        session = system.session("s")
        session.send("x" * 10_000_000).result(WAIT)
        with ActorSystem(deciding, store=f"sqlite:///{tmp_path}/s.db") as other:
            with other.subscribe(after=session.version) as log:
                session.send("go")
                next(each for each in log if each.topic == "approval_requested")
            (waiting,) = other.approvals()
            assert other.approve(waiting.id).result(WAIT).text == "done"
