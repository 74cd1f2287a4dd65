"""Messages, as Anthropic's server speaks them."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from reading_words import asked_in_words
from saying import Heard, Kind, Said, pieces

from turnstream.actors.adapters import AnthropicMessages
from turnstream.events import (
    AssistantMessage,
    Content,
    FilePart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

Block = dict[str, Any]

_ERRORS: dict[Kind, tuple[int, str, str]] = {
    "rate-limited": (429, "rate_limit_error", "This request would exceed your rate limit"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "broken": (500, "api_error", "Internal server error"),
    "too-long": (
        400,
        "invalid_request_error",
        "prompt is too long: 201 tokens > 200 maximum",
    ),
    "wrong-key": (401, "authentication_error", "invalid x-api-key KEY"),
    "unknown-model": (404, "not_found_error", "model: small"),
    "invalid": (400, "invalid_request_error", "messages.0: Input should be KEY"),
    "used-up": (402, "billing_error", "Your credit balance is too low"),
}
_STOPS = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}


class AnthropicWire:
    name = "anthropic"
    path = "/v1/messages"
    key_header = "authorization"

    def model(self, url: str, **options: Any) -> AnthropicMessages:
        options = {"api_key": "sk-none", **options}
        return AnthropicMessages("small", base_url=url, **options)

    def environment(self, url: str, key: str) -> dict[str, str]:
        return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key}

    def answer(self, said: Said) -> list[bytes]:
        return [framed(each) for each in _events(said)]

    def fault(self, kind: Kind, key: str) -> tuple[int, dict[str, Any]]:
        status, error, message = _ERRORS[kind]
        told = {"type": error, "message": message.replace("KEY", key)}
        return status, {"type": "error", "error": told, "request_id": "req_1"}

    def fault_inside(self, kind: Kind) -> bytes:
        return framed(self.fault(kind, "")[1])

    def heard(self, body: dict[str, Any]) -> Heard:
        assert body["stream"] is True and body["max_tokens"] > 0
        roles = [each["role"] for each in body["messages"]]
        assert roles[0] == "user" and all(a != b for a, b in pairwise(roles))
        blocks = [each for message in body["messages"] for each in message["content"]]
        ids = [each["id"] for each in blocks if each["type"] == "tool_use"]
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch("[a-zA-Z0-9_-]+", each) for each in ids)
        assert all(each["text"].strip() for each in blocks if each["type"] == "text")
        instructions, words = asked_in_words(body.get("system", ""))
        return Heard(
            tuple(_messages(body["messages"])),
            instructions,
            tuple(_tool_name(each) for each in body.get("tools", ())),
            tuple(each["signature"] for each in blocks if each["type"] == "thinking"),
            _output(body) or words,
        )


def _events(said: Said) -> Iterator[dict[str, Any]]:
    counts = usage(said.usage)
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    begun = {**message, "model": "small", "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": {**begun, "usage": {**counts, "output_tokens": 1}}}
    for index, (block, deltas) in enumerate(_blocks(said)):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    called = said.calls and said.finish == "stop"
    stop = {"stop_reason": "tool_use" if called else _STOPS[said.finish], "stop_sequence": None}
    told = {name: counts[name] for name in ("output_tokens", "output_tokens_details")}
    yield {"type": "message_delta", "delta": stop, "usage": {**told, "input_tokens": None}}
    yield {"type": "message_stop"}


def _blocks(said: Said) -> Iterator[tuple[Block, list[dict[str, Any]]]]:
    if said.thought or said.seal:
        thoughts = [{"type": "thinking_delta", "thinking": each} for each in pieces(said.thought)]
        seals = [{"type": "signature_delta", "signature": each} for each in pieces(said.seal)]
        yield {"type": "thinking", "thinking": "", "signature": ""}, thoughts + seals
    if said.text:
        texts = [{"type": "text_delta", "text": each} for each in pieces(said.text)]
        yield {"type": "text", "text": "", "citations": None}, texts
    for call in said.calls:
        arguments = call.malformed or json.dumps(call.arguments)
        yield (
            {"type": "tool_use", "id": call.id, "name": call.name, "input": {}},
            [
                {"type": "input_json_delta", "partial_json": each}
                for each in ["", *pieces("" if arguments == "{}" else arguments)]
            ],
        )


def usage(used: Usage) -> dict[str, Any]:
    """Half of what was not read from the cache is written to it."""
    fresh = used.input_tokens - used.cached_input_tokens
    return {
        "input_tokens": fresh - fresh // 2,
        "cache_creation_input_tokens": fresh // 2,
        "cache_read_input_tokens": used.cached_input_tokens,
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"thinking_tokens": used.reasoning_tokens},
    }


def framed(event: Mapping[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _messages(messages: list[dict[str, Any]]) -> Iterator[Message]:
    names: dict[str, str] = {}
    for message in messages:
        if message["role"] == "user":
            yield from _told(message["content"], names)
        else:
            yield _answered(message["content"], names)


def _answered(blocks: list[Block], names: dict[str, str]) -> AssistantMessage:
    calls = [
        ToolCall(each["id"], each["name"], each["input"])
        for each in blocks
        if each["type"] == "tool_use"
    ]
    names |= {each.id: each.name for each in calls}
    text = "".join(each["text"] for each in blocks if each["type"] == "text")
    return AssistantMessage(text, tuple(calls))


def _told(blocks: list[Block], names: dict[str, str]) -> Iterator[Message]:
    """Results come first. Texts alone are an input each, since inputs are put together."""
    inputs = [each for each in blocks if each["type"] != "tool_result"]
    assert blocks[len(blocks) - len(inputs) :] == inputs
    for block in blocks[: len(blocks) - len(inputs)]:
        call_id = block["tool_use_id"]
        yield ToolMessage(call_id, names[call_id], _content(block["content"]))
    if all(each["type"] == "text" for each in inputs):
        for block in inputs:
            yield UserMessage(block["text"])
    else:
        yield UserMessage(_content(inputs))


def _content(content: str | list[Block]) -> Content:
    return content if isinstance(content, str) else tuple(map(_part, content))


def _part(block: Block) -> Part:
    match block:
        case {"type": "text", "text": text}:
            return TextPart(text)
        case {"type": "image", "source": {"type": "url", "url": url}}:
            return ImagePart(url=url)
        case {"type": "image", "source": {"type": "base64", "media_type": kind, "data": encoded}}:
            return ImagePart(kind, data=b64decode(encoded, validate=True))
        case {"type": "document", "source": {"type": "base64", "media_type": kind} as source}:
            content = b64decode(source["data"], validate=True)
            return FilePart(block.get("title", ""), kind, data=content)
        case {"type": "document", "source": {"type": "text", "data": text}}:
            return FilePart(block.get("title", ""), "text/plain", data=text.encode())
        case {"type": "document", "source": {"type": "url", "url": url}}:
            return FilePart(block.get("title", ""), url=url)
    raise AssertionError(f"a block of type {block['type']}")


def _tool_name(tool: dict[str, Any]) -> str:
    assert tool["input_schema"]["type"] == "object"
    name: str = tool["name"]
    return name


def _output(body: dict[str, Any]) -> Mapping[str, Any] | None:
    if "output_config" not in body:
        return None
    wanted = body["output_config"]["format"]
    assert wanted["type"] == "json_schema"
    schema: Mapping[str, Any] = wanted["schema"]
    return schema
