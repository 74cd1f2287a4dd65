"""Tool calls inside a turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, tool
from turnstream.actors.testing import call
from turnstream.events import (
    InvalidAgent,
    ModelTurn,
    ToolCall,
    ToolMessage,
    ToolResultRecorded,
)

WAIT = 20
Run = Callable[..., ActorSystem]


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


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
        ({"a": "\ud83d", "b": 2}, "schema"),
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


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
ENDLESS = {"900 levels": nested(900), "5000 levels": nested(5000), "a cycle": CYCLE}


@pytest.mark.parametrize("value", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("where", ["arguments", "result"])
def test_what_is_nested_without_end_is_an_error_result_and_the_session_goes_on(
    run: Run, value: Any, where: str
) -> None:
    @tool
    def echo(value: Any = None) -> Any:
        return ENDLESS[value] if isinstance(value, str) else value

    name = next(name for name, each in ENDLESS.items() if each is value)
    asked = ToolCall("c", "echo", {"value": value if where == "arguments" else name})
    answers = iter([ModelTurn(tool_calls=(asked,)), ModelTurn("ok"), ModelTurn("more")])
    session = run([], model=lambda request: next(answers), tools=[echo]).session("s")
    result = session.send("go").result(WAIT)

    outcomes = [each.outcome for each in result.messages if isinstance(each, ToolMessage)]
    assert outcomes == ["error"] and result.text == "ok"
    assert session.send("on").result(WAIT).text == "more"
    assert len(list(session.events())) == session.version


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


def _is_result(event: object) -> Any:
    return event if isinstance(event, ToolResultRecorded) else None
