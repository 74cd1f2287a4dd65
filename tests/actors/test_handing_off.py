"""Agents that let others go on with the conversation."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from places import on_durable_stores

from turnstream.actors import (
    ActorSystem,
    Agent,
    Handoff,
    Session,
    tool,
)
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AgentConfigured,
    AgentHandedOff,
    ModelTurn,
    ModelTurnRecorded,
    ToolMessage,
    Usage,
)

WAIT = 20
TO_BILLING = [call("transfer_to_billing")]


@tool
def look_up(order: str) -> str:
    """What is known of an order."""
    return f"{order}: 80 euros"


@tool
def refund(order: str) -> str:
    """Pay money back."""
    return "paid"


def results(session: Session) -> list[tuple[str, str]]:
    said = [each for each in session.messages if isinstance(each, ToolMessage)]
    return [(each.outcome, str(each.content)) for each in said]


def handed(session: Session) -> list[tuple[str, str, bool]]:
    events = [each.event for each in session.events()]
    found = [each for each in events if isinstance(each, AgentHandedOff)]
    return [(each.source, each.target, each.applied) for each in found]


def models_asked(session: Session) -> list[str]:
    events = [each.event for each in session.events()]
    return [each.model for each in events if isinstance(each, ModelTurnRecorded)]


def test_the_other_agent_goes_on_in_the_same_turn_and_stays() -> None:
    desk = ScriptedModel([[call("look_up", order="A-1"), *TO_BILLING]], id="small")
    clerk = ScriptedModel([[call("refund", order="A-1")], "Paid.", "Still me."], id="large")
    billing = Agent("billing", model=clerk, instructions="You pay.", tools=[refund])
    triage = Agent(
        "triage", model=desk, instructions="You ask.", tools=[look_up], handoffs=[billing]
    )
    with ActorSystem(triage) as system:
        session = system.session("s")
        result = session.send("My mug broke.").result(WAIT)
        assert (result.text, result.steps, result.turn_id) == ("Paid.", 3, "turn-1")
        assert session.send("Thanks.").result(WAIT).text == "Still me."

        assert models_asked(session) == ["small", "large", "large", "large"]
        assert handed(session) == [("triage", "billing", False), ("triage", "billing", True)]
        assert results(session) == [
            ("ok", "A-1: 80 euros"),
            ("ok", "billing goes on from here."),
            ("ok", "paid"),
        ]
        assert session.active_agent == "billing"
        (row,) = system.sessions(agent="billing")
        assert row.session_id == "s"

    first, second = desk.requests[0], clerk.requests[0]
    assert [each.name for each in first.tools] == ["look_up", "transfer_to_billing"]
    assert (second.instructions, [each.name for each in second.tools]) == ("You pay.", ["refund"])
    assert list(second.messages) == [*first.messages, *result.messages[1:4]]


def test_of_several_hand_offs_at_once_one_wins_and_every_call_is_answered() -> None:
    calls = [
        call("transfer_to_b", id="1"),
        call("transfer_to_c", id="2"),
        call("transfer_to_b", id="3"),
    ]
    b, c = Agent("b", model=ScriptedModel(["I am b."])), Agent("c", model=ScriptedModel([]))
    with ActorSystem(Agent("a", model=ScriptedModel([calls]), handoffs=[b, c])) as system:
        session = system.session("s")
        assert session.send("x").result(WAIT).text == "I am b."
        assert handed(session) == [("a", "b", False), ("a", "b", True)]
        assert [outcome for outcome, _ in results(session)] == ["ok", "skipped", "skipped"]
        assert results(session)[1][1] == "Not done: b goes on already."


def test_the_switch_waits_for_the_other_calls_of_the_model_turn(held: Any) -> None:
    calls = [call("transfer_to_b"), call("held", text="x")]
    b = ScriptedModel(["I am b."])
    a = Agent(
        "a",
        model=ScriptedModel([calls]),
        tools=held.tools,
        handoffs=[Agent("b", model=b)],
    )
    with ActorSystem(a) as system:
        session = system.session("s")
        turn = session.send("x")
        held.begun("x")
        assert handed(session) == [("a", "b", False)]
        assert (session.active_agent, b.requests) == ("a", [])
        held.let("x")
        assert turn.result(WAIT).text == "I am b."


def test_agents_hand_back_and_forth_within_one_turn_up_to_the_limit_of_who_goes_on() -> None:
    there, back = [call("transfer_to_b")], [call("transfer_to_a")]
    a = Agent("a", model=ScriptedModel([there] * 5), handoffs=["b"], max_steps=5)
    b = Agent("b", model=ScriptedModel([back] * 5), handoffs=[a], max_steps=4)
    with ActorSystem(b) as system:
        result = system.session("s").send("x").result(WAIT)
        assert (result.finish_reason, result.steps) == ("max-steps", 4)
        assert system.session("s").active_agent == "b"


def answer(*calls: Any, tokens: int) -> ModelTurn:
    return ModelTurn("hm", tuple(calls), Usage(tokens, 0), "tool_calls" if calls else "stop")


@pytest.mark.parametrize(("limit", "reason"), [(100, "budget"), (None, "stop")])
def test_the_limits_of_who_goes_on_apply_and_what_was_used_counts(
    limit: int | None, reason: str
) -> None:
    a_script = [answer(*TO_BILLING, tokens=150)]
    billing = Agent("billing", model=ScriptedModel(["done"]), token_budget=limit)
    a = Agent("a", model=ScriptedModel(a_script), handoffs=[billing], token_budget=200)
    with ActorSystem(a) as system:
        result = system.session("s").send("x").result(WAIT)
        assert (result.finish_reason, result.usage.input_tokens) == (reason, 150)


def test_as_many_calls_run_at_once_as_who_goes_on_may_have(held: Any) -> None:
    calls = [call("held", text="x"), call("held", text="y")]
    b = Agent("b", model=ScriptedModel([calls, "done"]), tools=held.tools, tool_concurrency=1)
    with ActorSystem(
        Agent("a", model=ScriptedModel([[call("transfer_to_b")]]), handoffs=[b])
    ) as system:
        turn = system.session("s").send("x")
        held.begun("x")
        assert not held.ran("y")
        held.let("x")
        held.begun("y")
        held.let("y")
        assert turn.result(WAIT).text == "done"


def test_an_input_that_waits_joins_the_turn_of_the_agent_that_goes_on(held: Any) -> None:
    b = ScriptedModel(["done"])
    a = Agent(
        "a",
        model=ScriptedModel([[call("transfer_to_b"), call("held", text="x")]]),
        tools=held.tools,
        handoffs=[Agent("b", model=b)],
    )
    with ActorSystem(a) as system:
        turn = system.session("s").send("1")
        held.begun("x")
        joined = turn.enqueue("2")
        joined.accepted().result(WAIT)
        held.let("x")
        assert joined.result(WAIT) is turn.result(WAIT)
        assert b.requests[0].messages[-1].content == "2"


def test_a_transfer_that_a_new_message_came_before_does_not_happen(led: Any) -> None:
    with ActorSystem(
        Agent("a", model=led, handoffs=[Agent("b", model=ScriptedModel([]))])
    ) as system:
        session = system.session("s")
        turn = session.send("x")
        asked = led.asked()
        asked.show("Let me")
        turn.steer("no, wait").accepted().result(WAIT)
        asked.answer([call("transfer_to_b")])
        led.asked().answer("still a")
        assert turn.result(WAIT).text == "still a"
        assert [outcome for outcome, _ in results(session)] == ["skipped"]
        assert (handed(session), session.active_agent) == ([], "a")


@pytest.mark.parametrize("approved", [True, False])
def test_a_hand_off_may_need_an_approval(approved: bool) -> None:
    a = Agent(
        "a",
        model=ScriptedModel([[call("transfer_to_b")], "I am a."]),
        handoffs=[Handoff(Agent("b", model=ScriptedModel(["I am b."])), needs_approval=True)],
    )
    with ActorSystem(a) as system:
        session = system.session("s")
        (approval,) = session.send("x").result(WAIT).approvals
        assert (approval.tool, handed(session)) == ("transfer_to_b", [])
        decide = session.approve if approved else session.reject
        assert decide(approval.id).result(WAIT).text == ("I am b." if approved else "I am a.")


def test_a_hand_off_has_the_name_and_description_that_it_was_given() -> None:
    b = Agent("b", model=ScriptedModel(["b"]))
    model = ScriptedModel([[call("escalate")]])
    a = Agent("a", model=model, handoffs=[Handoff(b, name="escalate", description="To a boss.")])
    with ActorSystem(a) as system:
        assert system.session("s").send("x").result(WAIT).text == "b"
    (spec,) = model.requests[0].tools
    assert (spec.name, spec.description) == ("escalate", "To a boss.")


def test_a_turn_that_is_dropped_takes_its_hand_off_along(held: Any) -> None:
    b = Agent("b", model=ScriptedModel([[call("held", text="x")]]), tools=held.tools)
    a = Agent("a", model=ScriptedModel([[call("transfer_to_b")], "I am a."]), handoffs=[b])
    with ActorSystem(a) as system:
        session = system.session("s")
        turn = session.send("x")
        held.begun("x")
        assert session.active_agent == "b"
        turn.abort().result(WAIT)
        assert session.active_agent == "a"
        assert session.send("y").result(WAIT).text == "I am a."


def test_a_stopped_turn_that_is_kept_goes_on_with_the_agent_it_was_handed_to(held: Any) -> None:
    calls = [call("held", text="x")]
    b = Agent("b", model=ScriptedModel([calls, "I am b."]), tools=held.tools)
    a = Agent("a", model=ScriptedModel([[call("transfer_to_b")]]), handoffs=[b])
    with ActorSystem(a) as system:
        session = system.session("s")
        turn = session.send("x")
        held.begun("x")
        turn.abort(keep=True).result(WAIT)
        resumed = session.resume()
        assert resumed is not None and resumed.result(WAIT).text == "I am b."


def test_agents_chosen_for_each_turn_hand_off_too() -> None:
    seen: list[str] = []

    def choosing(name: str) -> Callable[[Any], str]:
        def instructions(context: Any) -> str:
            assert context.agent == name
            seen.append(f"{name} in {context.turn_id}")
            return f"{name}, in {context.turn_id}"

        return instructions

    models = {name: ScriptedModel(script) for name, script in SCRIPTS.items()}
    b = Agent("b", model=models["b"], instructions=choosing("b"), handoffs=["a"])
    a = Agent("a", model=models["a"], instructions=choosing("a"), handoffs=[b])
    with ActorSystem(a) as system:
        session = system.session("s")
        assert session.send("x").result(WAIT).text == "a"
        assert session.send("y").result(WAIT).text == "a again"
        events = [each.event for each in session.events()]
    assert seen == ["a in turn-1", "b in turn-1", "a in turn-1", "a in turn-2"]
    assert [each.instructions for each in models["a"].requests] == [
        *["a, in turn-1"] * 2,
        "a, in turn-2",
    ]
    assert [each.name for each in events if isinstance(each, AgentConfigured)] == list("abaa")


SCRIPTS: dict[str, list[Any]] = {
    "a": [[call("transfer_to_b")], "a", "a again"],
    "b": [[call("transfer_to_a")]],
}


def test_a_turn_fails_where_the_other_agent_can_not_be_made_ready_and_resumes() -> None:
    broken = [True]

    def instructions(context: Any) -> str:
        if broken:
            raise KeyError("no")
        return "fine"

    b = Agent("b", model=ScriptedModel(["I am b."]), instructions=instructions)
    a = Agent("a", model=ScriptedModel([[call("transfer_to_b")]]), handoffs=[b])
    with ActorSystem(a, on_failure="keep") as system:
        session = system.session("s")
        with pytest.raises(Exception, match="instructions raised KeyError"):
            session.send("x").result(WAIT)
        assert (session.status, session.active_agent) == ("failed", "a")
        broken.clear()
        resumed = session.resume()
        assert resumed is not None and resumed.result(WAIT).text == "I am b."
        assert handed(session) == [("a", "b", False), ("a", "b", True)]


@on_durable_stores
def test_a_conversation_that_goes_on_without_somebody_who_took_part_says_so(
    caplog: pytest.LogCaptureFixture, store: str
) -> None:
    b = Agent("b", model=ScriptedModel(["b"]))
    a = Agent("a", model=ScriptedModel([[call("transfer_to_b")]]), handoffs=[b])
    with ActorSystem(a, store=store) as system:
        then = list(system.session("s").send("x").result(WAIT).messages)
    with (
        caplog.at_level(logging.WARNING, "turnstream"),
        ActorSystem(Agent("b", model=ScriptedModel(["on", "and on"])), store=store) as system,
    ):
        session = system.session("s")
        assert list(session.messages) == then
        assert session.send("y").result(WAIT).text == "on"
        assert session.send("z").result(WAIT).text == "and on"
    warned = [each.getMessage() for each in caplog.records]
    assert len(warned) == 1 and "'s'" in warned[0] and "'a'" in warned[0]
