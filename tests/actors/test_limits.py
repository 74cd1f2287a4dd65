"""What a turn may use, and what the next one may."""

from __future__ import annotations

from collections.abc import Callable

from turnstream.actors import ActorSystem, Agent, ModelRequest, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import AssistantMessage, ModelTurn, ToolMessage, Usage
from turnstream.projections import check_transcript

WAIT = 20
Run = Callable[..., ActorSystem]


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def endless(request: ModelRequest) -> ModelTurn:
    """Asks for one more sum, again and again."""
    check_transcript(request.messages)
    return ModelTurn(tool_calls=(call("add", a=request.step, b=0),), usage=Usage(150, 50))


def test_at_the_step_limit_a_turn_ends_with_every_call_answered_and_the_next_begins_anew(
    run: Run,
) -> None:
    session = run([], model=endless, max_steps=2).session("s")
    first = session.send("go").result(WAIT)
    assert session.resume() is None
    second = session.send("continue").result(WAIT)

    for result in (first, second):
        assert (result.finish_reason, result.steps) == ("max-steps", 2)
        kinds = [type(each) for each in result.new_messages[1:]]
        assert kinds == [AssistantMessage, ToolMessage] * 2
    assert sum(isinstance(each, AssistantMessage) for each in second.messages) == 4


def test_at_the_token_limit_a_turn_ends_with_every_call_answered(store: str) -> None:
    agent = Agent("agent", model=endless, tools=[add], token_budget=500)
    with ActorSystem(agent, store=store) as system:
        result = system.session("s").send("go").result(WAIT)
        used = system.session("s").usage

    assert (result.finish_reason, result.steps) == ("budget", 3)
    assert result.usage == used == Usage(450, 150)
    assert isinstance(result.messages[-1], ToolMessage)


def test_an_answer_that_uses_up_the_budget_still_ends_the_turn_as_an_answer(store: str) -> None:
    model = ScriptedModel([ModelTurn("done", usage=Usage(150, 50))])
    with ActorSystem(Agent("agent", model=model, token_budget=200), store=store) as system:
        result = system.session("s").send("go").result(WAIT)

    assert (result.finish_reason, result.text) == ("stop", "done")
