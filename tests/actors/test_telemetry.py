"""Spans of turns, model calls and tool calls."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from threading import Event
from typing import Any

import pytest
from hooked import WAIT, asks, asks_async
from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from turnstream.actors import ActorSystem, Agent, Hooks, ModelRequest, Refused, tool
from turnstream.actors.telemetry import Telemetry
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    ImagePart,
    InputQueued,
    ModelFailed,
    ModelTurn,
    TextPart,
    Usage,
    UserMessage,
)


@tool
def pay(amount: int) -> dict[str, int]:
    """Pay."""
    return {"paid": amount}


@tool(name="pay")
async def pay_async(amount: int) -> dict[str, int]:
    """Pay."""
    return {"paid": amount}


class Traced:
    """What a system's spans are sent to."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("the application")

    def hook(self, **options: Any) -> Telemetry:
        return Telemetry(tracer_provider=self.provider, **options)

    @property
    def spans(self) -> list[Any]:
        return sorted(self.exporter.get_finished_spans(), key=lambda each: each.start_time or 0)

    def named(self, name: str) -> list[Any]:
        return [each for each in self.spans if each.name == name]


@pytest.fixture
def traced() -> Traced:
    return Traced()


def agent_of(traced: Traced, *, model: Any = asks, tools: Any = (pay,), **options: Any) -> Agent:
    return Agent("clerk", model=model, tools=tools, hooks=[traced.hook(**options)])


@pytest.mark.parametrize("model", [asks, asks_async])
@pytest.mark.parametrize("tool", [pay, pay_async])
def test_a_turn_is_one_trace_with_its_calls_inside(traced: Traced, model: Any, tool: Any) -> None:
    agent = agent_of(traced, model=model, tools=[tool], provider="acme")
    with ActorSystem(agent) as system, traced.tracer.start_as_current_span("request") as request:
        system.session("s").send("5").result(WAIT)
    (turn,) = traced.named("invoke_agent clerk")
    first, second = traced.named(f"chat {model.__name__}")
    (paid,) = traced.named("execute_tool pay")
    assert {each.context.trace_id for each in traced.spans} == {request.get_span_context().trace_id}
    assert turn.parent.span_id == request.get_span_context().span_id
    assert {each.parent.span_id for each in (first, paid, second)} == {turn.context.span_id}
    assert (turn.kind, first.kind, paid.kind) == (
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
        SpanKind.INTERNAL,
    )
    assert turn.start_time <= first.start_time <= first.end_time <= paid.start_time
    assert second.end_time <= turn.end_time
    assert all(each.status.status_code is StatusCode.UNSET for each in traced.spans)
    common = {
        "gen_ai.agent.name": "clerk",
        "gen_ai.conversation.id": "s",
        "gen_ai.provider.name": "acme",
        "turnstream.turn.id": "turn-1",
    }
    assert dict(turn.attributes) == common | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.request.model": model.__name__,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 4,
        "turnstream.resumed": False,
        "turnstream.rest": "finished",
    }
    assert dict(second.attributes) == common | {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model.__name__,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 4,
        "turnstream.step": 2,
    }
    assert dict(paid.attributes) == common | {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.call.id": paid.attributes["gen_ai.tool.call.id"],
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.type": "function",
        "turnstream.attempt": 1,
        "turnstream.outcome": "ok",
    }


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_tool_and_a_model_trace_is_inside_their_spans(
    traced: Traced, is_async: bool
) -> None:
    def look() -> None:
        with traced.tracer.start_as_current_span("query"):
            pass

    @tool(name="pay")
    def looks(amount: int) -> None:
        """Pay."""
        look()

    @tool(name="pay")
    async def looks_async(amount: int) -> None:
        """Pay."""
        await asyncio.sleep(0)
        look()

    def model(request: ModelRequest) -> Any:
        look()
        return asks(request)

    async def model_async(request: ModelRequest) -> Any:
        await asyncio.sleep(0)
        return model(request)

    chosen: Any = (model_async, looks_async) if is_async else (model, looks)
    agent = agent_of(traced, model=chosen[0], tools=[chosen[1]])
    with ActorSystem(agent) as system:
        system.session("s").send("5").result(WAIT)
    outer = {each.context.span_id: each.name for each in traced.spans}
    parents = [outer[each.parent.span_id] for each in traced.named("query")]
    name = chosen[0].__name__
    assert parents == [f"chat {name}", "execute_tool pay", f"chat {name}"]


