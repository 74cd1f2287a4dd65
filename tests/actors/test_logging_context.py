"""What records of the log say: whose they are, and nothing of what was said."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from hooked import WAIT, asks, made, raising

from turnstream.actors import ActorSystem, Agent, CallFilter, ModelRequest, ToolContext, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import ModelFailed, ModelTurn
from turnstream.stores import MemoryStore

app: logging.Logger = logging.getLogger("the.application")


class Kept(logging.Handler):
    """Keeps records, with the filter that is tested."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []
        self.addFilter(CallFilter())
        self.setFormatter(logging.Formatter("%(session_id)s/%(turn_id)s/%(call_id)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def lines(self) -> list[str]:
        return [self.format(each) for each in self.records]


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler, root = Kept(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def ours(kept: Kept) -> list[str]:
    return [each for each in kept.lines if "application" in each or "saw" in each]


@pytest.mark.parametrize("is_async", [False, True])
def test_lines_of_user_code_say_which_session_turn_and_call_they_are_of(
    kept: Kept, is_async: bool
) -> None:
    @tool(name="pay")
    def pays(context: ToolContext, amount: int) -> None:
        """Pay."""
        app.info("saw tool %s", context.call_id)

    @tool(name="pay")
    async def pays_async(context: ToolContext, amount: int) -> None:
        """Pay."""
        await asyncio.to_thread(app.info, "saw tool %s", context.call_id)

    def model(request: ModelRequest) -> Any:
        app.info("saw model")
        if request.step == 1:
            return asks(request)
        return "done"

    async def model_async(request: ModelRequest) -> Any:
        await asyncio.sleep(0)
        return model(request)

    hooks = made(
        not is_async,
        before_tool=lambda context, call: app.info("saw hook %s", call.id),
        on_rest=lambda stretch, rest: app.info("saw rest"),
    )
    chosen: Any = (model_async, pays_async) if is_async else (model, pays)
    agent = Agent("agent", model=chosen[0], tools=[chosen[1]], hooks=[hooks])
    with ActorSystem(agent) as system:
        session = system.session("s")
        (called,) = session.send("5").result(WAIT).tool_calls
    app.info("saw nothing")
    assert ours(kept) == [
        "s/turn-1/ saw model",
        f"s/turn-1/{called.id} saw hook {called.id}",
        f"s/turn-1/{called.id} saw tool {called.id}",
        "s/turn-1/ saw model",
        "s/turn-1/ saw rest",
        "// saw nothing",
    ]


def test_calls_that_run_at_once_do_not_mix(kept: Kept) -> None:
    together = asyncio.Event()

    @tool
    async def wait(name: str) -> None:
        """Wait for all."""
        waiting.append(name)
        if len(waiting) == 6:
            together.set()
        await together.wait()
        app.info("saw %s", name)

    waiting: list[str] = []

    def model(request: ModelRequest) -> Any:
        if request.step == 2:
            return "done"
        named = [f"{request.session_id}/turn-1/c{n}" for n in range(3)]
        calls = [call("wait", each[-2:], name=each) for each in named]
        return ModelTurn(tool_calls=tuple(calls))

    with ActorSystem(Agent("agent", model=model, tools=[wait])) as system:
        turns = [system.session(name).send("go") for name in ("a", "b")]
        for each in turns:
            each.result(WAIT)
    lines = ours(kept)
    assert len(lines) == 6
    assert all(line == f"{line.split()[-1]} saw {line.split()[-1]}" for line in lines)


def test_ids_that_a_record_has_are_kept(kept: Kept) -> None:
    app.info("saw", extra={"session_id": "mine"})
    assert ours(kept) == ["mine// saw"]


def test_what_is_logged_names_its_session_and_no_payload(kept: Kept) -> None:
    """Everything that is logged in turns that go wrong in many ways."""
    begun, over = Event(), Event()

    def asks_whether(context: ToolContext, arguments: Any) -> bool:
        raise LookupError("secret")

    @tool(needs_approval=asks_whether)
    def gated(what: str) -> str:
        """Ask."""
        return "secret"

    @tool
    def stuck(what: str) -> str:
        """Wait."""
        begun.set()
        over.wait(WAIT)
        return "secret"

    hooks = made(False, on_event=raising(ValueError("secret")))
    script = [[call("gated", what="secret")], "secret", [call("stuck", what="secret")]]
    store = MemoryStore()
    model = ScriptedModel([*script, RuntimeError("secret")])
    agent = Agent("agent", model=model, tools=[gated, stuck], hooks=[hooks])
    with ActorSystem(agent, store=store, on_failure="keep") as system:
        session = system.session("s")
        (approval,) = session.send("secret").result(WAIT).approvals
        system.approve(approval.id, note="secret").result(WAIT)
        turn = session.send("secret", key="k")
        assert begun.wait(WAIT)
        turn.abort()
        turn.result(WAIT)
        over.set()
        with pytest.raises(ModelFailed):
            session.send("secret").result(WAIT)
    changed = Agent("agent", model=ScriptedModel(["secret"]), instructions="secret")
    with ActorSystem(changed, store=store) as system:
        resumed = system.session("s").resume()
        assert resumed is not None
        resumed.result(WAIT)
    about = [each for each in kept.records if each.name.startswith("turnstream")]
    said = [each.getMessage() for each in about]
    for part in ("needs_approval raised", "raised: ValueError", "after it was given up", "goes on"):
        assert any(part in each for each in said), part
    assert not any("secret" in kept.format(each) for each in about)
    ones = [each for each in about if "the store is in memory" not in each.getMessage()]
    assert {each.session_id for each in ones} == {"s"}
    (late,) = [each for each in ones if "given up" in each.getMessage()]
    assert (late.turn_id, late.call_id != "") == ("turn-2", True)
