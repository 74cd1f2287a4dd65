"""Sessions of agents that have changed since, or are gone."""

from __future__ import annotations

from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import ModelFailed, SessionError, ToolMessage
from turnstream.stores import EventStore

WAIT = 20


@tool
def old_tool() -> str:
    """Of an earlier release."""
    return "old"


@pytest.fixture
def shared(opened: EventStore) -> EventStore:
    """A store that outlives the systems on it."""
    return opened


def system(store: EventStore, script: list[Any], *tools: Any, name: str = "agent") -> ActorSystem:
    agent = Agent(name, model=ScriptedModel(script), tools=tools)
    return ActorSystem(agent, store=store, on_failure="keep")


def test_a_finished_session_can_be_read_and_continued_without_the_tools_it_used(
    shared: EventStore,
) -> None:
    with system(shared, [[call("old_tool")], "done"], old_tool) as before:
        then = list(before.session("s").send("go", run_id="r").result(WAIT).messages)

    with system(shared, ["and on"]) as after:
        assert list(after.session("s").messages) == then
        again = after.session("s").send("go", run_id="r").result(WAIT)
        assert (again.text, list(again.messages)) == ("done", then)
        assert after.session("s").resume() is None
        assert after.session("s").send("more").result(WAIT).text == "and on"


def test_a_session_of_an_agent_that_is_gone_can_be_read_and_says_which_agent_it_needs(
    shared: EventStore,
) -> None:
    with system(shared, ["done"]) as before:
        then = list(before.session("s").send("go").result(WAIT).messages)

    with system(shared, [], name="another") as after:
        session = after.session("s")
        version = session.version
        assert list(session.messages) == then
        with pytest.raises(SessionError, match="'agent'"):
            session.send("more").result(WAIT)
        assert session.version == version
    with system(shared, ["back again"]) as again:
        assert again.session("s").send("more").result(WAIT).text == "back again"


def test_an_unfinished_turn_goes_on_with_the_tools_there_are_now(shared: EventStore) -> None:
    script = [[call("old_tool")], ConnectionError("down")]
    with system(shared, script, old_tool) as before, pytest.raises(ModelFailed):
        before.session("s").send("go").result(WAIT)

    with system(shared, [[call("old_tool")], "I can't"]) as after:
        resumed = after.session("s").resume()
        assert resumed is not None
        results = [m for m in resumed.result(WAIT).messages if isinstance(m, ToolMessage)]
    assert [each.outcome for each in results] == ["ok", "error"]
    assert "no tool named 'old_tool'" in str(results[1].content)
