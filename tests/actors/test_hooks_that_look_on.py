"""Hooks that look on: events, the stretches of turns, and contexts around calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from threading import Event
from typing import Any

import pytest
from hooked import WAIT, asks, asks_async, made, raising
from sending import events

from turnstream.actors import ActorSystem, Agent, Hooks, ModelRequest, Rest, Stretch, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    InputQueued,
    ModelFailed,
    ModelTurn,
    ModelTurnRecorded,
    SystemClosed,
    ToolResultRecorded,
    TurnFinished,
    UserMessage,
)
from turnstream.stores import MemoryStore, open_store


@tool
def pay(amount: int) -> dict[str, int]:
    """Pay."""
    return {"paid": amount}


@tool(name="pay")
async def pay_async(amount: int) -> dict[str, int]:
    """Pay."""
    return {"paid": amount}


class Told(Hooks):
    """Keeps what it is told, and lets a test wait for it."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, Any]] = []
        self.rests: list[tuple[Stretch, Rest]] = []
        self.rested = Event()

    def on_event(self, session_id: str, version: int, event: Any) -> None:
        self.events.append((session_id, version, event))

    def on_rest(self, stretch: Stretch, rest: Rest) -> None:
        self.rests.append((stretch, rest))
        self.rested.set()

    @property
    def reasons(self) -> list[tuple[str, bool]]:
        """Why each stretch ended, and whether it was resumed."""
        return [(rest.reason, stretch.resumed) for stretch, rest in self.rests]


def agent_with(*hooks: Hooks, model: Any = asks, tools: Any = (pay,)) -> Agent:
    return Agent("agent", model=model, tools=tools, hooks=hooks)


@pytest.mark.parametrize("is_async", [False, True])
def test_each_event_is_told_once_in_order_and_was_durable_before(
    address: str, is_async: bool
) -> None:
    told: list[tuple[str, int]] = []
    with closing(open_store(address)) as store:

        def see(session_id: str, version: int, event: Any) -> None:
            (record,) = store.read(session_id, after=version - 1, upto=version)
            assert record.version == version
            told.append((session_id, version))

        with ActorSystem(agent_with(made(is_async, on_event=see)), store=store) as system:
            turns = [system.session(f"s{n % 2}").send(str(n)) for n in range(6)]
            for each in turns:
                each.result(WAIT)
            versions = {name: system.session(name).version for name in ("s0", "s1")}
    for name, last in versions.items():
        assert [version for of, version in told if of == name] == list(range(1, last + 1))


def test_a_hook_that_blocks_delays_no_turn_and_no_other_hook() -> None:
    over, other = Event(), Told()
    blocks = made(False, on_event=lambda *_: over.wait(WAIT))
    with ActorSystem(agent_with(blocks, other)) as system:
        assert system.session("s").send("5").result(WAIT).text == 'the tool said: {"paid":5}'
        assert other.rested.wait(WAIT)
        over.set()


def test_what_a_hook_lags_behind_by_is_read_from_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("turnstream.actors.listening.MOST_HELD", 3)
    begun, over, told = Event(), Event(), list[tuple[str, int, Any]]()

    def lag(session_id: str, version: int, event: Any) -> None:
        begun.set()
        over.wait(WAIT)
        told.append((session_id, version, event))

    store = MemoryStore()
    with ActorSystem(agent_with(made(False, on_event=lag)), store=store) as system:
        for n in range(6):
            system.session(f"s{n % 2}").send(str(n)).result(WAIT)
        assert begun.is_set()
        over.set()
    for name in ("s0", "s1"):
        recorded = [
            (each.version, each.event)
            for each in ActorSystem(agent_with(), store=store).session(name).events()
        ]
        mine = [(version, event) for of, version, event in told if of == name]
        assert [version for version, _ in mine] == [version for version, _ in recorded]
        assert [type(event) for _, event in mine] == [type(event) for _, event in recorded]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", [ValueError("secret"), SystemExit("secret")])
