"""A session as its callers see it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from places import on_durable_stores, on_files_too

from turnstream.actors import ActorSystem, Agent, ModelRequest, TextDelta, tool
from turnstream.actors.testing import ScriptedModel, call, said
from turnstream.events import (
    AssistantMessage,
    MailboxFull,
    ModelTurn,
    SystemClosed,
    ToolMessage,
    Usage,
    UserMessage,
)

pytestmark = on_files_too

WAIT = 20
Run = Callable[..., ActorSystem]


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_a_turn_runs_its_tools_and_ends_with_the_answer(run: Run) -> None:
    system = run([[call("add", a=1, b=2)], ModelTurn("It is 3.", usage=Usage(10, 5))])
    result = system.session("s").send("1 + 2?").result(WAIT)

    assert (result.text, result.finish_reason, result.steps) == ("It is 3.", "stop", 2)
    assert [type(each) for each in result.new_messages] == [
        UserMessage,
        AssistantMessage,
        ToolMessage,
        AssistantMessage,
    ]
    assert result.tool_calls[0].arguments == {"a": 1, "b": 2}
    assert result.usage == Usage(10, 5)


def test_a_later_turn_sees_the_earlier_ones_and_counts_for_itself(run: Run) -> None:
    model = ScriptedModel(
        [
            ModelTurn(tool_calls=(call("add", a=1, b=2),)),
            ModelTurn("one", usage=Usage(1, 1)),
            ModelTurn("two", usage=Usage(2, 2)),
        ]
    )
    session = run([], model=model).session("s")
    first = session.send("a").result(WAIT)
    result = session.send("b").result(WAIT)

    assert said(model.requests[2].messages) == ["a", "", "3", "one", "b"]
    assert result.usage == Usage(2, 2) and (first.steps, result.steps) == (2, 1)
    assert [each.name for each in first.tool_calls] == ["add"] and result.tool_calls == ()
    assert said(result.new_messages) == ["b", "two"]
    assert said(result.messages) == ["a", "", "3", "one", "b", "two"]
    assert session.usage == Usage(3, 3)
    assert session.status == "idle" and session.pending() is None


def test_a_session_that_is_given_no_id_has_one_of_its_own(run: Run) -> None:
    system = run(["a", "b", "c"])
    one, other = system.session(), system.session()
    for session, text in ((one, "x"), (other, "y"), (one, "z")):
        session.send(text).result(WAIT)

    assert [said(each.messages) for each in (one, other)] == [["x", "a", "z", "c"], ["y", "b"]]
    assert said(system.session(one.id).messages) == said(one.messages)


def test_inputs_sent_at_once_run_as_turns_in_the_order_they_were_sent(run: Run) -> None:
    system = run([f"answer {n}" for n in range(20)])
    turns = [system.session("s").send(f"input {n}") for n in range(20)]

    assert [turn.result(WAIT).text for turn in turns] == [f"answer {n}" for n in range(20)]
    texts = said(system.session("s").messages)
    assert texts[::2] == [f"input {n}" for n in range(20)]


def test_an_input_is_durable_once_it_is_accepted(run: Run) -> None:
    begin = threading.Event()

    def model(request: ModelRequest) -> str:
        begin.wait(WAIT)
        return "ok"

    system = run([], model=model)
    first, second = system.session("s").send("one"), system.session("s").send("two")
    ids = [turn.accepted().result(WAIT) for turn in (first, second)]
    queued = [each.event for each in system.session("s").events() if each.topic == "input_queued"]
    begin.set()

    assert [each.input_id for each in queued] == ids  # type: ignore[union-attr]
    assert second.result(WAIT).text == "ok"


@pytest.mark.parametrize("kind", ["sync", "async", "text", "stream"])
def test_models_of_every_kind_answer(run: Run, kind: str) -> None:
    def sync_model(request: ModelRequest) -> ModelTurn:
        return ModelTurn("hi")

    async def async_model(request: ModelRequest) -> ModelTurn:
        await asyncio.sleep(0)
        return ModelTurn("hi")

    def text_model(request: ModelRequest) -> str:
        return "hi"

    class Streaming:
        id = "streaming"

        async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
            yield TextDelta("h")
            yield TextDelta("i")
            yield ModelTurn("hi")

    models = {
        "sync": sync_model,
        "async": async_model,
        "text": text_model,
        "stream": Streaming(),
    }
    turn = run([], model=models[kind]).session("s").send("hello")

    assert turn.result(WAIT).text == "hi"
    deltas = [item.text for item in turn.stream() if item.type == "text.delta"]
    assert deltas == (["h", "i"] if kind == "stream" else [])


def test_a_stream_shows_the_turn_in_order_and_ends_with_one_terminal_item(run: Run) -> None:
    turn = run([[call("add", a=1, b=2)], "3"]).session("s").send("1 + 2?")
    kinds = [item.type for item in turn.stream()]

    assert kinds == [
        "turn.started",
        "model.turn",
        "tool.started",
        "tool.result",
        "text.delta",
        "model.turn",
        "turn.done",
    ]
    assert [item.type for item in turn.stream()] == kinds, "a late reader sees the same"


def test_async_callers_await_and_iterate(store: str) -> None:
    model = ScriptedModel([[call("add", a=1, b=2)], "3", "again"])

    async def main() -> None:
        async with ActorSystem(Agent("agent", model=model, tools=[add]), store=store) as system:
            turn = system.session("s").send("1 + 2?")
            kinds = [item.type async for item in turn.stream()]
            assert kinds[-1] == "turn.done"
            assert (await turn).text == "3"
            other = system.session("s").send("more")
            assert await other.accepted() == other.input_id
            assert (await asyncio.wait_for(other, WAIT)).text == "again"
            assert len((await system.session("s").view()).messages) == 6

    asyncio.run(main())


def test_one_session_serves_several_event_loops(run: Run) -> None:
    session = run(["a", "b", "c"]).session("s")

    async def ask(text: str) -> str:
        return (await session.send(text)).text

    assert asyncio.run(ask("1")) == "a"
    assert asyncio.run(ask("2")) == "b"
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, ask("3")).result(WAIT) == "c"


@on_durable_stores
def test_closing_records_what_runs_and_leaves_the_rest_to_be_resumed(store: str) -> None:
    started, release = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        started.set()
        release.wait(WAIT)
        return "recorded"

    agent = Agent("agent", model=ScriptedModel([[call("slow")], "never asked"]), tools=[slow])
    system = ActorSystem(agent, store=store)
    turn = system.session("s").send("go")
    assert started.wait(WAIT)
    threading.Timer(0.05, release.set).start()
    assert system.close() is True

    with pytest.raises(SystemClosed):
        turn.result(WAIT)
    again = Agent("agent", model=ScriptedModel(["done"]), tools=[slow])
    with ActorSystem(again, store=store) as other:
        pending = other.session("s").pending()
        assert pending is not None and pending.calls == ()
        (resumed,) = other.resume_all()
        assert resumed.result(WAIT).text == "done"


@on_durable_stores
def test_an_input_that_waits_when_the_system_closes_is_found_by_resume_all(store: str) -> None:
    started, release = threading.Event(), threading.Event()

    def model(request: ModelRequest) -> str:
        started.set()
        release.wait(WAIT)
        return "done"

    system = ActorSystem(Agent("agent", model=model), store=store)
    first, second = system.session("s").send("one"), system.session("s").send("two")
    second.accepted().result(WAIT)
    assert started.wait(WAIT)
    threading.Timer(0.05, release.set).start()
    system.close()
    assert first.result(WAIT).text == "done"

    with ActorSystem(Agent("agent", model=model), store=store) as other:
        assert [row.status for row in other.sessions()] == ["running"]
        (turn,) = other.resume_all()
        assert turn.result(WAIT).text == "done"
        assert [row.status for row in other.sessions()] == ["idle"]
        assert len(other.session("s").messages) == 4


@pytest.mark.slow
@on_durable_stores
def test_closing_interrupts_what_does_not_end_in_time(address: str) -> None:
    started, release = threading.Event(), threading.Event()

    @tool
    def stuck() -> str:
        started.set()
        release.wait(WAIT)
        return "late"

    system = ActorSystem(
        Agent("agent", model=ScriptedModel([[call("stuck")]]), tools=[stuck]),
        store=address,
    )
    turn = system.session("s").send("go")
    assert started.wait(WAIT)
    assert system.close(timeout=0.05) is False
    release.set()

    with pytest.raises(SystemClosed):
        turn.result(WAIT)


def test_a_closed_system_refuses_and_says_so(run: Run) -> None:
    system = run(["hi"])
    session = system.session("s")
    system.close()
    system.close()

    with pytest.raises(SystemClosed, match="closed"):
        session.send("hi")


def test_a_full_mailbox_refuses_and_accepts_nothing(run: Run) -> None:
    begin = threading.Event()

    def model(request: ModelRequest) -> str:
        begin.wait(WAIT)
        return "ok"

    session = run([], model=model, mailbox_limit=2).session("s")
    turns = []
    for n in range(3):
        turns.append(session.send(f"input {n}"))
        turns[n].accepted().result(WAIT)
    with pytest.raises(MailboxFull):
        session.send("one too many").accepted().result(WAIT)
    begin.set()

    assert [turn.result(WAIT).text for turn in turns] == ["ok"] * 3
    assert len(session.messages) == 6


def test_an_event_another_writer_appended_is_taken_in(run: Run) -> None:
    """The owner notices at its next append, reads what is new, and decides anew."""
    from datetime import UTC, datetime

    from turnstream.events import CODEC, InputQueued, digest
    from turnstream.stores import Append, RowChange

    hold, asked = threading.Event(), threading.Event()

    def model(request: ModelRequest) -> str:
        asked.set()
        hold.wait(WAIT)
        return f"answer to {said(request.messages)[-1]}"

    system = run([], model=model)
    session = system.session("s")
    turn = session.send("mine")
    assert asked.wait(WAIT)
    last = system._store.read("s")[-1]
    foreign = InputQueued(at=datetime.now(UTC), input_id="theirs", content="theirs")
    encoded = CODEC.encode(foreign, digest(last.topic, last.version, last.payload))
    row = RowChange("running", "agent", foreign.at)
    system._store.append(Append("s", last.version, (encoded,), row))
    hold.set()

    assert turn.result(WAIT).text == "answer to mine"
    assert session.send("mine again").result(WAIT).text == "answer to mine again"
    assert said(session.messages) == [
        "mine",
        "answer to mine",
        "theirs",
        "answer to theirs",
        "mine again",
        "answer to mine again",
    ]
