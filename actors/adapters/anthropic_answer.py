"""An answer of Messages, put together from its events.

An answer is a row of blocks. Its text and its calls are the turn's; how they lay between its
other blocks, and what else these hold, is kept as the model's own parts, in that order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...events.messages import ModelTurn, ToolCall, Usage
from ..models import Delta, ReasoningDelta, TextDelta, ToolCallDelta, parsed_call
from .carrying import joined, own_part
from .counting import whole

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_GROWING = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


class _Block:
    """A block as it began, and the texts that its fields grow by."""

    def __init__(self, begun: Mapping[str, Any]) -> None:
        self.begun = begun
        self.kind = begun.get("type")
        self.pieces: dict[str, list[str]] = {}
        self.citations: list[Any] = []

    def grown(self, field: str) -> str:
        begun = self.begun.get(field)
        return joined([begun if isinstance(begun, str) else "", *self.pieces.get(field, ())])

    def as_it_came(self) -> dict[str, Any]:
        """The whole block, as it is to be sent back."""
        block = dict(self.begun)
        block |= {field: self.grown(field) for field in self.pieces if field != "partial_json"}
        if "partial_json" in self.pieces:
            block["input"] = parsed_call("", "", self.grown("partial_json")).arguments
        return block


class MessagesAnswer:
    """One answer in the making. What is neither text nor a call is kept, for ``by``."""

    def __init__(self, by: str) -> None:
        self._by = by
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, Any] = {}
        self._reason = ""
        self.is_whole: bool = False

    def take(self, event: Mapping[str, Any]) -> Iterator[Delta | Usage]:
        """Add an event; what of it is to be shown."""
        match event:
            case {"type": "message_start", "message": {"usage": dict() as counts}}:
                yield self._count(counts)
            case {
                "type": "content_block_start",
                "index": int() as index,
                "content_block": dict() as begun,
            }:
                self._blocks[index] = _Block(begun)
                if isinstance(text := begun.get("text"), str) and text:
                    yield TextDelta(text)
            case {"type": "content_block_delta", "index": int() as index, "delta": dict() as delta}:
                if (block := self._blocks.get(index)) is not None:
                    yield from _grow(block, delta)
            case {"type": "message_delta"}:
                yield from self._take_end(event)
            case {"type": "message_stop"}:
                self.is_whole = bool(self._reason)
            case _:
                pass

    def turn(self) -> ModelTurn:
        """The whole answer."""
        texts: list[str] = []
        calls: list[ToolCall] = []
        parts: list[dict[str, Any]] = []
        for _, block in sorted(self._blocks.items()):
            match block.kind:
                case "text":
                    texts.append(text := block.grown("text"))
                    fields = {"citations": block.citations} if block.citations else {}
                    parts.append(own_part(self._by, text=fields, length=len(text)))
                case "tool_use":
                    calls.append(call := _call(block))
                    parts.append(own_part(self._by, call=call.name))
                case _:
                    parts.append(own_part(self._by, block=block.as_it_came()))
        if all("block" not in part and not part.get("text") for part in parts):
            parts = []
        reason = _REASONS.get(self._reason, self._reason)
        return ModelTurn("".join(texts), tuple(calls), self._usage(), reason, tuple(parts))

    def _take_end(self, event: Mapping[str, Any]) -> Iterator[Usage]:
        match event.get("delta"):
            case {"stop_reason": str() as reason}:
                self._reason = reason
            case _:
                pass
        if isinstance(counts := event.get("usage"), Mapping):
            yield self._count(counts)

    def _count(self, counts: Mapping[str, Any]) -> Usage:
        """Counts are of the whole answer so far; those that are left out stand as they were."""
        self._counts |= {name: count for name, count in counts.items() if count is not None}
        return self._usage()

    def _usage(self) -> Usage:
        """What is read from a cache, or written to one, is not among the input tokens there."""
        cached = whole(self._counts, "cache_read_input_tokens")
        written = whole(self._counts, "cache_creation_input_tokens")
        return Usage(
            whole(self._counts, "input_tokens") + cached + written,
            whole(self._counts, "output_tokens"),
            cached,
            whole(self._counts, "output_tokens_details", "thinking_tokens"),
        )


def _grow(block: _Block, delta: Mapping[str, Any]) -> Iterator[Delta]:
    if delta.get("type") == "citations_delta":
        block.citations.append(delta.get("citation"))
        return
    field = _GROWING.get(str(delta.get("type")), "")
    piece = delta.get(field)
    if not isinstance(piece, str):
        return
    block.pieces.setdefault(field, []).append(piece)
    if not piece:
        return
    match field:
        case "text":
            yield TextDelta(piece)
        case "thinking":
            yield ReasoningDelta(piece)
        case "partial_json" if block.kind == "tool_use":
            yield ToolCallDelta(
                str(block.begun.get("id", "")), str(block.begun.get("name", "")), piece
            )
        case _:
            pass


def _call(block: _Block) -> ToolCall:
    text = block.grown("partial_json")
    begun = block.begun.get("input")
    if not text and isinstance(begun, Mapping) and begun:
        text = json.dumps(begun)
    return parsed_call(str(block.begun.get("id") or ""), str(block.begun.get("name") or ""), text)
