"""Hooks that take part: around the model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hooked import WAIT, asks, asks_async, made, raising
from msgspec.structs import replace
from sending import events

from turnstream.actors import (
    ActorSystem,
    Agent,
    Hooks,
    ModelRequest,
    Stretch,
    TextDelta,
    last_turns,
    tool,
)
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    HookFailed,
    ModelCallDiscarded,
    ModelTurn,
    ModelTurnRecorded,
    ModelUnavailable,
    TurnFailed,
    Usage,
    UserMessage,
)

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@tool
def pay(amount: int) -> dict[str, int]:
    """Pay."""
    ran.append(f"pay {amount}")
    return {"paid": amount}


def test_a_changed_request_is_what_the_model_sees_and_the_stream_is_as_it_was() -> None:
    seen: list[ModelRequest] = []

    class Brief(Hooks):
        def before_model(self, stretch: Stretch, request: ModelRequest) -> ModelRequest:
            said = UserMessage("(hidden)")
            return ModelRequest([said], "Be brief.", (), "another", "another", 99, {"seed": 1})

    def model(request: ModelRequest) -> str:
        seen.append(request)
        return "ok"

    with ActorSystem(Agent("agent", model=model, hooks=[Brief()])) as system:
        session = system.session("s")
        result = session.send("secret").result(WAIT)
        assert [each.content for each in result.messages[:1]] == ["secret"]
    (request,) = seen
    assert list(request.messages) == [UserMessage("(hidden)")]
    assert (request.instructions, request.settings) == ("Be brief.", {"seed": 1})
    assert (request.session_id, request.turn_id, request.step) == ("s", "turn-1", 1)


@pytest.mark.parametrize("place", range(4))
def test_no_hook_can_put_a_message_between_a_call_and_its_result(place: int) -> None:
    class Reminds(Hooks):
        def before_model(self, stretch: Stretch, request: ModelRequest) -> ModelRequest:
            messages = list(request.messages)
            if request.step == 2:
                messages.insert(place + 1, UserMessage("remember"))
            return replace(request, messages=messages)

    seen: list[Any] = []
    calls = (call("pay", "c1", amount=1), call("pay", "c2", amount=2))

    def model(request: ModelRequest) -> ModelTurn:
        seen.append(list(request.messages))
        return ModelTurn(tool_calls=calls) if request.step == 1 else ModelTurn("done")

    with ActorSystem(Agent("agent", model=model, tools=[pay], hooks=[Reminds()])) as system:
        turn = system.session("s").send("go")
        if place in (0, 3):
            assert turn.result(WAIT).text == "done"
            return
        with pytest.raises(HookFailed, match="conversation"):
            turn.result(WAIT)
        assert len(seen) == 1


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("model", [asks, asks_async, ScriptedModel(["5", "5"])])
@pytest.mark.parametrize("before", [raising(ValueError("no budget")), lambda *_: "a request"])
def test_a_hook_that_fails_before_the_model_fails_the_turn(
    is_async: bool, model: Any, before: Any
) -> None:
    agent = Agent("agent", model=model, tools=[pay], hooks=[made(is_async, before_model=before)])
    with ActorSystem(agent) as system:
        session = system.session("s")
        turn = session.send("5")
        with pytest.raises(HookFailed) as caught:
            turn.result(WAIT)
        assert [item.type for item in turn.stream()][-2:] == ["error", "turn.done"]
        (failed,) = events(session, TurnFailed)
        assert failed.code == caught.value.code == "hook-failed"
        assert events(session, ModelTurnRecorded) == []


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("model", [asks, asks_async])
def test_a_replaced_answer_is_the_one_that_is_recorded_with_the_usage_there_was(
    is_async: bool, model: Any
) -> None:
    def censor(stretch: Stretch, request: ModelRequest, turn: ModelTurn) -> ModelTurn | None:
        return ModelTurn(turn.text.upper()) if turn.text else None

    agent = Agent("agent", model=model, tools=[pay], hooks=[made(is_async, after_model=censor)])
    with ActorSystem(agent) as system:
        session = system.session("s")
        result = session.send("5").result(WAIT)
        assert result.text == events(session, ModelTurnRecorded)[-1].text
        assert result.text == 'THE TOOL SAID: {"PAID":5}'
        assert result.usage == Usage(3, 4)


@pytest.mark.parametrize("after", [raising(ValueError("no")), lambda *_: 5])
def test_what_a_failing_hook_after_the_model_throws_away_was_still_paid_for(after: Any) -> None:
    def model(request: ModelRequest) -> ModelTurn:
        return ModelTurn("hello", usage=Usage(10, 20))

    agent = Agent("agent", model=model, hooks=[made(False, after_model=after)])
    with ActorSystem(agent) as system:
        session = system.session("s")
        with pytest.raises(HookFailed):
            session.send("5").result(WAIT)
        (discarded,) = events(session, ModelCallDiscarded)
        assert discarded.usage == Usage(10, 20)


def test_a_hook_can_add_calls_but_not_run_them_past_a_gate() -> None:
    @tool(name="pay", needs_approval=True)
    def gated(amount: int) -> None:
        """Pay."""
        ran.append("pay")

    class Adds(Hooks):
        def after_model(
            self, stretch: Stretch, request: ModelRequest, turn: ModelTurn
        ) -> ModelTurn:
            return ModelTurn(tool_calls=(call("pay", amount=1),))

    agent = Agent("agent", model=lambda request: "hi", tools=[gated], hooks=[Adds()])
    with ActorSystem(agent) as system:
        result = system.session("s").send("5").result(WAIT)
        assert result.finish_reason == "awaiting-approval"
    assert ran == []


def test_deltas_are_shown_as_they_come_and_the_recorded_answer_is_the_hooks() -> None:
    class Streams:
        id = "streams"

        async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
            yield TextDelta("he")
            yield TextDelta("llo")
            yield ModelTurn("hello")

    hooks = made(False, after_model=lambda stretch, request, turn: ModelTurn("(removed)"))
    with ActorSystem(Agent("agent", model=Streams(), hooks=[hooks])) as system:
        turn = system.session("s").send("x")
        items = list(turn.stream())
        assert [each.text for each in items if each.type == "text.delta"] == ["he", "llo"]
        assert turn.result(WAIT).text == "(removed)"


@pytest.mark.parametrize("model", [asks, asks_async])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_hook_sees_what_a_context_policy_leaves_of_the_conversation(
    model: Any, is_async: bool
) -> None:
    seen: list[int] = []
    hooks = made(is_async, before_model=lambda _, request: seen.append(len(request.messages)))

    async def last_turn(context: Any) -> Any:
        return context.messages[context.turns[-1] :]

    for policy in (last_turns(1), last_turn):
        seen.clear()
        agent = Agent("agent", model=model, tools=[pay], hooks=[hooks], context_policy=policy)
        with ActorSystem(agent) as system:
            for amount in "56":
                system.session("s").send(amount).result(WAIT)
        assert seen == [1, 3, 1, 3]


def test_each_attempt_of_a_model_call_has_its_hooks() -> None:
    seen: list[str] = []
    hooks = made(
        False,
        before_model=lambda *_: seen.append("before"),
        after_model=lambda *_: seen.append("after"),
    )
    model = ScriptedModel([ModelUnavailable("busy", retry_after=0.001), "ok"])
    with ActorSystem(Agent("agent", model=model, hooks=[hooks])) as system:
        assert system.session("s").send("x").result(WAIT).text == "ok"
    assert seen == ["before", "before", "after"]