def test_what_a_hook_raises_that_looks_on_is_logged_without_its_text(
    is_async: bool, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = made(is_async, on_event=raising(error), on_rest=raising(error))
    told = Told()
    with ActorSystem(agent_with(hooks, told)) as system:
        session = system.session("s")
        session.send("5").result(WAIT)
        assert session.send("6").result(WAIT).text == 'the tool said: {"paid":6}'
        version = session.version
    assert len(told.events) == version
    raised = [each for each in caplog.records if each.name == "turnstream.hooks"]
    assert len(raised) == version + 2
    assert type(error).__name__ in caplog.text and "secret" not in caplog.text


def test_a_turn_rests_once_and_after_its_last_event() -> None:
    seen: list[str] = []

    class Both(Hooks):
        def on_event(self, session_id: str, version: int, event: Any) -> None:
            seen.append(type(event).__name__)

        def on_rest(self, stretch: Stretch, rest: Rest) -> None:
            seen.append(f"rest: {rest.reason}")
            assert (rest.finish_reason, rest.usage.output_tokens) == ("stop", 4)
            assert (stretch.agent, stretch.model) == ("agent", "asks")

    with ActorSystem(agent_with(Both())) as system:
        turn = system.session("s").send("5", key="k")
        turn.result(WAIT)
        assert system.session("s").send("5", key="k").result(WAIT).text == turn.result(WAIT).text
    assert seen[-2:] == ["TurnFinished", "rest: finished"]
    assert seen.count("rest: finished") == 1


@pytest.mark.parametrize("on_failure", ["keep", "drop"])
def test_a_failed_turn_rests_with_its_code_and_again_when_it_is_resumed(on_failure: str) -> None:
    told = Told()
    model = ScriptedModel([RuntimeError("no route"), "ok"])
    with ActorSystem(agent_with(told, model=model), on_failure=on_failure) as system:
        session = system.session("s")
        with pytest.raises(ModelFailed):
            session.send("x").result(WAIT)
        turn = session.resume() if on_failure == "keep" else session.send("y")
        assert turn is not None and turn.result(WAIT).text == "ok"
    assert told.rests[0][1].code == "model-failed"
    assert told.reasons == [("failed", False), ("finished", on_failure == "keep")]
    assert (told.rests[0][0].turn_id == told.rests[1][0].turn_id) == (on_failure == "keep")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_turn_that_is_paused_has_a_stretch_on_each_side(elsewhere: bool) -> None:
    @tool(name="pay", needs_approval=True)
    def gated(amount: int) -> int:
        """Pay."""
        return amount

    store, told = MemoryStore(), Told()
    agent = agent_with(told, tools=[gated])
    with ActorSystem(agent, store=store) as system:
        paused = system.session("s").send("5").result(WAIT)
        (approval,) = paused.approvals
        if not elsewhere:
            system.approve(approval.id).result(WAIT)
    if elsewhere:
        with ActorSystem(agent, store=store) as system:
            system.approve(approval.id).result(WAIT)
    assert told.reasons == [("awaiting-approval", False), ("finished", True)]
    first, second = [stretch for stretch, _ in told.rests]
    assert (first.turn_id, first.input_id) == (second.turn_id, second.input_id)
    assert first.version < second.version


def test_an_aborted_turn_rests() -> None:
    told, begun = Told(), Event()

    async def endless(request: ModelRequest) -> str:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    with ActorSystem(agent_with(told, model=endless)) as system:
        turn = system.session("s").send("x")
        assert begun.wait(WAIT)
        turn.abort()
        turn.result(WAIT)
    assert told.reasons == [("aborted", False)]


def test_a_turn_that_is_interrupted_rests_and_goes_on_as_another_stretch() -> None:
    store, told, begun = MemoryStore(), Told(), Event()

    async def endless(request: ModelRequest) -> str:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    with ActorSystem(agent_with(told, model=endless), store=store) as system:
        turn = system.session("s").send("x")
        assert begun.wait(WAIT)
        assert system.close(timeout=0.1) is False
        with pytest.raises(SystemClosed):
            turn.result(WAIT)
    quick = agent_with(told, model=lambda request: "ok")
    with ActorSystem(quick, store=store, on_agent_drift="ignore") as system:
        resumed = system.session("s").resume()
        assert resumed is not None
        resumed.result(WAIT)
    assert told.reasons == [("interrupted", False), ("finished", True)]


@pytest.mark.slow
def test_closing_waits_for_hooks_only_so_long(caplog: pytest.LogCaptureFixture) -> None:
    over = Event()
    hooks = made(False, on_event=lambda *_: over.wait(WAIT))
    system = ActorSystem(agent_with(hooks))
    system.session("s").send("5").result(WAIT)
    assert system.close(timeout=0.1) is False
    assert "was not told of" in caplog.text
    over.set()


@pytest.mark.parametrize("policy", ["wait", "queue", "steer"])
@pytest.mark.parametrize("kind", [InputQueued, ModelTurnRecorded, ToolResultRecorded, TurnFinished])
def test_what_a_hook_sends_at_an_event_is_used_exactly_once(policy: Any, kind: type) -> None:
    sent: list[Any] = []
    done = Event()

    def more(session_id: str, version: int, event: Any) -> None:
        if isinstance(event, kind) and not sent:
            sent.append(system.session("s").send("7", policy=policy))
            done.set()

    def model(request: ModelRequest) -> ModelTurn | str:
        first = request.messages[0].content
        if request.messages[-1] == UserMessage(str(first)) and len(request.messages) == 1:
            return ModelTurn(tool_calls=(call("pay", amount=5),))
        return "ok"

    agent = agent_with(made(False, on_event=more), model=model)
    with ActorSystem(agent) as system:
        session = system.session("s")
        session.send("5").result(WAIT)
        assert done.wait(WAIT)
        sent[0].result(WAIT)
        users = [each for each in session.messages if isinstance(each, UserMessage)]
        assert [each.content for each in users] == ["5", "7"]
        assert session.status == "idle"


def test_a_hook_inside_a_turn_that_would_wait_for_it_is_refused() -> None:
    def waits(context: Any, call: Any) -> None:
        system.session("s").send("more")

    with ActorSystem(agent_with(made(False, before_tool=waits))) as system:
        session = system.session("s")
        session.send("5").result(WAIT)
        (recorded,) = events(session, ToolResultRecorded)
    assert recorded.outcome == "error" and "WouldDeadlock" in recorded.content


around: ContextVar[str] = ContextVar("around", default="")


@pytest.mark.parametrize("is_async", [False, True])
def test_calls_run_inside_the_contexts_that_hooks_give(is_async: bool) -> None:
    seen: list[str] = []

    class Around(Hooks):
        @contextmanager
        def during_model(
            self, stretch: Stretch, request: ModelRequest
        ) -> Iterator[Callable[..., None]]:
            token = around.set("model")
            try:
                yield lambda turn: seen.append(f"answer {len(turn.tool_calls)}")
            finally:
                around.reset(token)

        @contextmanager
        def during_tool(
            self, stretch: Stretch, context: Any, call: Any
        ) -> Iterator[Callable[..., None]]:
            token = around.set(f"tool {call.name}")
            try:
                yield lambda outcome, content: seen.append(f"{outcome} {content}")
            finally:
                around.reset(token)
                seen.append("left")

    def saw(request: ModelRequest) -> ModelTurn:
        seen.append(around.get())
        return asks(request)

    async def saw_async(request: ModelRequest) -> ModelTurn:
        return saw(request)

    @tool(name="pay")
    def sees(amount: int) -> None:
        """Pay."""
        seen.append(around.get())

    @tool(name="pay")
    async def sees_async(amount: int) -> None:
        """Pay."""
        seen.append(around.get())

    also = made(not is_async, before_tool=lambda *_: seen.append(f"before in {around.get()}"))
    chosen = (saw_async, sees_async) if is_async else (saw, sees)
    agent = agent_with(Around(), also, model=chosen[0], tools=[chosen[1]])
    with ActorSystem(agent) as system:
        system.session("s").send("5").result(WAIT)
    assert seen == [
        *("model", "answer 1"),
        *("before in tool pay", "tool pay", "ok None", "left"),
        *("model", "answer 0"),
    ]


@pytest.mark.parametrize("model", [asks, asks_async])
@pytest.mark.parametrize("where", ["hook", "enter", "told", "exit"])
def test_a_context_that_fails_changes_nothing_and_is_logged(
    model: Any, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Hooks):
        def during_tool(self, stretch: Stretch, context: Any, call: Any) -> Any:
            if where == "hook":
                raise ValueError("secret")
            return Context()

    class Context:
        def __enter__(self) -> Any:
            if where == "enter":
                raise ValueError("secret")
            return self.told

        def told(self, *outcome: Any) -> None:
            if where == "told":
                raise ValueError("secret")

        def __exit__(self, *exc: object) -> None:
            if where == "exit":
                raise ValueError("secret")

    with ActorSystem(agent_with(Broken(), model=model)) as system:
        assert system.session("s").send("5").result(WAIT).text == 'the tool said: {"paid":5}'
    assert len(caplog.records) == 1
    assert "ValueError" in caplog.text and "secret" not in caplog.text


def test_a_context_sees_what_the_model_raised_and_cannot_swallow_it() -> None:
    seen: list[Any] = []

    class Swallows(Hooks):
        def during_model(self, stretch: Stretch, request: ModelRequest) -> Any:
            return Context()

    class Context:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *exc: object) -> bool:
            seen.append(exc[0])
            return True

    def model(request: ModelRequest) -> str:
        raise LookupError

    with ActorSystem(agent_with(Swallows(), model=model)) as system, pytest.raises(ModelFailed):
        system.session("s").send("x").result(WAIT)
    assert seen == [LookupError]
