"""The application's own state: changed by tools and from outside, and a fold like the rest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import partial
from typing import Any

import pytest
from sending import at_once, events
from travelling import assert_sound

from turnstream.actors import ActorSystem, Agent, Session, ToolContext, audit_session, tool
from turnstream.actors.choosing import AgentContext
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    ModelFailed,
    StateChanged,
    StateRefused,
    ToolMessage,
    ToolResultRecorded,
    Unstorable,
)
from turnstream.stores import EventStore

WAIT = 20
Run = Callable[..., ActorSystem]


@tool
def put(context: ToolContext, name: str) -> int:
    """Put something into the cart."""
    cart = context.set_state(lambda cart: [*(cart or []), name])
    assert context.state == cart and name in cart
    return len(cart)


@tool
async def put_async(context: ToolContext, name: str) -> int:
    """The same."""
    cart = await context.set_state(lambda cart: [*(cart or []), name])
    return len(cart)


def results(session: Session) -> list[tuple[str, Any]]:
    return [(each.outcome, each.content) for each in events(session, ToolResultRecorded)]


def shopping(run: Run, *names: str, kind: str = "put", **options: Any) -> Session:
    calls = [call(kind, f"c{n}", name=name) for n, name in enumerate(names)]
    return run([calls, "done"], tools=[put, put_async], **options).session("s")


@pytest.mark.parametrize("kind", ["put", "put_async"])
def test_a_change_is_in_the_stream_before_the_tool_goes_on(
    opened: EventStore, run: Run, kind: str
) -> None:
    session = shopping(run, "pen", kind=kind, on=opened)
    session.send("go").result(WAIT)

    topics = [each.topic for each in session.events()]
    started, changed, result = (
        topics.index(each)
        for each in ("tool_call_started", "state_changed", "tool_result_recorded")
    )
    assert started < changed < result
    (change,) = events(session, StateChanged)
    assert (change.value, change.turn_id, change.call_id) == (["pen"], "turn-1", "c0")
    assert session.state == ["pen"] and results(session) == [("ok", 1)]
    assert_sound(opened, "s")
    assert audit_session(opened, "s").findings == []


@pytest.mark.parametrize("kind", ["put", "put_async"])
def test_changes_of_calls_that_run_at_once_are_all_there(
    run: Run, kind: str, switching_often: None
) -> None:
    names = [f"thing {n}" for n in range(12)]
    session = shopping(run, *names, kind=kind, tool_concurrency=12)
    session.send("go").result(WAIT)

    assert sorted(session.state) == sorted(names)
    assert sorted(content for _, content in results(session)) == [*range(1, 13)]
    assert len(events(session, StateChanged)) == 12


def test_it_is_there_for_later_calls_turns_processes_and_for_what_chooses(
    opened: EventStore, run: Run
) -> None:
    seen: list[Any] = []

    @tool(needs_approval=lambda context, arguments: bool(seen.append(context.state)))
    def look(context: ToolContext) -> Any:
        return context.state

    script = [[call("put", name="pen")], [call("look")], "done", "and on"]
    session = run(script, tools=[put, look], on=opened).session("s")
    session.send("go").result(WAIT)
    assert results(session)[-1] == ("ok", ["pen"])

    def instructions(context: AgentContext) -> str:
        seen.append(context.state)
        return "Be brief."

    model = ScriptedModel(["again"])
    with ActorSystem(Agent("agent", model=model, instructions=instructions), store=opened) as later:
        assert later.session("s").state == ["pen"]
        later.session("s").send("more").result(WAIT)
    assert seen == [["pen"], ["pen"]]


class Size(StrEnum):
    LARGE = "large"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        (0, 0),
        ({"s": Size.LARGE, "t": (1, {2})}, {"s": "large", "t": [1, [2]]}),
        ([date(2025, 5, 17), b"\0\xff", 2**70, float("inf")],) * 2,
        ({1: "a", None: "\ud83d"},) * 2,
        ({"at": datetime(2025, 5, 17, tzinfo=UTC)},) * 2,
    ],
)
def test_it_is_plain_data_and_the_same_live_and_read_again(
    opened: EventStore, run: Run, value: Any, kept: Any
) -> None:
    told: list[Any] = []

    @tool
    def change(context: ToolContext) -> str:
        told.extend([context.set_state(value), context.state])
        return "ok"

    session = run([[call("change")], "done"], tools=[change], on=opened).session("s")
    session.send("go").result(WAIT)
    again = run([], on=opened).session("s")
    assert [*map(repr, told)] == [repr(kept)] * 2
    assert repr(session.state) == repr(again.state) == repr(session.fork().state) == repr(kept)


def test_what_is_no_plain_data_is_refused_and_changes_nothing(run: Run) -> None:
    system = run([[call("change")], "done"], tools=[tool(name="change")(_change_to_a_lock)])
    session = system.session("s")
    session.send("go").result(WAIT)

    ((outcome, told),) = results(session)
    assert outcome == "error" and "state.lock" in told
    with pytest.raises(Unstorable, match=r"state\.lock"):
        session.set_state({"lock": threading.Lock()})
    with pytest.raises(TypeError, match="by"):
        session.set_state(1, by=5)  # type: ignore[arg-type]
    assert session.state is None and events(session, StateChanged) == []


def _change_to_a_lock(context: ToolContext) -> None:
    context.set_state({"lock": threading.Lock()})


def test_nobody_changes_it_in_place(run: Run) -> None:
    given = {"cart": ["pen"]}

    @tool
    def spoil(context: ToolContext) -> str:
        mine = context.set_state(given)
        given["cart"].append("late")
        for held in (mine, context.state):
            with pytest.raises(TypeError, match="copy"):
                held["cart"].append("book")
        return "ok"

    session = run([[call("spoil")], "done"], tools=[spoil]).session("s")
    session.send("go").result(WAIT)
    fork = session.fork()
    with pytest.raises(TypeError, match="copy"):
        fork.state["cart"].append("book")
    assert session.state == fork.state == {"cart": ["pen"]}
    assert results(session) == [("ok", "ok")]


def test_a_session_has_it_before_its_first_input_and_between_its_turns(
    opened: EventStore, run: Run
) -> None:
    system = run([[call("put", name="pen")], "done"], tools=[put], on=opened)
    session = system.session("s", tenant="acme")
    assert session.set_state(["book"], by="ada").result(WAIT) is True
    assert (session.state, session.status, session.messages) == (["book"], "idle", [])
    assert session.resume() is None and system.resume_all() == []

    session.send("go").result(WAIT)
    assert session.state == ["book", "pen"]
    assert session.set_state({}).result(WAIT) is True
    assert session.state == {} and len(session.messages) == 4
    first, _, last = events(session, StateChanged)
    assert (first.by, first.call_id, last.by) == ("ada", "", "")
    row = opened.session("s")
    assert row is not None and (row.agent, row.tenant, row.status) == ("agent", "acme", "idle")
    assert audit_session(opened, "s").findings == []


def test_a_change_from_outside_disturbs_no_turn(run: Run, led: Any, held: Any) -> None:
    session = run([], model=led, tools=held.tools).session("s")
    turn = session.send("go")
    asked = led.asked()
    assert session.set_state("while the model thinks").result(WAIT)
    asked.answer([call("held", text="x")])
    held.begun("x")
    assert session.set_state("while a tool runs").result(WAIT)
    held.let("x")
    led.asked().answer("done")

    assert turn.result(WAIT).text == "done" and turn.result(WAIT).steps == 2
    assert session.state == "while a tool runs" and len(led.requests) == 2


def test_a_paused_turn_goes_on_waiting(run: Run) -> None:
    @tool(needs_approval=True)
    def pay(context: ToolContext) -> Any:
        return context.state

    session = run([[call("pay")], "done"], tools=[pay]).session("s")
    (asked,) = session.send("go").result(WAIT).approvals
    assert session.set_state(7).result(WAIT)
    assert session.status == "awaiting-approval"
    assert session.approve(asked.id).result(WAIT).text == "done"
    assert results(session) == [("ok", 7)]


def test_what_decides_on_a_call_reads_it_and_may_not_change_it(run: Run) -> None:
    refused = list[BaseException]()

    def gate(context: ToolContext, arguments: Any) -> bool:
        try:
            context.set_state("by the gate")
        except StateRefused as error:
            refused.append(error)
        return False

    gated = tool(name="look", needs_approval=gate)(lambda: "ok")
    session = run([[call("look")], "done"], tools=[gated]).session("s")
    assert session.send("go").result(WAIT).text == "done"
    assert len(refused) == 1 and session.state is None


def test_on_an_event_loop_a_change_is_awaited(run: Run) -> None:
    session = run([]).session("s")

    async def main() -> None:
        assert await session.set_state(6) is True

    asyncio.run(main())
    assert session.state == 6


def test_forks_rewinds_and_views_have_that_of_their_version(opened: EventStore, run: Run) -> None:
    script = [[call("put", name="pen")], "one", [call("put", name="book")], "two", "three"]
    session = run(script, tools=[put], on=opened).session("s")
    for text in "ab":
        session.send(text).result(WAIT)
    assert session.state == ["pen", "book"]
    entries = {each.step: each for each in session.history()}
    assert [entries[step].checkpoint.state for step in (0, 1, 2, 3)] == [
        None,
        *[["pen"]] * 2,
        ["pen", "book"],
    ]
    fork = session.fork(step=2)
    assert fork.state == ["pen"]
    fork.set_state(["other"]).result(WAIT)
    assert (fork.state, session.state) == (["other"], ["pen", "book"])
    session.rewind(keep_entries=0).result(WAIT)
    session.clear().result(WAIT)
    assert session.state == ["pen", "book"], "an edit of the conversation is none of the state"
    assert_sound(opened, "s", fork.id)


def test_a_dropped_turn_leaves_its_changes(run: Run) -> None:
    session = run(
        [[call("put", name="pen")], ConnectionError("down")], tools=[put], on_failure="drop"
    ).session("s")
    with pytest.raises(ModelFailed):
        session.send("go").result(WAIT)
    assert session.messages == [] and session.state == ["pen"]


def test_systems_that_change_it_at_once_write_in_one_order(opened: EventStore, run: Run) -> None:
    def change(system: ActorSystem, value: Any) -> None:
        system.session("s").set_state(value).result(WAIT)

    systems = [run([], on=opened) for _ in range(3)]
    at_once(
        *[
            partial(change, system, [n, place])
            for place, system in enumerate(systems)
            for n in range(4)
        ]
    )
    changes = [each.value for each in events(systems[0].session("s"), StateChanged)]
    assert sorted(changes) == sorted([n, place] for n in range(4) for place in range(3))
    assert {tuple(each.session("s").state) for each in systems} == {tuple(changes[-1])}
    assert_sound(opened, "s")


def test_the_model_reads_nothing_of_it(run: Run) -> None:
    session = shopping(run, "pen")
    result = session.send("go").result(WAIT)
    assert [type(each).__name__ for each in result.messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "AssistantMessage",
    ]
    assert [m.content for m in result.messages if isinstance(m, ToolMessage)] == ["1"]
