"""An answer of Chat Completions, put together from its chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...events.messages import NO_USAGE, ModelTurn, Usage
from ..models import Delta, ReasoningDelta, TextDelta, ToolCallDelta, parsed_call
from .carrying import joined, own_part
from .counting import whole

_KNOWN = {"role", "content", "refusal", "tool_calls", "function_call"}
_NOT_SENT_BACK = {"annotations", "audio"}
_REASONING = ("reasoning_content", "reasoning")


class _Call:
    def __init__(self) -> None:
        self.id = self.name = ""
        self.arguments: list[str] = []
        self.own: dict[str, Any] = {}


class ChatAnswer:
    """One answer in the making. What a server adds to the format is kept, for ``by``."""

    def __init__(self, by: str) -> None:
        self._by = by
        self._text: list[str] = []
        self._refusal = self._reason = ""
        self._own: dict[str, Any] = {}
        self._calls: list[_Call] = []
        self._places: dict[int, _Call] = {}
        self._usage = NO_USAGE

    @property
    def is_whole(self) -> bool:
        """Whether the server said that it ended."""
        return bool(self._reason)

    def take(self, chunk: Mapping[str, Any]) -> Iterator[Delta | Usage]:
        """Add a chunk; what of it is to be shown."""
        for choice in _objects(chunk.get("choices")):
            if choice.get("index") in (0, None):
                delta = choice.get("delta")
                yield from self._take_delta(delta if isinstance(delta, Mapping) else {})
                if isinstance(reason := choice.get("finish_reason"), str):
                    self._reason = reason
        if isinstance(counts := chunk.get("usage"), Mapping):
            self._usage = chat_usage(counts)
            yield self._usage

    def turn(self) -> ModelTurn:
        """The whole answer."""
        calls = [parsed_call(each.id, each.name, joined(each.arguments)) for each in self._calls]
        text = joined(self._text)
        refused = self._refusal and not text
        return ModelTurn(
            text or self._refusal,
            tuple(calls),
            self._usage,
            "refusal" if refused else self._finish_reason(),
            self._parts(),
        )

    def _finish_reason(self) -> str:
        called = self._calls and self._reason in ("stop", "function_call")
        return "tool_calls" if called else self._reason

    def _parts(self) -> tuple[dict[str, Any], ...]:
        fields: dict[str, Any] = {"message": self._own} if self._own else {}
        if any(each.own for each in self._calls):
            fields["calls"] = [each.own for each in self._calls]
        return (own_part(self._by, **fields),) if fields else ()

    def _take_delta(self, delta: Mapping[str, Any]) -> Iterator[Delta]:
        for field in _REASONING:
            if isinstance(thought := delta.get(field), str) and thought:
                yield ReasoningDelta(thought)
                break
        for field, value in delta.items():
            if field not in _KNOWN | _NOT_SENT_BACK and value is not None:
                self._own[field] = _joined(self._own.get(field), value)
        if isinstance(text := delta.get("content"), str) and text:
            self._text.append(text)
            yield TextDelta(text)
        if isinstance(refusal := delta.get("refusal"), str):
            self._refusal += refusal
        for fragment in _objects(delta.get("tool_calls")):
            yield self._take_call(fragment)

    def _take_call(self, fragment: Mapping[str, Any]) -> ToolCallDelta:
        call = self._call_of(fragment)
        function = fragment.get("function")
        function = function if isinstance(function, Mapping) else {}
        name, arguments = function.get("name"), function.get("arguments")
        call.name = call.name or (name if isinstance(name, str) else "")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        call.arguments.append(arguments)
        for field, value in fragment.items():
            if field not in ("index", "id", "type", "function") and value is not None:
                call.own[field] = _joined(call.own.get(field), value)
        return ToolCallDelta(call.id, call.name, arguments)

    def _call_of(self, fragment: Mapping[str, Any]) -> _Call:
        """The call that a fragment is of. Some servers give no index, or the same one to all."""
        index, call_id = fragment.get("index"), fragment.get("id")
        call_id = call_id if isinstance(call_id, str) else ""
        place = index if type(index) is int else self._place_of(call_id)
        call = self._places.get(place)
        if call is None or (call_id and call.id and call_id != call.id):
            call = self._places[place] = _Call()
            self._calls.append(call)
        call.id = call.id or call_id
        return call

    def _place_of(self, call_id: str) -> int:
        """Where a fragment without an index belongs: to the call with its id, or to the last."""
        if not call_id:
            return max(len(self._places) - 1, 0)
        known = [place for place, each in self._places.items() if each.id == call_id]
        return known[-1] if known else len(self._places)


def chat_usage(counts: Mapping[str, Any]) -> Usage:
    """Tokens as Chat Completions count them: cached and reasoning tokens are contained."""
    return Usage(
        whole(counts, "prompt_tokens"),
        whole(counts, "completion_tokens"),
        whole(counts, "prompt_tokens_details", "cached_tokens"),
        whole(counts, "completion_tokens_details", "reasoning_tokens"),
    )


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _joined(sofar: Any, more: Any) -> Any:
    """A field that comes in pieces: text and lists grow, and pieces of a list with one index are
    one. Of anything else the last holds."""
    if isinstance(sofar, str) and isinstance(more, str):
        return sofar + more
    if isinstance(sofar, dict) and isinstance(more, dict):
        return {**sofar, **{key: _joined_field(key, sofar.get(key), more[key]) for key in more}}
    if isinstance(more, list):
        return _joined_list(sofar if isinstance(sofar, list) else [], more)
    return more


_NAMES = {"type", "id", "index", "format", "signature"}


def _joined_field(key: str, sofar: Any, more: Any) -> Any:
    if more is None:
        return sofar
    return more if key in _NAMES else _joined(sofar, more)


def _joined_list(sofar: list[Any], more: list[Any]) -> list[Any]:
    joined = list(sofar)
    for piece in more:
        same = [at for at, each in enumerate(joined) if _is_continued(each, piece)]
        if same:
            joined[same[-1]] = _joined(joined[same[-1]], piece)
        else:
            joined.append(piece)
    return joined


def _is_continued(entry: object, piece: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(piece, dict) or "index" not in piece:
        return False
    kinds = entry.get("type"), piece.get("type") or entry.get("type")
    return bool(entry.get("index") == piece["index"] and kinds[0] == kinds[1])