def test_without_a_trace_of_the_senders_the_send_begins_one(traced: Traced) -> None:
    with ActorSystem(agent_of(traced)) as system:
        session = system.session("s")
        session.send("5").result(WAIT)
        session.send("6").result(WAIT)
        queued = [each.event for each in session.events() if isinstance(each.event, InputQueued)]
    sends, turns = traced.named("send clerk"), traced.named("invoke_agent clerk")
    assert [each.kind for each in sends] == [SpanKind.PRODUCER] * 2
    assert [each.parent.span_id for each in turns] == [each.context.span_id for each in sends]
    assert sends[0].context.trace_id != sends[1].context.trace_id
    for event, span in zip(queued, sends, strict=True):
        ids = f"{span.context.trace_id:032x}-{span.context.span_id:016x}"
        assert event.trace.startswith(f"00-{ids}-")


@pytest.mark.parametrize("is_sent_in_a_trace", [False, True])
def test_a_turn_that_goes_on_in_another_process_has_a_link_to_where_it_was_sent(
    is_sent_in_a_trace: bool, tmp_path: Any
) -> None:
    @tool(name="pay", needs_approval=True)
    def gated(amount: int) -> int:
        """Pay."""
        return amount

    before, after = Traced(), Traced()
    address = f"sqlite:///{tmp_path}/s.db"
    with ActorSystem(agent_of(before, tools=[gated]), store=address) as system:
        if is_sent_in_a_trace:
            with before.tracer.start_as_current_span("request"):
                paused = system.session("s").send("5").result(WAIT)
        else:
            paused = system.session("s").send("5").result(WAIT)
    again = ActorSystem(agent_of(after, tools=[gated]), store=address)
    with again as system, after.tracer.start_as_current_span("decision"):
        system.approve(paused.approvals[0].id).result(WAIT)
    (first,) = before.named("invoke_agent clerk")
    (second,) = after.named("invoke_agent clerk")
    assert (first.attributes["turnstream.rest"], first.links) == ("awaiting-approval", ())
    assert second.attributes["turnstream.resumed"] is True
    assert second.parent is None and second.context.trace_id != first.context.trace_id
    (link,) = second.links
    assert (link.context.trace_id, link.context.span_id) == (
        first.context.trace_id,
        first.parent.span_id,
    )
    assert [each.name for each in after.spans if each.parent] == ["execute_tool pay", "chat asks"]


SECRETS = ("secret-input", "secret-argument", "secret-result", "secret-answer", "secret-error")


@tool(name="tell")
def tell(what: str) -> str:
    """Tell."""
    return "secret-result"


@tool(name="fail")
def fail() -> str:
    """Fail."""
    raise LookupError("secret-error")


def all_text(spans: list[Any]) -> str:
    return "".join(str(each.to_json()) for each in spans)


def secretive(traced: Traced, **options: Any) -> list[Any]:
    model = ScriptedModel(
        [
            [call("tell", what="secret-argument"), call("fail")],
            "secret-answer",
            RuntimeError("secret-error"),
        ]
    )
    agent = Agent(
        "clerk",
        model=model,
        instructions="secret-instructions",
        tools=[tell, fail],
        hooks=[traced.hook(**options)],
    )
    with ActorSystem(agent) as system:
        session = system.session("s")
        parts = UserMessage((TextPart("secret-input"), ImagePart("image/png", data=b"secret-data")))
        session.send(parts).result(WAIT)
        with pytest.raises(ModelFailed):
            session.send("again").result(WAIT)
    return traced.spans


def test_no_payload_is_in_a_span(traced: Traced) -> None:
    spans = secretive(traced)
    assert len(spans) == 9
    assert "secret" not in all_text(spans)


def test_payloads_are_in_spans_where_that_is_asked_for(traced: Traced) -> None:
    text = all_text(secretive(traced, content=True))
    for each in (*SECRETS[:4], "secret-instructions", "LookupError: secret-error"):
        assert each in text
    assert "secret-data" not in text
    attributes = traced.named("chat scripted")[1].attributes
    roles = [each["role"] for each in json.loads(attributes["gen_ai.input.messages"])]
    assert roles == ["user", "assistant", "tool", "tool"]
    (output,) = json.loads(attributes["gen_ai.output.messages"])
    assert output["parts"] == [{"type": "text", "content": "secret-answer"}]


