"""A conversation as the Responses API takes it: a list of items.

What one of its own answers consisted of is told by the parts of that message, in order: items
that go back as they came, and the places of its text and of its calls between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...events.messages import (
    AssistantMessage,
    Content,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from .carrying import address, arguments_text, own_parts, pieces_of


def responses_input(messages: Sequence[Message], by: str) -> list[dict[str, Any]]:
    """All messages as items. ``by`` is the model whose own parts are sent along."""
    items: list[dict[str, Any]] = []
    for message in messages:
        match message:
            case UserMessage(content=content):
                items.append({"role": "user", "content": _content(content)})
            case ToolMessage(call_id=call_id, content=content):
                output = _content(content)
                items.append({"type": "function_call_output", "call_id": call_id, "output": output})
            case AssistantMessage():
                items += _answered(message, own_parts(message, by))
    return items


def _answered(message: AssistantMessage, own: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    pieces = pieces_of(message.text, own)
    if pieces is None and message.text:
        yield {"role": "assistant", "content": message.text}
    calls = list(message.tool_calls)
    for part in own:
        match part:
            case {"item": dict() as item}:
                yield dict(item)
            case {"message": dict() as fields} if pieces is not None:
                yield _text_item(fields, pieces.pop(0))
            case {"call": dict() as fields} if calls and calls[0].name == fields.get("name"):
                yield _call_item(calls.pop(0), fields)
            case _:
                pass
    for call in calls:
        yield _call_item(call, {})


def _text_item(fields: Mapping[str, Any], text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {**fields, "type": "message", "role": "assistant", "content": content}


def _call_item(call: ToolCall, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **fields,
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments_text(call),
    }


def _content(content: Content) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else [_part(part) for part in content]


def _part(part: TextPart | ImagePart | FilePart) -> dict[str, Any]:
    match part:
        case TextPart(text=text):
            return {"type": "input_text", "text": text}
        case ImagePart():
            return {"type": "input_image", "image_url": address(part), "detail": "auto"}
        case FilePart(url=""):
            return {"type": "input_file", "filename": part.name, "file_data": address(part)}
        case FilePart(url=url):
            return {"type": "input_file", "file_url": url}
