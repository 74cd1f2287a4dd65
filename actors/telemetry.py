"""Traces of turns for OpenTelemetry, named as its conventions for generative AI say.

A hook like any other. Of OpenTelemetry only the API is used; where the spans go is the
application's choice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any

from ..events.errors import TurnstreamError
from ..events.messages import ModelTurn, Outcome, ToolCall, Usage
from .hooks import Hooks, Rest, Stretch
from .models import ModelRequest
from .telemetry_content import answered, arguments_of, asked, result_of
from .tool_context import ToolContext

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as _missing:
    raise ImportError(
        "telemetry needs OpenTelemetry's API: pip install turnstream[otel]"
    ) from _missing

_OVER = 1000
"""How many ended stretches are remembered, for calls that end after them."""


class Telemetry(Hooks):
    """Makes spans of the turns of its agents, and of their model and tool calls.

    ``provider`` names who serves the model, as ``gen_ai.provider.name``. With ``content`` the
    spans also hold what was said, called and returned; without, no payload is in any of them.
    ``tracer_provider`` is where the tracer comes from: the global one by default.
    """

    def __init__(
        self,
        *,
        provider: str = "",
        content: bool = False,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        self._tracer = trace.get_tracer("turnstream", tracer_provider=tracer_provider)
        self._provider, self._content = provider, content
        self._spans: dict[Stretch, Span] = {}
        self._over: deque[Stretch] = deque()
        self._lock = Lock()

    def on_send(self, session_id: str, agent: str) -> str | None:
        """The sender's trace. Where there is none, one begins here, for the turn to be found by."""
        if trace.get_current_span().get_span_context().is_valid:
            return _traceparent(None)
        with self._tracer.start_span(
            f"send {agent}", kind=SpanKind.PRODUCER, attributes=_whose(session_id, agent)
        ) as span:
            return _traceparent(trace.set_span_in_context(span))

    @contextmanager
    def during_model(self, stretch: Stretch, request: ModelRequest) -> Iterator[Callable[..., Any]]:
        """A span ``chat MODEL``."""
        attributes = self._call("chat", stretch) | {
            "gen_ai.request.model": stretch.model,
            "turnstream.step": request.step,
        }
        if self._content:
            attributes |= asked(request)
        with self._span(f"chat {stretch.model}", stretch, SpanKind.CLIENT, attributes) as span:
            yield partial(self._answered, span)

    @contextmanager
    def during_tool(
        self, stretch: Stretch, context: ToolContext, call: ToolCall
    ) -> Iterator[Callable[..., Any]]:
        """A span ``execute_tool NAME``."""
        attributes = self._call("execute_tool", stretch) | {
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
            "turnstream.attempt": context.attempt,
        }
        if self._content:
            attributes |= arguments_of(call)
        name = f"execute_tool {call.name}"
        with self._span(name, stretch, SpanKind.INTERNAL, attributes) as span:
            yield partial(self._returned, span)

    def on_rest(self, stretch: Stretch, rest: Rest) -> None:
        """The end of the stretch's span, ``invoke_agent AGENT``."""
        span = self._stretch(stretch)
        span.set_attributes(_used(rest.usage) | {"turnstream.rest": rest.reason})
        if rest.finish_reason:
            span.set_attribute("gen_ai.response.finish_reasons", [rest.finish_reason])
        if rest.reason == "failed":
            _fail(span, rest.code)
        elif rest.reason == "interrupted":
            _fail(span, "interrupted")
        span.end(end_time=_nanoseconds(rest.at))
        with self._lock:
            self._over.append(stretch)
            if len(self._over) > _OVER:
                self._spans.pop(self._over.popleft(), None)

    @contextmanager
    def _span(
        self, name: str, stretch: Stretch, kind: SpanKind, attributes: dict[str, Any]
    ) -> Iterator[Span]:
        around = trace.set_span_in_context(self._stretch(stretch), Context())
        span = self._tracer.start_span(name, around, kind, attributes)
        with trace.use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            try:
                yield span
            except Exception as error:  # what is cancelled did not fail
                _fail(span, _kind(error))
                raise

    def _stretch(self, stretch: Stretch) -> Span:
        with self._lock:
            if (span := self._spans.get(stretch)) is None:
                span = self._spans[stretch] = self._begin(stretch)
            return span

    def _begin(self, stretch: Stretch) -> Span:
        """A turn that begins is part of its sender's trace. One that goes on, perhaps days later,
        has a trace of its own, with a link to that."""
        sent = _sent_in(stretch)
        links = [Link(trace.get_current_span(sent).get_span_context())] if stretch.trace else []
        attributes = self._call("invoke_agent", stretch) | {
            "gen_ai.request.model": stretch.model,
            "turnstream.resumed": stretch.resumed,
        }
        return self._tracer.start_span(
            f"invoke_agent {stretch.agent}",
            Context() if stretch.resumed else sent,
            SpanKind.INTERNAL,
            attributes,
            links if stretch.resumed else [],
            _nanoseconds(stretch.at),
        )

    def _call(self, operation: str, stretch: Stretch) -> dict[str, Any]:
        common = _whose(stretch.session_id, stretch.agent)
        common |= {"gen_ai.operation.name": operation, "turnstream.turn.id": stretch.turn_id}
        return common | ({"gen_ai.provider.name": self._provider} if self._provider else {})

    def _answered(self, span: Span, turn: object) -> None:
        if not isinstance(turn, ModelTurn):
            _fail(span, "invalid-model-turn")
            return
        span.set_attributes(_used(turn.usage))
        span.set_attribute("gen_ai.response.finish_reasons", [turn.finish_reason])
        if self._content:
            span.set_attributes(answered(turn))

    def _returned(self, span: Span, outcome: Outcome, content: Any) -> None:
        span.set_attribute("turnstream.outcome", outcome)
        if outcome == "error":
            _fail(span, "tool-error")
        if self._content:
            span.set_attributes(result_of(content))


def _whose(session_id: str, agent: str) -> dict[str, Any]:
    return {"gen_ai.agent.name": agent, "gen_ai.conversation.id": session_id}


def _used(usage: Usage) -> dict[str, Any]:
    used = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
    return {name: count for name, count in used.items() if count}


def _fail(span: Span, kind: str) -> None:
    """Mark it as failed. Not with the text of an error, in which there may be payloads."""
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


def _kind(error: Exception) -> str:
    """Its stable code, where it is one of ours: what others call so may be anything."""
    return error.code if isinstance(error, TurnstreamError) else type(error).__name__


def _traceparent(context: Context | None) -> str | None:
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, context)
    return carrier.get("traceparent")


def _sent_in(stretch: Stretch) -> Context:
    carrier = {"traceparent": stretch.trace} if stretch.trace else {}
    return TraceContextTextMapPropagator().extract(carrier, Context())


def _nanoseconds(at: datetime) -> int:
    """Exact, where ``timestamp`` would round."""
    whole = int(at.replace(microsecond=0).timestamp())
    return whole * 1_000_000_000 + at.microsecond * 1000
