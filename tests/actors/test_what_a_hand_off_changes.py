"""What else is another agent's, once it goes on: its types, its context, its hooks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct
from places import on_durable_stores

from turnstream.actors import (
    ActorSystem,
    Agent,
    AgentChanged,
    Hooks,
    Rest,
    Shrunk,
    Stretch,
)
from turnstream.actors.testing import ScriptedModel, call

WAIT = 20


class Invoice(Struct):
    euros: int


class Verdict(Struct):
    guilty: bool


@on_durable_stores
def test_the_answer_is_of_the_type_of_the_agent_that_gives_it(store: str) -> None:
    def agents(a: list[Any], b: list[Any]) -> Agent:
        other = Agent("b", model=ScriptedModel(b), output_type=Invoice, output_retries=1)
        return Agent("a", model=ScriptedModel(a), output_type=Verdict, handoffs=[other])

    a: list[Any] = ['{"guilty": true}', "hm", "hm", [call("transfer_to_b")]]
    with ActorSystem(agents(a, ['{"guilty": true}', '{"euros": 7}']), store=store) as system:
        session = system.session("s")
        assert session.send("1", key="one").result(WAIT).output == Verdict(guilty=True)
        second = session.send("2", key="two").result(WAIT)
        assert (second.output, second.steps) == (Invoice(7), 5)

    with ActorSystem(agents([], []), store=store) as system:
        session = system.session("s")
        assert session.send("2", key="two").result(WAIT).output == Invoice(7)
        assert session.send("1", key="one").result(WAIT).output == Verdict(guilty=True)


def test_what_a_context_policy_carried_over_is_for_the_agent_that_carried_it() -> None:
    seen: list[tuple[str, Any]] = []

    def carrying(name: str) -> Any:
        def policy(context: Any) -> Shrunk:
            seen.append((name, context.carried))
            return Shrunk(context.messages, f"of {name}", covers=0)

        return policy

    b_script = [[call("transfer_to_a")], "b"]
    b = Agent("b", model=ScriptedModel(b_script), context_policy=carrying("b"), handoffs=["a"])
    a_script = ["first", [call("transfer_to_b")], "a"]
    a = Agent("a", model=ScriptedModel(a_script), context_policy=carrying("a"), handoffs=[b])
    with ActorSystem(a) as system:
        session = system.session("s")
        session.send("1").result(WAIT)
        session.send("2").result(WAIT)
    assert seen == [("a", None), ("a", "of a"), ("b", None), ("a", None)]


def test_whoever_follows_the_turn_is_told_who_goes_on() -> None:
    a = Agent(
        "a",
        model=ScriptedModel([[call("transfer_to_b")]]),
        handoffs=[Agent("b", model=ScriptedModel(["b"]))],
    )
    with ActorSystem(a) as system:
        items = list(system.session("s").send("x").stream())
    kinds = [each.type for each in items]
    assert kinds[1:6] == ["model.turn", "tool.result", "agent.changed", "text.delta", "model.turn"]
    (changed,) = [each for each in items if isinstance(each, AgentChanged)]
    assert (changed.agent, changed.turn_id) == ("b", "turn-1")


class Following(Hooks):
    """Keeps what it is told of."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.rests: list[tuple[str, str, bool]] = []

    def on_event(self, session_id: str, version: int, event: Any) -> None:
        self.events.append(event.__struct_config__.tag)

    def on_rest(self, stretch: Stretch, rest: Rest) -> None:
        self.rests.append((stretch.agent, rest.reason, stretch.resumed))


@pytest.mark.parametrize("hears", ["a", "b", "ab"])
def test_hooks_are_those_of_the_agent_that_goes_on(hears: str) -> None:
    told = {name: Following() for name in "ab"}
    hooks = {name: [told[name]] if name in hears else [] for name in "ab"}
    b = Agent("b", model=ScriptedModel(["b", "b again"]), hooks=hooks["b"])
    a = Agent("a", model=ScriptedModel([[call("transfer_to_b")]]), handoffs=[b], hooks=hooks["a"])
    with ActorSystem(a) as system:
        session = system.session("s")
        session.send("x").result(WAIT)
        session.send("y").result(WAIT)
    if "a" in hears:
        assert told["a"].rests == [("a", "handed-over", False)]
        assert told["a"].events[-2:] == ["agent_configured", "agent_handed_off"]
    if "b" in hears:
        assert told["b"].rests == [("b", "finished", True), ("b", "finished", False)]
        assert told["b"].events[:2] == ["model_turn_recorded", "turn_finished"]
        assert told["b"].events.count("model_turn_recorded") == 2
