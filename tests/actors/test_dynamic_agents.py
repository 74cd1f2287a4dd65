"""Agents whose model, instructions and tools are chosen when a turn begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, AgentContext, ModelRequest, Session, Tool, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AgentConfigured,
    AgentDriftDetected,
    InvalidAgent,
    ModelFailed,
    TurnError,
    TurnFinished,
)

WAIT = 20


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.fixture
def start(store: str) -> Iterable[Callable[..., ActorSystem]]:
    systems: list[ActorSystem] = []

    def start(**parts: Any) -> ActorSystem:
        options = {key: parts.pop(key) for key in ("on_failure", "on_agent_drift") if key in parts}
        systems.append(ActorSystem(Agent("agent", **parts), store=store, **options))
        return systems[-1]

    yield start
    for system in systems:
        system.close()


Start = Callable[..., ActorSystem]


def configured(session: Session) -> list[AgentConfigured]:
    events = [each.event for each in session.events()]
    return [each for each in events if isinstance(each, AgentConfigured)]


def test_what_was_chosen_for_each_turn_runs_it_and_is_recorded(start: Start) -> None:
    quick, clever = ScriptedModel(["b", "d"], id="quick"), ScriptedModel(["a"], id="clever")

    def model(context: AgentContext) -> ScriptedModel:
        return clever if context.turn_id == "turn-1" else quick

    def instructions(context: AgentContext) -> str:
        return f"{context.agent} of {context.tenant}, after {len(context.messages)} messages"

    session = start(
        model=model,
        instructions=instructions,
        tools=lambda context: [add] if context.messages else [],
    ).session("s", tenant="acme")
    assert [session.send(text).result(WAIT).text for text in "12"] == ["a", "b"]

    recorded = [(each.model, each.instructions, len(each.tools)) for each in configured(session)]
    assert recorded == [
        ("clever", "agent of acme, after 0 messages", 0),
        ("quick", "agent of acme, after 2 messages", 1),
    ]
    assert quick.requests[0].instructions == recorded[1][1]
    assert [each.name for each in quick.requests[0].tools] == ["add"]


def test_turns_that_follow_each_other_without_a_pause_are_chosen_for_one_by_one(
    start: Start,
) -> None:
    asked: list[str] = []

    def model(request: ModelRequest) -> str:
        asked.append(request.instructions)
        return "ok"

    session = start(model=model, instructions=lambda context: context.turn_id).session("s")
    for turn in [session.send(text) for text in "abc"]:
        turn.result(WAIT)

    assert asked == ["turn-1", "turn-2", "turn-3"]


def test_the_tools_that_were_chosen_are_those_that_run(start: Start) -> None:
    model = ScriptedModel([[call("add", a=1, b=2)], "3"])
    session = start(model=model, tools=lambda context: [add]).session("s")

    assert session.send("1 + 2?").result(WAIT).text == "3"
    assert [each.outcome for each in session.messages if hasattr(each, "outcome")] == ["ok"]


@on_durable_stores
def test_a_turn_that_goes_on_keeps_the_instructions_it_began_with(address: str) -> None:
    store, seen = address, list[str]()
    down = [ConnectionError("down"), "up"]

    def model(request: ModelRequest) -> str:
        seen.append(request.instructions)
        answer = down.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    def agent(words: str) -> Agent:
        return Agent("agent", model=model, instructions=lambda context: words)

    with ActorSystem(agent("as then"), store=store) as system, pytest.raises(ModelFailed):
        system.session("s").send("go").result(WAIT)
    with ActorSystem(agent("as now"), store=store, on_agent_drift="error") as system:
        (turn,) = system.resume_all()
        assert turn.result(WAIT).text == "up"
        assert not [
            e for e in system.session("s").events() if isinstance(e.event, AgentDriftDetected)
        ]
    assert seen == ["as then", "as then"]


@pytest.mark.parametrize("part", ["instructions", "tools"])
def test_a_function_that_raises_fails_its_turn_and_the_input_is_not_lost(
    start: Start, part: str
) -> None:
    broken = [True]

    def choose(context: AgentContext) -> Any:
        if broken[0]:
            raise KeyError("secret")
        return () if part == "tools" else "now"

    model = ScriptedModel(["fine"])
    session = start(model=model, on_failure="keep", **{part: choose}).session("s")
    with pytest.raises(TurnError, match=f"{part} raised KeyError") as failed:
        session.send("go").result(WAIT)
    assert "secret" not in str(failed.value) and session.status == "failed"

    broken[0] = False
    turn = session.resume()
    assert turn is not None and turn.result(WAIT).text == "fine"


def test_a_function_that_raises_for_the_next_turn_leaves_the_last_one_as_it_ended(
    start: Start,
) -> None:
    def instructions(context: AgentContext) -> str:
        assert context.turn_id == "turn-1"
        return ""

    session = start(model=ScriptedModel(["one"]), instructions=instructions).session("s")
    first, second = session.send("a"), session.send("b")

    assert first.result(WAIT).text == "one"
    with pytest.raises(TurnError, match="AssertionError"):
        second.result(WAIT)
    finished = [each for each in session.events() if isinstance(each.event, TurnFinished)]
    assert len(finished) == 1


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"instructions": lambda context: None}, "instructions"),
        ({"tools": lambda context: [1]}, "no tool"),
        ({"tools": lambda context: [add, add]}, "two tools"),
        ({"instructions": lambda context: 7}, "instructions must be a str"),
    ],
)
def test_what_can_not_work_fails_the_turn_and_says_why(
    start: Start, parts: dict[str, Any], says: str
) -> None:
    session = start(model=ScriptedModel([]), **parts).session("s")
    with pytest.raises(TurnError, match=says):
        session.send("go").result(WAIT)


def test_a_model_that_is_a_function_of_a_request_is_no_choice(start: Start) -> None:
    def model(request: Any) -> str:
        return request.turn_id  # type: ignore[no-any-return]

    assert start(model=model).session("s").send("go").result(WAIT).text == "turn-1"


def test_limits_and_names_are_those_of_the_agent_whatever_is_chosen(start: Start) -> None:
    def tools(context: AgentContext) -> list[Tool]:
        return [add]

    script = [[call("add", a=n, b=n)] for n in range(9)]
    session = start(model=ScriptedModel(script), tools=tools, max_steps=2).session("s")
    result = session.send("go").result(WAIT)

    assert (result.finish_reason, result.steps) == ("max-steps", 2)
    with pytest.raises(InvalidAgent, match="max_steps"):
        Agent("agent", model=ScriptedModel([]), tools=tools, max_steps=0)
