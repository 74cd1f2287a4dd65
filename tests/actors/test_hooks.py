"""Hooks that take part: before and after tools."""

from __future__ import annotations

import asyncio
from threading import Event, current_thread
from typing import Any

import pytest
from hooked import WAIT, asks, asks_async, made, raising
from sending import events

from turnstream.actors import (
    ActorSystem,
    Agent,
    Hooks,
    ModelRequest,
    Refused,
    ToolContext,
    tool,
)
from turnstream.events import (
    InvalidAgent,
    ModelFailed,
    ToolCall,
    ToolError,
    ToolMessage,
    ToolResultRecorded,
)
from turnstream.stores import MemoryStore

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@tool
def pay(amount: int) -> dict[str, int]:
    """Pay."""
    ran.append(f"pay {amount}")
    return {"paid": amount}


@tool(name="pay")
async def pay_async(amount: int) -> dict[str, int]:
    """Pay."""
    return pay(amount)  # type: ignore[no-any-return]


KINDS = [(asks, pay), (asks_async, pay), (asks, pay_async), (asks_async, pay_async)]
of_every_kind = pytest.mark.parametrize(("model", "tool"), KINDS)


def outcome_of(hooks: list[Hooks], model: Any = asks, tool: Any = pay) -> tuple[str, Any]:
    """The outcome and the content of the one tool call of a turn with these hooks."""
    agent = Agent("agent", model=model, tools=[tool], hooks=hooks)
    with ActorSystem(agent) as system:
        session = system.session("s")
        session.send("5").result(WAIT)
        (recorded,) = events(session, ToolResultRecorded)
        return recorded.outcome, recorded.content


@of_every_kind
@pytest.mark.parametrize("is_async", [False, True])
def test_a_hook_of_either_kind_goes_with_models_and_tools_of_either_kind(
    model: Any, tool: Any, is_async: bool
) -> None:
    said: list[str] = []
    hooks = made(
        is_async,
        before_model=lambda stretch, request: said.append(f"ask {request.step}"),
        after_model=lambda stretch, request, turn: said.append("answered"),
        before_tool=lambda context, call: said.append(f"run {call.arguments}"),
        after_tool=lambda context, call, outcome, content: said.append(f"{outcome} {content}"),
    )
    assert outcome_of([hooks], model, tool) == ("ok", {"paid": 5})
    tool_said = ["run {'amount': 5}", "ok {'paid': 5}"]
    assert said == ["ask 1", "answered", *tool_said, "ask 2", "answered"]
    assert ran == ["pay 5"]


@of_every_kind
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("outcome", ["rejected", "error"])
def test_what_a_hook_refuses_does_not_run(
    model: Any, tool: Any, is_async: bool, outcome: Any
) -> None:
    hooks = made(is_async, before_tool=lambda context, call: Refused("too much", outcome))
    assert outcome_of([hooks], model, tool) == (outcome, "too much")
    assert ran == []


@of_every_kind
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("ask the boss"), "ask the boss"),
        (LookupError("x"), "LookupError: x"),
        (SystemExit("x"), "SystemExit: x"),
        (asyncio.CancelledError("x"), "CancelledError: x"),
        (StopIteration("x"), "StopIteration"),
    ],
)
def test_a_hook_that_raises_before_a_tool_keeps_it_from_running(
    model: Any, tool: Any, is_async: bool, error: BaseException, text: str
) -> None:
    outcome, content = outcome_of([made(is_async, before_tool=raising(error))], model, tool)
    assert outcome == "error"
    assert content.startswith("Not run: ") and text in content
    assert ran == []


@pytest.mark.parametrize("verdict", [True, False, "allow", {"allow": True}, Refused("x", "ok")])  # type: ignore[arg-type]
def test_nothing_but_none_lets_a_tool_run(verdict: Any) -> None:
    outcome, content = outcome_of([made(False, before_tool=lambda *_: verdict)])
    assert outcome == "error" and content.startswith("Not run: ")
    assert ran == []


def test_the_first_refusal_counts_and_later_hooks_are_not_asked() -> None:
    asked: list[str] = []
    first = made(False, before_tool=lambda *_: Refused("first"))
    second = made(False, before_tool=lambda *_: asked.append("second"))
    assert outcome_of([first, second]) == ("rejected", "first")
    assert asked == []


@of_every_kind
@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_hook_makes_of_a_result_is_what_is_recorded(
    model: Any, tool: Any, is_async: bool
) -> None:
    def without_amount(context: Any, call: Any, outcome: str, content: Any) -> Any:
        content["paid"] = "(some)"
        return content

    assert outcome_of([made(is_async, after_tool=without_amount)], model, tool) == (
        "ok",
        {"paid": "(some)"},
    )


def test_hooks_after_a_tool_are_called_in_reverse_order() -> None:
    inner = made(False, after_tool=lambda context, call, outcome, content: [content, "inner"])
    outer = made(False, after_tool=lambda context, call, outcome, content: [content, "outer"])
    assert outcome_of([outer, inner]) == ("ok", [[{"paid": 5}, "inner"], "outer"])


def test_a_hook_sees_what_a_tool_raised_and_may_say_it_otherwise() -> None:
    @tool(name="pay")
    def broken(amount: int) -> None:
        """Pay."""
        raise LookupError("card 1234")

    seen: list[tuple[str, Any]] = []

    def hide(context: Any, call: Any, outcome: str, content: Any) -> Any:
        seen.append((outcome, content))
        return "it failed"

    assert outcome_of([made(False, after_tool=hide)], tool=broken) == ("error", "it failed")
    assert seen == [("error", "LookupError: card 1234")]