def test_what_other_hooks_take_out_is_in_no_span(traced: Traced) -> None:
    class Redacts(Hooks):
        def before_model(self, stretch: Any, request: ModelRequest) -> ModelRequest:
            return replace(request, messages=[UserMessage("(redacted)")])

        def after_model(self, stretch: Any, request: ModelRequest, turn: Any) -> ModelTurn:
            return ModelTurn("(redacted)")

    hooks = [traced.hook(content=True), Redacts()]
    agent = Agent("clerk", model=lambda request: "secret", hooks=hooks)
    with ActorSystem(agent) as system:
        system.session("s").send("secret").result(WAIT)
    text = all_text(traced.spans)
    assert "secret" not in text and text.count("(redacted)") == 2


def test_what_fails_has_a_status_and_what_is_cancelled_has_none(traced: Traced) -> None:
    secretive(traced)
    failed = [each for each in traced.spans if each.status.status_code is StatusCode.ERROR]
    assert [(each.name, each.attributes["error.type"]) for each in failed] == [
        ("execute_tool fail", "tool-error"),
        ("invoke_agent clerk", "model-failed"),
        ("chat scripted", "RuntimeError"),
    ]
    assert all(each.status.description is None and not each.events for each in failed)
    begun = Event()

    async def endless(request: ModelRequest) -> str:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    again = Traced()
    with ActorSystem(agent_of(again, model=endless)) as system:
        turn = system.session("s").send("5")
        assert begun.wait(WAIT)
        turn.abort()
        turn.result(WAIT)
    assert {each.name for each in again.spans} == {
        "send clerk",
        "chat endless",
        "invoke_agent clerk",
    }
    assert all(each.status.status_code is StatusCode.UNSET for each in again.spans)


def test_what_a_hook_refuses_is_no_error(traced: Traced) -> None:
    class No(Hooks):
        def before_tool(self, context: Any, call: Any) -> Refused:
            return Refused("no")

    agent = Agent("clerk", model=asks, tools=[pay], hooks=[traced.hook(), No()])
    with ActorSystem(agent) as system:
        system.session("s").send("5").result(WAIT)
    (span,) = traced.named("execute_tool pay")
    assert span.attributes["turnstream.outcome"] == "rejected"
    assert span.status.status_code is StatusCode.UNSET


def test_turns_of_many_sessions_do_not_mix(traced: Traced) -> None:
    with ActorSystem(agent_of(traced)) as system:
        turns = [system.session(f"s{n}").send(str(n)) for n in range(20)]
        for each in turns:
            each.result(WAIT)
    by_trace: dict[int, set[Any]] = {}
    for span in traced.spans:
        found = by_trace.setdefault(span.context.trace_id, set())
        found.add(span.attributes["gen_ai.conversation.id"])
    assert len(by_trace) == 20 and all(len(each) == 1 for each in by_trace.values())
    assert len(traced.spans) == 20 * 5


def test_a_process_without_an_sdk_runs_as_without_telemetry() -> None:
    with ActorSystem(Agent("clerk", model=asks, tools=[pay], hooks=[Telemetry()])) as system:
        session = system.session("s")
        assert session.send("5").result(WAIT).usage == Usage(3, 4)
        assert all(not getattr(each.event, "trace", "") for each in session.events())
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.parametrize("found", [5, "\u00e4", "0" * 257])
def test_what_is_no_trace_is_not_recorded(found: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Hooks):
        def on_send(self, session_id: str, agent: str) -> Any:
            return found

    with ActorSystem(Agent("clerk", model=asks, tools=[pay], hooks=[Odd()])) as system:
        session = system.session("s")
        session.send("5").result(WAIT)
        assert all(not getattr(each.event, "trace", "") for each in session.events())
    assert len(caplog.records) == 1


def test_opentelemetry_is_only_needed_for_telemetry() -> None:
    code = """
import sys
sys.modules["opentelemetry"] = None
from turnstream import ActorSystem, Agent, Hooks
with ActorSystem(Agent("a", model=lambda request: "ok", hooks=[Hooks()])) as system:
    assert system.session().send("x").result().text == "ok"
try:
    import turnstream.actors.telemetry
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50
    )
    assert "pip install turnstream[otel]" in done.stdout


def test_only_the_api_is_used_at_run_time() -> None:
    code = """
import sys
import turnstream.actors.telemetry
assert "opentelemetry.trace" in sys.modules
assert not [each for each in sys.modules if each.startswith("opentelemetry.sdk")]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)
