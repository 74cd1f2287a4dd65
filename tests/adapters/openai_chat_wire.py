"""Chat Completions, as the server speaks them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from openai_errors import ERRORS, openai_fault
from reading_openai import call_of, data_part, schema_of
from reading_words import asked_in_words
from saying import Heard, Kind, Said, pieces

from turnstream.actors.adapters import OpenAIChat
from turnstream.events import (
    AssistantMessage,
    Content,
    FilePart,
    Message,
    Part,
    TextPart,
    ToolMessage,
    Usage,
    UserMessage,
)


class OpenAIChatWire:
    name = "openai"
    path = "/v1/chat/completions"
    key_header = "authorization"

    def model(self, url: str, **options: Any) -> OpenAIChat:
        options = {"api_key": "sk-none", **options}
        return OpenAIChat("small", base_url=f"{url}/v1", **options)

    def environment(self, url: str, key: str) -> dict[str, str]:
        return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": key}

    def answer(self, said: Said) -> list[bytes]:
        return [_framed(_chunk(each)) for each in _deltas(said)] + [
            _framed(_chunk({}, _finish(said))),
            _framed({**_chunk({}), "choices": [], "usage": usage(said.usage)}),
            b"data: [DONE]\n\n",
        ]

    def fault(self, kind: Kind, key: str) -> tuple[int, dict[str, Any]]:
        return openai_fault(kind, key)

    def fault_inside(self, kind: Kind) -> bytes:
        return _framed({"error": ERRORS[kind][1]})

    def heard(self, body: dict[str, Any]) -> Heard:
        assert body["stream"] is True
        instructions, messages, seals, words = "", [], [], None
        names: dict[str, str] = {}
        for message in body["messages"]:
            if message["role"] == "system":
                instructions, words = asked_in_words(message["content"])
                continue
            messages.append(_message(message, names))
            details = message.get("reasoning_details", ())
            seals += [each["data"] for each in details if each["type"] == "reasoning.encrypted"]
        return Heard(
            tuple(messages),
            instructions,
            tuple(_tool_name(each) for each in body.get("tools", ())),
            tuple(seals),
            _output(body) or words,
        )


def _deltas(said: Said) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "", "refusal": None}
    for piece in pieces(said.thought):
        yield {"reasoning_content": piece}
    if said.seal:
        entry = {"type": "reasoning.encrypted", "data": said.seal, "index": 0, "format": "odd"}
        yield {"reasoning_details": [entry]}
    field = "refusal" if said.finish == "refusal" else "content"
    for piece in pieces(said.text):
        yield {field: piece}
    for index, call in enumerate(said.calls):
        function = {"name": call.name, "arguments": ""}
        yield {
            "tool_calls": [
                {"index": index, "id": call.id, "type": "function"} | {"function": function}
            ]
        }
    for index, call in enumerate(said.calls):
        for piece in pieces(call.malformed or json.dumps(call.arguments)):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _finish(said: Said) -> str:
    if said.finish == "length":
        return "length"
    return "tool_calls" if said.calls else "stop"


def usage(used: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.total_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_input_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


def _chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "small-2026-01-01",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
        "usage": None,
    }


def _framed(chunk: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()


def _message(message: dict[str, Any], names: dict[str, str]) -> Message:
    match message:
        case {"role": "user", "content": content}:
            return UserMessage(_content(content))
        case {"role": "assistant", "content": text}:
            calls = tuple(
                call_of(each["id"], each["function"]) for each in message.get("tool_calls", ())
            )
            assert text is not None or calls
            names.update({each.id: each.name for each in calls})
            return AssistantMessage(text or "", calls)
        case {"role": "tool", "tool_call_id": call_id, "content": content}:
            return ToolMessage(call_id, names[call_id], _content(content))
    raise AssertionError(f"a message of role {message['role']}")


def _content(content: str | list[dict[str, Any]]) -> Content:
    return content if isinstance(content, str) else tuple(map(_part, content))


def _part(part: dict[str, Any]) -> Part:
    match part:
        case {"type": "text", "text": text}:
            return TextPart(text)
        case {"type": "image_url", "image_url": {"url": url}}:
            return data_part(url)
        case {"type": "file", "file": {"filename": name, "file_data": url}}:
            return data_part(url, name)
        case {"type": "input_audio", "input_audio": {"data": sound, "format": form}}:
            kind = {"wav": "audio/wav", "mp3": "audio/mpeg"}[form]
            return FilePart("", kind, url=f"data:{kind};base64,{sound}")
    raise AssertionError(f"a part of type {part['type']}")


def _tool_name(tool: dict[str, Any]) -> str:
    assert tool["type"] == "function" and tool["function"]["parameters"]["type"] == "object"
    name: str = tool["function"]["name"]
    return name


def _output(body: dict[str, Any]) -> Mapping[str, Any] | None:
    if "response_format" not in body:
        return None
    assert body["response_format"]["type"] == "json_schema"
    return schema_of(body["response_format"]["json_schema"])
