"""An answer of the Responses API, put together from its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...events.messages import NO_USAGE, ModelTurn, ToolCall, Usage
from ..models import Delta, ReasoningDelta, TextDelta, ToolCallDelta, parsed_call
from .carrying import own_part
from .counting import whole

_THOUGHTS = {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
_ENDS = {"response.completed", "response.incomplete", "response.failed"}


class ResponsesAnswer:
    """One answer in the making. What is neither text nor a call is kept, for ``by``."""

    def __init__(self, by: str) -> None:
        self._by = by
        self._items: dict[int, Mapping[str, Any]] = {}
        self._response: Mapping[str, Any] | None = None
        self.error: object = None

    @property
    def is_whole(self) -> bool:
        """Whether the server said that it ended."""
        return self._response is not None

    def take(self, event: Mapping[str, Any]) -> Iterator[Delta | Usage]:
        """Add an event; what of it is to be shown."""
        kind, delta = event.get("type"), event.get("delta")
        if kind == "error":
            self.error = event.get("error") or event
        elif kind in _ENDS:
            yield from self._end(event)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._take_item(event)
        elif not isinstance(delta, str) or not delta:
            return
        elif kind == "response.output_text.delta":
            yield TextDelta(delta)
        elif kind in _THOUGHTS:
            yield ReasoningDelta(delta)
        elif kind == "response.function_call_arguments.delta":
            yield self._call_delta(event, delta)

    def turn(self) -> ModelTurn:
        """The whole answer."""
        texts: list[str] = []
        refusals: list[str] = []
        calls: list[ToolCall] = []
        parts: list[dict[str, Any]] = []
        for item in self._output():
            match item.get("type"):
                case "message":
                    text, refusal = _said(item)
                    texts.append(text)
                    refusals.append(refusal)
                    if text:
                        fields = _without(item, "content", "role", "type")
                        parts.append(own_part(self._by, message=fields, length=len(text)))
                case "function_call":
                    calls.append(_call(item))
                    fields = _without(item, "arguments", "call_id", "type")
                    parts.append(own_part(self._by, call=fields))
                case _:
                    parts.append(own_part(self._by, item=dict(item)))
        text, refusal = "".join(texts), "".join(refusals)
        reason = self._finish_reason(called=bool(calls), refused=bool(refusal) and not text)
        return ModelTurn(text or refusal, tuple(calls), self._usage(), reason, tuple(parts))

    def _end(self, event: Mapping[str, Any]) -> Iterator[Usage]:
        response = event.get("response")
        response = response if isinstance(response, Mapping) else {}
        self._response = response
        if isinstance(response.get("usage"), Mapping):
            yield self._usage()
        if event["type"] == "response.failed" or response.get("status") == "failed":
            self.error = response.get("error") or {}

    def _take_item(self, event: Mapping[str, Any]) -> None:
        item, index = event.get("item"), event.get("output_index")
        if isinstance(item, Mapping) and type(index) is int:
            self._items[index] = item

    def _call_delta(self, event: Mapping[str, Any], delta: str) -> ToolCallDelta:
        item = self._items.get(event.get("output_index", -1), {})
        return ToolCallDelta(str(item.get("call_id", "")), str(item.get("name", "")), delta)

    def _output(self) -> list[Mapping[str, Any]]:
        """The items of the answer. Some servers list them only as they come."""
        output = (self._response or {}).get("output")
        listed = output if isinstance(output, list) else []
        if not listed:
            listed = [self._items[index] for index in sorted(self._items)]
        return [item for item in listed if isinstance(item, Mapping)]

    def _usage(self) -> Usage:
        counts = (self._response or {}).get("usage")
        if not isinstance(counts, Mapping):
            return NO_USAGE
        return Usage(
            whole(counts, "input_tokens"),
            whole(counts, "output_tokens"),
            whole(counts, "input_tokens_details", "cached_tokens"),
            whole(counts, "output_tokens_details", "reasoning_tokens"),
        )

    def _finish_reason(self, *, called: bool, refused: bool) -> str:
        response = self._response or {}
        if response.get("status") == "incomplete":
            details = response.get("incomplete_details")
            why = details.get("reason") if isinstance(details, Mapping) else None
            return "length" if why == "max_output_tokens" else str(why or "incomplete")
        if refused:
            return "refusal"
        return "tool_calls" if called else "stop"


def _said(item: Mapping[str, Any]) -> tuple[str, str]:
    """The text of a message, and what it says instead where the model refused."""
    text, refusal = "", ""
    content = item.get("content")
    for piece in content if isinstance(content, list) else ():
        match piece:
            case {"type": "output_text", "text": str() as more}:
                text += more
            case {"type": "refusal", "refusal": str() as more}:
                refusal += more
            case _:
                pass
    return text, refusal


def _call(item: Mapping[str, Any]) -> ToolCall:
    arguments = item.get("arguments")
    arguments = arguments if isinstance(arguments, str) else ""
    return parsed_call(str(item.get("call_id") or ""), str(item.get("name") or ""), arguments)


def _without(item: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in fields}
