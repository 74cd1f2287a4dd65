"""Hooks beside decisions: a hook can stop a call, and never let one run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hooked import WAIT, asks, made
from sending import events

from turnstream.actors import ActorSystem, Agent, Hooks, ModelRequest, Refused, Session, tool
from turnstream.actors.testing import call
from turnstream.events import (
    ApprovalRequested,
    ModelTurn,
    ModelTurnRecorded,
    ToolCallStarted,
    ToolResultRecorded,
)
from turnstream.stores import MemoryStore

ran: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    ran.append(amount)
    return f"paid {amount}"


class Tracer(Hooks):
    @contextmanager
    def during_tool(self, stretch: Any, context: Any, call: Any) -> Iterator[None]:
        yield

    @contextmanager
    def during_model(self, stretch: Any, request: Any) -> Iterator[None]:
        yield


HOOKS: dict[str, list[Hooks]] = {
    "none": [],
    "before, says nothing": [made(False, before_tool=lambda *_: None)],
    "before, says yes": [made(False, before_tool=lambda *_: True)],
    "before, async": [made(True, before_tool=lambda *_: None)],
    "after": [made(False, after_tool=lambda *_: None)],
    "around the model": [made(False, before_model=lambda *_: None, after_model=lambda *_: None)],
    "tracer": [Tracer()],
    "listener": [made(False, on_event=lambda *_: True, on_rest=lambda *_: True)],
}


@pytest.mark.parametrize("hooks", HOOKS.values(), ids=HOOKS)
@pytest.mark.parametrize("way", ["live", "elsewhere", "fork", "nested"])
def test_no_hook_lets_a_gated_call_run(hooks: list[Hooks], way: str) -> None:
    store = MemoryStore()
    agent = Agent("agent", model=asks, tools=[pay], hooks=hooks)
    first = Agent("agent", model=asks, tools=[pay]) if way == "elsewhere" else agent

    @tool
    def delegate(amount: int) -> str:
        """Let another session pay."""
        result = system.session("inner", agent="agent").send(str(amount)).result(WAIT)
        return result.finish_reason

    def delegates(request: ModelRequest) -> ModelTurn | str:
        if len(request.messages) > 1:
            return "done"
        return ModelTurn(tool_calls=(call("delegate", amount=5),))

    outer = Agent("outer", model=delegates, tools=[delegate])
    with ActorSystem([first, outer], store=store) as system:
        if way == "nested":
            assert system.session("s", agent="outer").send("5").result(WAIT).text == "done"
            session = system.session("inner")
        else:
            session = system.session("s")
            assert session.send("5").result(WAIT).finish_reason == "awaiting-approval"
        if way == "fork":
            session = session.fork(version=session.version)
            turn = session.resume()
            assert turn is not None
            assert turn.result(WAIT).finish_reason == "awaiting-approval"
        waits_for_a_decision(session)
    with ActorSystem(agent, store=store) as system:
        system.resume_all()
        waits_for_a_decision(system.session(session.id))
        (approval,) = [each for each in system.approvals() if each.session_id == session.id]
        system.approve(approval.id).result(WAIT)
    refuses = hooks and hooks[0] is HOOKS["before, says yes"][0]
    assert ran == ([] if refuses else [5])


def waits_for_a_decision(session: Session) -> None:
    assert ran == []
    assert session.status == "awaiting-approval"
    assert events(session, ApprovalRequested) and not events(session, ToolCallStarted)


def test_a_hook_is_asked_after_the_decision_about_what_was_decided() -> None:
    seen: list[tuple[str, Any]] = []

    def note(kind: str) -> Any:
        return lambda context, call, *result: seen.append((kind, call.arguments["amount"]))

    hooks = made(False, before_tool=note("before"), after_tool=note("after"))
    with ActorSystem(Agent("agent", model=asks, tools=[pay], hooks=[hooks])) as system:
        (approval,) = system.session("s").send("5").result(WAIT).approvals
        assert seen == []
        system.approve(approval.id, arguments={"amount": 3}).result(WAIT)
    assert seen == [("before", 3), ("after", 3)]
    assert ran == [3]


def test_a_hook_can_stop_what_was_approved() -> None:
    hooks = made(False, before_tool=lambda *_: Refused("closed on Sundays"))
    with ActorSystem(Agent("agent", model=asks, tools=[pay], hooks=[hooks])) as system:
        session = system.session("s")
        (approval,) = session.send("5").result(WAIT).approvals
        assert system.approve(approval.id).result(WAIT).text == "the tool said: closed on Sundays"
        (recorded,) = events(session, ToolResultRecorded)
    assert (recorded.outcome, ran) == ("rejected", [])


def test_no_hook_is_asked_about_what_was_rejected() -> None:
    asked: list[Any] = []
    hooks = made(
        False, before_tool=lambda *_: asked.append(1), after_tool=lambda *_: asked.append(1)
    )
    with ActorSystem(Agent("agent", model=asks, tools=[pay], hooks=[hooks])) as system:
        (approval,) = system.session("s").send("5").result(WAIT).approvals
        system.reject(approval.id).result(WAIT)
    assert asked == []


@pytest.mark.parametrize("amount", [0, 10])
def test_arguments_that_a_hook_changes_are_recorded_shown_for_approval_and_run(amount: int) -> None:
    class Caps(Hooks):
        """No more than 3 at once; done before the answer is recorded."""

        def after_model(self, stretch: Any, request: Any, turn: ModelTurn) -> ModelTurn:
            capped = [
                call(each.name, each.id, amount=min(each.arguments["amount"], 3))
                for each in turn.tool_calls
            ]
            return ModelTurn(turn.text, tuple(capped), turn.usage)

    least = min(amount, 3)
    with ActorSystem(Agent("agent", model=asks, tools=[pay], hooks=[Caps()])) as system:
        session = system.session("s")
        (approval,) = session.send(str(amount)).result(WAIT).approvals
        assert approval.arguments == {"amount": least}
        assert events(session, ModelTurnRecorded)[0].tool_calls[0].arguments == {"amount": least}
        system.approve(approval.id).result(WAIT)
    assert ran == [least]


def test_arguments_that_a_hook_makes_invalid_are_refused_like_a_models() -> None:
    class Breaks(Hooks):
        def after_model(self, stretch: Any, request: Any, turn: ModelTurn) -> ModelTurn | None:
            if not turn.tool_calls:
                return None
            return ModelTurn(tool_calls=(call("pay", amount="much"),))

    with ActorSystem(Agent("agent", model=asks, tools=[pay], hooks=[Breaks()])) as system:
        session = system.session("s")
        assert session.send("5").result(WAIT).finish_reason == "stop"
        (recorded,) = events(session, ToolResultRecorded)
    assert (recorded.outcome, ran) == ("error", [])


def test_each_call_of_a_batch_settles_by_itself_whatever_its_hook_does() -> None:
    @tool
    def free(amount: int) -> str:
        """Cost nothing."""
        return f"free {amount}"

    def picky(context: Any, call: Any) -> None:
        if call.arguments["amount"] == 2:
            raise LookupError("no such account")

    def model(request: ModelRequest) -> ModelTurn | str:
        if len(request.messages) > 1:
            return "|".join(str(each.content) for each in request.messages[2:])
        return ModelTurn(
            tool_calls=(
                call("free", amount=1),
                call("pay", amount=5),
                call("free", amount=2),
                call("free", amount=3),
            )
        )

    hooks = made(False, before_tool=picky)
    store = MemoryStore()
    agent = Agent("agent", model=model, tools=[pay, free], hooks=[hooks])
    with ActorSystem(agent, store=store) as system:
        session = system.session("s")
        paused = session.send("go").result(WAIT)
        outcomes = {each.outcome for each in events(session, ToolResultRecorded)}
        assert (outcomes, len(events(session, ToolResultRecorded))) == ({"ok", "error"}, 3)
        (approval,) = paused.approvals
    with ActorSystem(agent, store=store) as system:
        text = system.approve(approval.id).result(WAIT).text
    first, second, third, fourth = text.split("|")
    assert (first, second, fourth) == ("free 1", "paid 5", "free 3")
    assert third.endswith("LookupError: no such account")