@of_every_kind
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "after",
    [
        raising(ValueError("no")),
        raising(SystemExit()),
        raising(asyncio.CancelledError()),
        lambda *_: object(),
    ],
)
def test_what_fails_after_a_tool_ran_is_recorded_once_and_the_tool_is_not_run_again(
    model: Any, tool: Any, is_async: bool, after: Any
) -> None:
    store = MemoryStore()
    agent = Agent("agent", model=model, tools=[tool], hooks=[made(is_async, after_tool=after)])
    with ActorSystem(agent, store=store) as system:
        system.session("s").send("5").result(WAIT)
    with ActorSystem(agent, store=store) as system:
        assert system.session("s").resume() is None
        (recorded,) = events(system.session("s"), ToolResultRecorded)
    assert recorded.outcome == "error"
    assert recorded.content["error"] == "post-processing failed"
    assert recorded.content["tool_ran"] is True and recorded.content["tool_outcome"] == "ok"
    assert "paid" not in str(recorded.content)
    assert ran == ["pay 5"]


def test_the_time_out_of_a_tool_covers_its_hooks() -> None:
    begun, over = Event(), Event()

    @tool(name="pay", timeout=0.05)
    def quick(amount: int) -> None:
        """Pay."""
        ran.append("pay")

    def slow(context: ToolContext, call: ToolCall) -> None:
        begun.set()
        over.wait(WAIT)

    agent = Agent("agent", model=asks, tools=[quick], hooks=[made(False, before_tool=slow)])
    with ActorSystem(agent) as system:
        session = system.session("s")
        session.send("5").result(WAIT)
        (recorded,) = events(session, ToolResultRecorded)
        over.set()
    assert begun.is_set()
    assert recorded.outcome == "error" and "took longer" in recorded.content
    assert ran == []  # it was given up before it began


def test_a_blocking_hook_does_not_block_the_event_loop() -> None:
    begun, over = Event(), Event()

    def block(context: ToolContext, call: ToolCall) -> None:
        begun.set()
        assert over.wait(WAIT)

    agent = Agent(
        "agent", model=asks_async, tools=[pay_async], hooks=[made(False, before_tool=block)]
    )
    bare = Agent("bare", model=asks_async, tools=[pay_async])
    with ActorSystem([agent, bare]) as system:
        turn = system.session("s").send("5")
        assert begun.wait(WAIT)
        other = system.session("other", agent="bare").send("6")
        assert other.result(WAIT).text == 'the tool said: {"paid":6}'
        over.set()
        turn.result(WAIT)


def test_an_abort_during_a_hook_keeps_the_tool_from_running() -> None:
    begun = Event()

    class Endless(Hooks):
        async def before_tool(self, context: ToolContext, call: ToolCall) -> None:
            begun.set()
            await asyncio.Event().wait()

    agent = Agent("agent", model=asks_async, tools=[pay_async], hooks=[Endless()])
    with ActorSystem(agent) as system:
        turn = system.session("s").send("5")
        assert begun.wait(WAIT)
        turn.abort()
        assert turn.result(WAIT).finish_reason == "aborted"
    assert ran == []


@pytest.mark.parametrize("hooks", [[object()], [Hooks], ["x"]])
def test_what_is_no_hook_is_refused(hooks: Any) -> None:
    with pytest.raises(InvalidAgent, match="no hook"):
        Agent("agent", model=asks, hooks=hooks)


def test_attaching_a_hook_is_no_drift(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    fails = [True]

    def model(request: ModelRequest) -> str:
        if fails[0]:
            raise RuntimeError
        return "ok"

    with ActorSystem(Agent("agent", model=model), store=store, on_failure="keep") as system:
        turn = system.session("s").send("x")
        with pytest.raises(ModelFailed):
            turn.result(WAIT)
    fails.clear()
    fails.append(False)
    hooks = [made(False, before_tool=lambda *_: None)]
    agent = Agent("agent", model=model, hooks=hooks)
    with ActorSystem(agent, store=store, on_agent_drift="error") as system:
        turn = system.session("s").resume()
        assert turn is not None and turn.result(WAIT).text == "ok"
    assert not caplog.records


def test_sync_hooks_run_on_the_thread_of_a_sync_tool() -> None:
    threads: list[str] = []

    @tool(name="pay")
    def where(amount: int) -> None:
        """Pay."""
        threads.append(current_thread().name)

    hooks = made(
        False,
        before_tool=lambda *_: threads.append(current_thread().name),
        after_tool=lambda *_: threads.append(current_thread().name),
    )
    outcome_of([hooks], tool=where)
    assert len(threads) == 3 and len(set(threads)) == 1


def test_what_a_hook_does_to_its_call_changes_nothing() -> None:
    def meddle(context: ToolContext, call: ToolCall) -> None:
        call.arguments["amount"] = 1000

    def check(context: ToolContext, call: ToolCall) -> Any:
        return None if call.arguments == {"amount": 5} else Refused("meddled")

    hooks = [made(False, before_tool=meddle), made(False, before_tool=check)]
    assert outcome_of(hooks) == ("ok", {"paid": 5})
    assert ran == ["pay 5"]


def test_the_model_reads_a_refusal_as_the_result_of_its_call() -> None:
    agent = Agent(
        "agent",
        model=asks,
        tools=[pay],
        hooks=[made(False, before_tool=lambda *_: Refused("not today"))],
    )
    with ActorSystem(agent) as system:
        result = system.session("s").send("5").result(WAIT)
    (said,) = [each for each in result.messages if isinstance(each, ToolMessage)]
    assert (said.content, said.outcome) == ("not today", "rejected")
