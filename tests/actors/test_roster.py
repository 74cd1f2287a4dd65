"""The agents a system can run: those it was given, and all that these reach."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, Handoff, Tool, tool
from turnstream.actors.roster import Roster
from turnstream.actors.testing import ScriptedModel
from turnstream.events import InvalidAgent, UnknownAgent
from turnstream.stores import open_store


def agent(name: str, **options: Any) -> Agent:
    return Agent(name, model=ScriptedModel([]), **options)


@tool
def bill() -> str:
    return "paid"


def test_who_is_reached_over_several_hand_offs_is_known_by_name() -> None:
    last = agent("last")
    first = agent("first", handoffs=[Handoff(agent("middle", handoffs=[last]))])

    roster = Roster(first)

    assert roster.default == "first"
    assert list(roster.names) == ["first", "middle", "last"]
    assert roster.find("last") is last
    assert roster.find("nobody") is None


def test_agents_that_a_tool_brings_along_are_known_too() -> None:
    class Asking(Tool):
        agents = (agent("expert"),)

    asking = Asking.from_schema("ask", bill.fn, {})

    assert list(Roster(agent("asker", tools=[asking])).names) == ["asker", "expert"]


def test_agents_may_hand_off_to_each_other_and_one_agent_to_several() -> None:
    billing = agent("billing", handoffs=["triage"])
    refunds = agent("refunds", handoffs=[billing, "triage"])
    triage = agent("triage", handoffs=[billing, refunds])

    assert list(Roster([triage, billing]).names) == ["triage", "billing", "refunds"]


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ([agent("a"), agent("a")], ["given to the system", "given to the system"]),
        (
            [agent("x", handoffs=[agent("a")]), agent("a")],
            ["given to the system", "a hand-off of 'x'"],
        ),
        (
            [agent("x", handoffs=[agent("a")]), agent("y", handoffs=[agent("a")])],
            ["a hand-off of 'x'", "a hand-off of 'y'"],
        ),
        (
            [agent("b", aliases=["a"]), agent("x", handoffs=[agent("a")])],
            ["given to the system", "a hand-off of 'x'"],
        ),
    ],
)
def test_a_name_that_two_agents_go_by_is_refused_and_both_places_are_named(
    given: Sequence[Agent], places: Sequence[str]
) -> None:
    with pytest.raises(InvalidAgent, match=re.escape("'a'")) as refused:
        ActorSystem(given)
    for place in places:
        assert place in str(refused.value)


def test_a_hand_off_to_nobody_is_refused() -> None:
    with pytest.raises(InvalidAgent, match="'first' hands off to 'nobody'"):
        Roster(agent("first", handoffs=["nobody"]))


@pytest.mark.parametrize(
    "options",
    [
        {"handoffs": ["a"]},
        {"handoffs": "b"},
        {"handoffs": [7]},
        {"handoffs": [""]},
        {"handoffs": ["b", "b"]},
        {"handoffs": ["b c", "b?c"]},
        {"handoffs": [Handoff("b", name="bill")], "tools": [bill]},
        {"aliases": "old"},
        {"aliases": ["a"]},
        {"aliases": [""]},
    ],
)
def test_hand_offs_and_aliases_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidAgent):
        agent("a", **options)


def test_the_tool_of_a_hand_off_has_a_name_that_models_take() -> None:
    names = [each.tool.name for each in agent("a", handoffs=["b c/ü", "x" * 99]).targets]

    assert names == ["transfer_to_b_c_", "transfer_to_" + "x" * 52]


def test_an_alias_finds_the_agent_and_a_missing_one_is_told_who_is_there() -> None:
    roster = Roster([agent("new", aliases=["old", "older"]), agent("other")])

    assert roster.agent("older") is roster.agent("new")
    with pytest.raises(UnknownAgent, match=r"'gone'.*'new', 'other'.*aliases"):
        roster.agent("gone")


def test_a_session_that_an_agent_of_an_old_name_began_goes_on_by_its_alias() -> None:
    with closing(open_store("sqlite://")) as store:
        with ActorSystem(Agent("old", model=ScriptedModel(["one"])), store=store) as system:
            system.session("s").send("1").result()
        renamed = Agent("new", model=ScriptedModel(["two"]), aliases=["old"])
        with ActorSystem(renamed, store=store) as system:
            assert system.session("s").send("2").result().text == "two"
        with ActorSystem(Agent("other", model=ScriptedModel([])), store=store) as system:
            turn = system.session("s").send("3")
            with pytest.raises(UnknownAgent, match=r"no agent 'new'.*'other'"):
                turn.result()
