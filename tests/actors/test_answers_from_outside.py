"""Calls that somebody else answers, beside calls that run, wait or fail."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hooked import WAIT, made
from sending import events

from turnstream.actors import ActorSystem, Agent, ModelRequest, tool
from turnstream.actors.testing import call
from turnstream.events import ModelTurn, ToolResultRecorded
from turnstream.stores import MemoryStore


@tool
def fine() -> str:
    """Work."""
    return "fine"


@tool(needs_approval=True)
def gated() -> str:
    """Work once somebody agrees."""
    return "agreed"


@tool
def broken() -> str:
    """Fail."""
    raise LookupError("nothing there")


@tool(needs_approval=True)
def ask_people(question: str, answer: str = "") -> str:
    """Ask somebody; whoever approves the call fills in the answer."""
    return answer


CALLS = {
    "c1": call("fine", "c1"),
    "c2": call("gated", "c2"),
    "c3": call("broken", "c3"),
    "c4": call("ask_people", "c4", question="When?"),
}
ANSWERS = {"c1": "fine", "c2": "agreed", "c3": "LookupError: nothing there", "c4": "at noon"}


@pytest.mark.parametrize("order", [*permutations(CALLS)], ids="".join)
@pytest.mark.parametrize("first", ["c2", "c4"])
@pytest.mark.parametrize("restart", [False, True])
def test_calls_of_a_batch_settle_each_for_itself(
    order: tuple[str, ...], first: str, restart: bool
) -> None:
    def model(request: ModelRequest) -> ModelTurn | str:
        if len(request.messages) == 1:
            return ModelTurn(tool_calls=tuple(CALLS[each] for each in order))
        return "|".join(str(each.content) for each in request.messages[2:])

    tools = [fine, gated, broken, ask_people]
    agent = Agent(
        "agent", model=model, tools=tools, hooks=[made(False, after_tool=lambda *_: None)]
    )
    store = MemoryStore()
    system = ActorSystem(agent, store=store)
    session = system.session("s")
    pending = {each.call_id: each.id for each in session.send("go").result(WAIT).approvals}
    assert set(pending) == {"c2", "c4"}
    outcomes = {each.call_id: each.outcome for each in events(session, ToolResultRecorded)}
    assert outcomes == {"c1": "ok", "c3": "error"}
    answer: dict[str, Any] = {"question": "When?", "answer": "at noon"}
    for call_id in (first, "c2" if first == "c4" else "c4"):
        if restart:
            system.close()
            system = ActorSystem(agent, store=store)
        turn = system.approve(pending[call_id], arguments=answer if call_id == "c4" else None)
        result = turn.result(WAIT)
    system.close()
    assert result.text.split("|") == [ANSWERS[each] for each in order]
