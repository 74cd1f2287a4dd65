"""The Responses API, as the server speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from openai_errors import ERRORS, openai_fault
from reading_openai import call_of, data_part, schema_of
from reading_words import asked_in_words
from saying import Heard, Kind, Said, pieces

from turnstream.actors.adapters import OpenAIResponses
from turnstream.events import (
    AssistantMessage,
    Content,
    FilePart,
    Message,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

Item = dict[str, Any]


class OpenAIResponsesWire:
    name = "openai-responses"
    path = "/v1/responses"
    key_header = "authorization"

    def model(self, url: str, **options: Any) -> OpenAIResponses:
        options = {"api_key": "sk-none", **options}
        return OpenAIResponses("small", base_url=f"{url}/v1", **options)

    def environment(self, url: str, key: str) -> dict[str, str]:
        return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": key}

    def answer(self, said: Said) -> list[bytes]:
        numbers = count()
        return [_framed(next(numbers), event) for event in _events(said)]

    def fault(self, kind: Kind, key: str) -> tuple[int, dict[str, Any]]:
        return openai_fault(kind, key)

    def fault_inside(self, kind: Kind) -> bytes:
        error = ERRORS[kind][1]
        told = {"code": error["code"] or error["type"], "message": error["message"]}
        response = {**_response("failed", []), "error": told}
        return _framed(7, {"type": "response.failed", "response": response})

    def heard(self, body: dict[str, Any]) -> Heard:
        assert body["stream"] is True and body["store"] is False
        assert "reasoning.encrypted_content" in body["include"]
        instructions, words = asked_in_words(body.get("instructions", ""))
        return Heard(
            tuple(_messages(body["input"])),
            instructions,
            tuple(_tool_name(each) for each in body.get("tools", ())),
            tuple(
                each["encrypted_content"] for each in body["input"] if _type(each) == "reasoning"
            ),
            _output(body) or words,
        )


def _events(said: Said) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": _response("in_progress", [])}
    items: list[Item] = []
    for item, events in _items(said):
        place = {"output_index": len(items), "item_id": item["id"]}
        begun = {**item, "status": "in_progress"} if "status" in item else item
        for field in ("content", "arguments", "summary"):
            if field in item:
                begun = {**begun, field: type(item[field])()}
        yield {"type": "response.output_item.added", **place, "item": begun}
        for event in events:
            yield {**place, **event}
        yield {"type": "response.output_item.done", **place, "item": item}
        items.append(item)
    status = "incomplete" if said.finish == "length" else "completed"
    response = {**_response(status, items), "usage": usage(said.usage)}
    if status == "incomplete":
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    yield {"type": f"response.{status}", "response": response}


def _items(said: Said) -> Iterator[tuple[Item, list[dict[str, Any]]]]:
    if said.thought or said.seal:
        summary = [{"type": "summary_text", "text": said.thought}]
        item = {"type": "reasoning", "id": f"rs_{said.seal}", "summary": summary}
        yield (
            {**item, "encrypted_content": said.seal},
            [
                {
                    "type": "response.reasoning_summary_text.delta",
                    "summary_index": 0,
                    "delta": piece,
                }
                for piece in pieces(said.thought)
            ],
        )
    if said.text:
        field, kind = ("refusal",) * 2 if said.finish == "refusal" else ("text", "output_text")
        content: Item = {"type": kind, field: said.text}
        if kind == "output_text":
            content |= {"annotations": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        yield (
            {**message, "content": [content]},
            [
                {"type": f"response.{kind}.delta", "content_index": 0, "delta": piece}
                for piece in pieces(said.text)
            ],
        )
    for call in said.calls:
        arguments = call.malformed or json.dumps(call.arguments)
        function = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id}
        yield (
            {**function, "name": call.name, "arguments": arguments, "status": "completed"},
            [
                {"type": "response.function_call_arguments.delta", "delta": piece}
                for piece in pieces(arguments)
            ],
        )


def usage(used: Usage) -> dict[str, Any]:
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_input_tokens},
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        "total_tokens": used.total_tokens,
    }


def _response(status: str, output: list[Item]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "small-2026-01-01",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": output,
        "usage": None,
    }


def _framed(number: int, event: Mapping[str, Any]) -> bytes:
    text = json.dumps({**event, "sequence_number": number})
    return f"event: {event['type']}\ndata: {text}\n\n".encode()


def _type(item: Item) -> str:
    return str(item.get("type", "message"))


_OF_OTHERS = ("message", "function_call_output")


def _messages(items: list[Item]) -> Iterator[Message]:
    """One message for all that the model said between two others."""
    names: dict[str, str] = {}
    text, calls = "", list[ToolCall]()
    said = False
    for item in items:
        if _type(item) not in _OF_OTHERS or item.get("role") == "assistant":
            said = True
            text += _text(item)
            if _type(item) == "function_call":
                calls.append(call_of(item["call_id"], item))
                names[item["call_id"]] = item["name"]
            continue
        if said:
            yield AssistantMessage(text, tuple(calls))
        text, calls, said = "", [], False
        if _type(item) == "function_call_output":
            yield ToolMessage(item["call_id"], names[item["call_id"]], _content(item["output"]))
        else:
            assert item["role"] == "user"
            yield UserMessage(_content(item["content"]))
    if said:
        yield AssistantMessage(text, tuple(calls))


def _text(item: Item) -> str:
    if _type(item) != "message":
        return ""
    content = item["content"]
    if isinstance(content, str):
        return content
    assert item["id"] and {each["type"] for each in content} == {"output_text"}
    return "".join(each["text"] for each in content)


def _content(content: str | list[dict[str, Any]]) -> Content:
    return content if isinstance(content, str) else tuple(map(_part, content))


def _part(part: dict[str, Any]) -> Part:
    match part:
        case {"type": "input_text", "text": text}:
            return TextPart(text)
        case {"type": "input_image", "image_url": url}:
            return data_part(url)
        case {"type": "input_file", "filename": name, "file_data": url}:
            return data_part(url, name)
        case {"type": "input_file", "file_url": url}:
            return FilePart("", url=url)
    raise AssertionError(f"a part of type {part['type']}")


def _tool_name(tool: dict[str, Any]) -> str:
    assert tool["type"] == "function" and tool["parameters"]["type"] == "object"
    name: str = tool["name"]
    return name


def _output(body: dict[str, Any]) -> Mapping[str, Any] | None:
    if "text" not in body:
        return None
    assert body["text"]["format"]["type"] == "json_schema"
    return schema_of(body["text"]["format"])
