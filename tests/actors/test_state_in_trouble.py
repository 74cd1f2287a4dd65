"""Changes of the application's state where processes, turns and stores come to grief."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from places import on_durable_stores
from sending import events

from turnstream.actors import ActorSystem, Agent, ToolContext, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    StateChanged,
    StateRefused,
    StoreUnavailable,
    TurnTakenOver,
)
from turnstream.stores import Append, MemoryStore

WAIT = 20
Run = Callable[..., ActorSystem]


KILLED = """
import os, sys

from turnstream.actors import ActorSystem, Agent, ToolContext, tool
from turnstream.actors.testing import ScriptedModel, call

@tool
def book(context: ToolContext) -> str:
    context.set_state({"booked": context.attempt})
    os._exit(7)

agent = Agent("agent", model=ScriptedModel([[call("book")]]), tools=[book])
ActorSystem(agent, store=sys.argv[1]).session("s").send("go").result(60)
"""


@on_durable_stores
def test_a_call_that_is_run_again_after_a_kill_reads_what_it_changed_before(
    run: Run, store: str
) -> None:
    attempts = list[tuple[int, Any]]()
    child = subprocess.run([sys.executable, "-c", KILLED, store], timeout=WAIT, check=False)
    assert child.returncode == 7

    @tool
    def book(context: ToolContext) -> str:
        attempts.append((context.attempt, context.state))
        return "booked"

    (turn,) = run(["done"], tools=[book], on=store).resume_all()
    assert turn.result(WAIT).text == "done"
    assert attempts == [(2, {"booked": 1})]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_call_that_is_no_longer_wanted_changes_nothing(run: Run, led: Any, kind: str) -> None:
    begun, release, refused = threading.Event(), threading.Event(), list[BaseException]()
    over = threading.Event()

    def change(context: ToolContext) -> str:
        begun.set()
        release.wait(WAIT)
        try:
            context.set_state("late")
        except BaseException as error:
            refused.append(error)
        over.set()
        return "late"

    async def change_async(context: ToolContext) -> str:
        begun.set()
        while not release.is_set():
            try:
                await asyncio.to_thread(release.wait, WAIT)
            except asyncio.CancelledError:
                continue
        try:
            await context.set_state("late")
        except BaseException as error:
            refused.append(error)
        over.set()
        return "late"

    fn = change if kind == "sync" else change_async
    session = run([], model=led, tools=[tool(name="change")(fn)]).session("s")
    turn = session.send("go")
    led.asked().answer([call("change", "c1")])
    assert begun.wait(WAIT)
    turn.abort().result(WAIT)
    release.set()
    assert over.wait(WAIT)

    (error,) = refused
    assert isinstance(error, StateRefused) and (error.session_id, error.code) == (
        "s",
        "state-refused",
    )
    assert session.state is None and events(session, StateChanged) == []


@on_durable_stores
def test_a_call_whose_turn_was_taken_over_changes_nothing(store: str) -> None:
    begun, release, refused = threading.Event(), threading.Event(), list[BaseException]()
    over = threading.Event()

    @tool
    def change(context: ToolContext) -> str:
        if context.attempt > 1:
            return context.set_state("of the new owner") or ""
        begun.set()
        release.wait(WAIT)
        try:
            context.set_state("of the old owner")
        except BaseException as error:
            refused.append(error)
        over.set()
        return "late"

    asking = Agent("agent", model=ScriptedModel([[call("change")]]), tools=[change])
    answering = Agent("agent", model=ScriptedModel(["done"]), tools=[change])
    with (
        ActorSystem(asking, store=store) as old,
        ActorSystem(answering, store=store, lease=0) as new,
    ):
        old.session("s").send("go")
        assert begun.wait(WAIT)
        turn = new.session("s").resume()
        assert turn is not None and turn.result(WAIT).text == "done"
        release.set()
        assert over.wait(WAIT)
        assert new.session("s").state == "of the new owner"
    assert isinstance(refused[0], (TurnTakenOver, StateRefused))


class Refusing(MemoryStore):
    """Takes no change of the state."""

    def submit(self, append: Append, done: Callable[[Any], None]) -> None:
        if any(each.topic == "state_changed" for each in append.events):
            done(StoreUnavailable("the disk is full"))
        else:
            super().submit(append, done)


def test_a_tool_is_told_that_its_change_could_not_be_stored() -> None:
    told = list[BaseException]()

    @tool
    def change(context: ToolContext) -> str:
        try:
            context.set_state(1)
        except BaseException as error:
            told.append(error)
            raise
        return "unreachable"

    store = Refusing()
    with (
        ActorSystem(
            Agent("agent", model=ScriptedModel([[call("change")], "done"]), tools=[change]),
            store=store,
        ) as system,
        pytest.raises(StoreUnavailable),
    ):
        system.session("s").send("go").result(WAIT)
    assert isinstance(told[0], StoreUnavailable)
    assert not [each for each in store.read("s") if each.topic == "state_changed"]
