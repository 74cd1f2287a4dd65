"""A session as its callers see it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, ModelRequest, TextDelta, ToolContext, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AssistantMessage,
    InvalidAgent,
    InvalidModelTurn,
    MailboxFull,
    ModelCallDiscarded,
    ModelFailed,
    ModelStreamEnded,
    ModelTurn,
    NotSupported,
    ScriptExhausted,
    SystemClosed,
    ToolCall,
    ToolMessage,
    ToolResultRecorded,
    TurnError,
    Usage,
    UserMessage,
    WouldDeadlock,
)

WAIT = 20


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db"


Run = Callable[..., ActorSystem]


@pytest.fixture
def run(store: str) -> Iterator[Run]:
    """Start a system on a scripted agent; it is closed with the test."""
    systems = []

    def start(script: list[Any], *, on: str = store, **options: Any) -> ActorSystem:
        tools = options.pop("tools", [add])
        limits = {k: options.pop(k) for k in ("max_steps", "tool_concurrency") if k in options}
        model = options.pop("model", None) or ScriptedModel(script)
        system = ActorSystem(
            Agent("agent", model=model, tools=tools, **limits), store=on, **options
        )
        systems.append(system)
        return system

    yield start
    for system in systems:
        system.close()


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
        [ModelTurn("one", usage=Usage(1, 1)), ModelTurn("two", usage=Usage(2, 2))]
    )
    session = run([], model=model).session("s")
    session.send("a").result(WAIT)
    result = session.send("b").result(WAIT)

    assert [_text(each) for each in model.requests[1].messages] == ["a", "one", "b"]
    assert result.usage == Usage(2, 2) and result.steps == 1
    assert [_text(each) for each in result.new_messages] == ["b", "two"]
    assert [_text(each) for each in result.messages] == ["a", "one", "b", "two"]
    assert session.usage == Usage(3, 3)
    assert session.status == "idle" and session.pending() is None


def test_inputs_sent_at_once_run_as_turns_in_the_order_they_were_sent(run: Run) -> None:
    system = run([f"answer {n}" for n in range(20)])
    turns = [system.session("s").send(f"input {n}") for n in range(20)]

    assert [turn.result(WAIT).text for turn in turns] == [f"answer {n}" for n in range(20)]
    said = [_text(each) for each in system.session("s").messages]
    assert said[::2] == [f"input {n}" for n in range(20)]


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


def test_results_are_recorded_as_calls_finish_and_shown_in_call_order(run: Run) -> None:
    gates = {name: threading.Event() for name in "abc"}

    @tool
    def step(name: str, opens: str = "") -> str:
        gates[name].wait(WAIT)
        return name

    script: list[Any] = [[call("step", name=n, id=n) for n in "abc"], "done"]
    system = run(script, tools=[step])
    turn = system.session("s").send("go")
    finished = []
    for item in turn.stream():
        if item.type == "tool.started" and len(finished) == 0 and item.call_id == "c":
            gates["c"].set()
        if item.type == "tool.result":
            finished.append(item.call_id)
            gates[{"c": "a", "a": "b", "b": "b"}[item.call_id]].set()

    assert finished == ["c", "a", "b"]
    recorded = [e.event.call_id for e in system.session("s").events() if _is_result(e.event)]
    assert recorded == ["c", "a", "b"]
    shown = [m.call_id for m in turn.result(WAIT).messages if isinstance(m, ToolMessage)]
    assert shown == ["a", "b", "c"]


def test_one_failing_tool_of_a_batch_leaves_its_siblings_alone(run: Run) -> None:
    @tool
    def fail() -> None:
        raise ValueError("no such thing")

    calls = [call("add", a=1, b=1), call("fail"), call("add", a=2, b=2)]
    result = run([calls, "done"], tools=[add, fail]).session("s").send("go").result(WAIT)
    results = [m for m in result.messages if isinstance(m, ToolMessage)]

    assert [m.outcome for m in results] == ["ok", "error", "ok"]
    assert [m.content for m in results] == ["2", "ValueError: no such thing", "4"]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_a_tool_that_raises_what_stops_programs_only_fails_its_call(
    run: Run, error: type[BaseException]
) -> None:
    @tool
    def sync_tool() -> None:
        raise error

    @tool
    async def async_tool() -> None:
        raise error

    script = [[call("sync_tool"), call("async_tool")], "done"]
    result = run(script, tools=[sync_tool, async_tool]).session("s").send("go").result(WAIT)

    assert [m.outcome for m in result.messages if isinstance(m, ToolMessage)] == ["error"] * 2
    assert result.text == "done"


def test_a_tool_may_return_nothing_and_the_call_still_has_its_result(run: Run) -> None:
    values: list[Any] = [None, "", b"", [], {}, 0, False]

    @tool
    def give(place: int) -> Any:
        return values[place]

    script = [[call("give", place=n) for n in range(7)], "done"]
    system = run(script, tools=[give], tool_concurrency=1)
    result = system.session("s").send("go").result(WAIT)

    assert len([m for m in result.messages if isinstance(m, ToolMessage)]) == 7
    kept = [e.event.content for e in system.session("s").events() if _is_result(e.event)]
    assert kept == values
    assert [type(each) for each in kept] == [type(each) for each in values]


def test_changing_a_value_after_it_was_returned_changes_no_history(run: Run) -> None:
    rows: dict[str, Any] = {"rows": [1]}

    @tool
    def fetch(wanted: dict[str, Any]) -> dict[str, Any]:
        wanted["seen"] = True
        return rows

    system = run([[call("fetch", wanted={"a": [1]})], "done"], tools=[fetch])
    result = system.session("s").send("go").result(WAIT)
    rows["rows"].append(2)

    assert result.tool_calls[0].arguments == {"wanted": {"a": [1]}}
    with pytest.raises(TypeError, match="copy"):
        result.tool_calls[0].arguments["wanted"]["a"].append(2)
    kept = next(e.event for e in system.session("s").events() if _is_result(e.event))
    assert kept.content == {"rows": [1]}
    assert system.session("s").messages[1].tool_calls[0].arguments == {"wanted": {"a": [1]}}


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


def test_a_model_that_raises_fails_the_turn_with_its_cause(run: Run) -> None:
    session = run([ConnectionError("no route")]).session("s")
    turn = session.send("go")

    with pytest.raises(ModelFailed, match="no route") as failure:
        turn.result(WAIT)
    assert isinstance(failure.value.__cause__, ConnectionError)
    assert failure.value.session_id == "s" and failure.value.turn_id == "turn-1"
    assert [item.type for item in turn.stream()] == ["turn.started", "error", "turn.done"]


def test_a_failed_turn_is_kept_on_a_durable_store_and_resumed(run: Run, tmp_path: Path) -> None:
    script = [[call("add", a=1, b=2)], ConnectionError("down"), "3"]
    session = run(script, on=f"sqlite:///{tmp_path}/kept.db").session("s")
    with pytest.raises(ModelFailed):
        session.send("1 + 2?").result(WAIT)

    pending = session.pending()
    assert session.status == "failed" and pending is not None and "down" in pending.error
    resumed = session.resume()
    assert resumed is not None and resumed.result(WAIT).text == "3"
    assert session.resume() is None
    assert len([e for e in session.events() if e.topic == "tool_call_started"]) == 1


def test_a_failed_turn_is_dropped_on_a_memory_store(run: Run) -> None:
    session = run([ConnectionError("down"), "hello"], on="memory://").session("s")
    with pytest.raises(ModelFailed):
        session.send("one").result(WAIT)

    assert session.pending() is None and list(session.messages) == []
    assert session.send("two").result(WAIT).text == "hello"


def test_the_next_send_finishes_a_failed_turn_first(run: Run, tmp_path: Path) -> None:
    on = f"sqlite:///{tmp_path}/kept.db"
    session = run([ConnectionError("down"), "one", "two"], on=on).session("s")
    with pytest.raises(ModelFailed):
        session.send("a").result(WAIT)

    assert session.send("b").result(WAIT).text == "two"
    assert [_text(each) for each in session.messages] == ["a", "one", "b", "two"]


def test_every_input_that_waits_behind_a_failing_turn_hears_of_it(run: Run, tmp_path: Path) -> None:
    begin = threading.Event()

    def model(request: ModelRequest) -> str:
        begin.wait(WAIT)
        raise ConnectionError("down")

    system = run([], model=model, on=f"sqlite:///{tmp_path}/kept.db")
    turns = [system.session("s").send(f"input {n}") for n in range(3)]
    for turn in turns:
        turn.accepted().result(WAIT)
    begin.set()

    for turn in turns:
        with pytest.raises(ModelFailed):
            turn.result(WAIT)
    pending = system.session("s").pending()
    assert pending is not None and pending.queued == ("input 1", "input 2")


def test_a_stream_that_ends_early_is_asked_for_once_more(run: Run) -> None:
    class Cut:
        id = "cut"

        def __init__(self, cuts: int) -> None:
            self.cuts = cuts

        async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
            yield TextDelta("Hel")
            if self.cuts:
                self.cuts -= 1
                return
            yield ModelTurn("Hello")

    session = run([], model=Cut(1)).session("s")
    assert session.send("hi").result(WAIT).text == "Hello"
    assert len([e for e in session.events() if isinstance(e.event, ModelCallDiscarded)]) == 1
    with pytest.raises(ModelStreamEnded):
        run([], model=Cut(2)).session("t").send("hi").result(WAIT)


def test_an_answer_that_is_no_turn_is_named(run: Run) -> None:
    with pytest.raises(TurnError, match="int") as failure:
        run([lambda request: 5]).session("s").send("hi").result(WAIT)
    assert failure.value.__cause__ is not None


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (None, "NoneType"),
        (ModelTurn(None), "text"),  # type: ignore[arg-type]
        (ModelTurn("x", finish_reason=None), "finish_reason"),  # type: ignore[arg-type]
        (ModelTurn("x", usage=Usage("3")), "usage"),  # type: ignore[arg-type]
        (ModelTurn("x", usage=None), "usage"),  # type: ignore[arg-type]
        (ModelTurn(tool_calls=5), "int"),  # type: ignore[arg-type]
        (ModelTurn(tool_calls=(5,)), "tool_calls"),  # type: ignore[arg-type]
        (ModelTurn("x", parts=(object(),)), "parts"),
    ],
)
def test_an_answer_that_could_not_be_read_back_fails_the_turn_and_not_the_session(
    run: Run, answer: Any, names: str
) -> None:
    answers = [answer, ModelTurn("fine")]

    def model(request: ModelRequest) -> Any:
        return answers.pop(0)

    session = run([], model=model).session("s")
    with pytest.raises(InvalidModelTurn, match=names):
        session.send("hi").result(WAIT)
    assert session.send("hi").result(WAIT).text == "fine"


def test_a_result_whose_own_code_raises_is_an_error_result(run: Run) -> None:
    class Hostile:
        def model_dump(self) -> None:
            raise RuntimeError("no")

    @tool
    def give() -> Any:
        return Hostile()

    result = run([[call("give")], "ok"], tools=[give]).session("s").send("go").result(WAIT)
    message = next(m for m in result.messages if isinstance(m, ToolMessage))

    assert message.outcome == "error" and "can't be recorded" in str(message.content)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"a": "one", "b": 2}, "schema"),
        ({"a": 1}, "b"),
        ("[1,2]", "no JSON object"),
        ('{"a": 1', "no JSON object"),
        (None, "no JSON object"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error_result_and_nothing_runs(
    run: Run, arguments: Any, says: str
) -> None:
    turn = ModelTurn(tool_calls=(ToolCall("c", "add", arguments),))
    system = run([turn, "sorry"])
    result = system.session("s").send("go").result(WAIT)
    message = next(m for m in result.messages if isinstance(m, ToolMessage))

    assert message.outcome == "error" and says in str(message.content)
    assert isinstance(result.tool_calls[0].arguments, dict)
    assert not [e for e in system.session("s").events() if e.topic == "tool_call_started"]


def test_a_number_sent_as_text_fits_an_int(run: Run) -> None:
    result = run([[call("add", a="8", b="1")], "9"]).session("s").send("go").result(WAIT)

    assert [m.content for m in result.messages if isinstance(m, ToolMessage)] == ["9"]


def test_a_result_that_cannot_be_stored_is_an_error_result_that_says_why(run: Run) -> None:
    @tool
    def handle() -> Any:
        return {"file": threading.Lock()}

    result = run([[call("handle")], "ok"], tools=[handle]).session("s").send("go").result(WAIT)
    message = next(m for m in result.messages if isinstance(m, ToolMessage))

    assert message.outcome == "error"
    assert "result.file" in str(message.content) and "lock" in str(message.content)


def test_a_tool_over_its_time_is_an_error_result(run: Run) -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    async def slow() -> str:
        await asyncio.sleep(WAIT)
        return "late"

    @tool(timeout=0.05)
    def stuck() -> str:
        release.wait(WAIT)
        return "late"

    script = [[call("slow"), call("stuck")], "done"]
    result = run(script, tools=[slow, stuck]).session("s").send("go").result(WAIT)
    release.set()

    messages = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert [m.outcome for m in messages] == ["error", "error"]
    assert all("0.05 seconds" in str(m.content) for m in messages)


def test_closing_records_what_runs_and_leaves_the_rest_to_be_resumed(tmp_path: Path) -> None:
    started, release = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        started.set()
        release.wait(WAIT)
        return "recorded"

    store = f"sqlite:///{tmp_path}/s.db"
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


def test_closing_interrupts_what_does_not_end_in_time(tmp_path: Path) -> None:
    started, release = threading.Event(), threading.Event()

    @tool
    def stuck() -> str:
        started.set()
        release.wait(WAIT)
        return "late"

    system = ActorSystem(
        Agent("agent", model=ScriptedModel([[call("stuck")]]), tools=[stuck]),
        store=f"sqlite:///{tmp_path}/s.db",
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


def test_policies_that_are_not_there_yet_are_refused(run: Run) -> None:
    with pytest.raises(NotSupported, match="steer"):
        run([]).session("s").send("hi", policy="steer")


def test_a_script_that_is_used_up_fails_loudly(run: Run) -> None:
    session = run(["one"]).session("s")
    session.send("a").result(WAIT)
    with pytest.raises(TurnError, match="2") as failure:
        session.send("b").result(WAIT)
    assert isinstance(failure.value.__cause__, ScriptExhausted)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Agent("", model=lambda r: "x"),
        lambda: Agent("a", model=5),  # type: ignore[arg-type]
        lambda: Agent("a", model=lambda r: "x", tools=[add, add]),
        lambda: Agent("a", model=lambda r: "x", tools=[lambda: 1]),  # type: ignore[list-item]
        lambda: Agent("a", model=lambda r: "x", max_steps=0),
        lambda: tool(lambda *args: 1),
        lambda: tool(timeout=-1)(lambda: 1),
    ],
)
def test_an_agent_that_cannot_work_is_refused_when_it_is_declared(
    declare: Callable[[], object],
) -> None:
    with pytest.raises(InvalidAgent):
        declare()


def test_discarding_an_unfinished_turn_leaves_the_conversation_as_before(
    run: Run, tmp_path: Path
) -> None:
    on = f"sqlite:///{tmp_path}/kept.db"
    session = run(["one", ConnectionError("down"), "three"], on=on).session("s")
    session.send("a").result(WAIT)
    with pytest.raises(ModelFailed):
        session.send("b").result(WAIT)
    session.discard_pending()

    assert session.pending() is None
    assert [_text(each) for each in session.messages] == ["a", "one"]
    assert session.send("c").result(WAIT).text == "three"


def test_an_event_another_writer_appended_is_taken_in(run: Run) -> None:
    """The owner notices at its next append, reads what is new, and decides anew."""
    from datetime import UTC, datetime

    from turnstream.events import CODEC, InputQueued, digest
    from turnstream.stores import Append, RowChange

    hold, asked = threading.Event(), threading.Event()

    def model(request: ModelRequest) -> str:
        asked.set()
        hold.wait(WAIT)
        return f"answer to {_text(request.messages[-1])}"

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
    assert [_text(each) for each in session.messages] == [
        "mine",
        "answer to mine",
        "theirs",
        "answer to theirs",
        "mine again",
        "answer to mine again",
    ]


def _text(message: object) -> str:
    match message:
        case UserMessage(content=content) | ToolMessage(content=content):
            return str(content)
        case AssistantMessage(text=text):
            return text
    raise AssertionError(message)


def _is_result(event: object) -> Any:
    return event if isinstance(event, ToolResultRecorded) else None
