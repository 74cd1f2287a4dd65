"""A conversation as Chat Completions take it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...events.errors import ModelRefused
from ...events.messages import (
    AssistantMessage,
    Content,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ToolMessage,
    UserMessage,
)
from .carrying import address, arguments_text, own_parts

_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def chat_messages(instructions: str, messages: Iterable[Message], by: str) -> list[dict[str, Any]]:
    """The instructions and all messages. ``by`` is the model whose own parts are sent along.

    Raises ``ModelRefused`` for content that there is no place for.
    """
    system = [{"role": "system", "content": instructions}] if instructions else []
    return [*system, *(_message(each, by) for each in messages)]


def _message(message: Message, by: str) -> dict[str, Any]:
    match message:
        case UserMessage(content=content):
            return {"role": "user", "content": _said(content)}
        case ToolMessage(call_id=call_id, content=content):
            return {"role": "tool", "tool_call_id": call_id, "content": _result(message, content)}
        case AssistantMessage():
            return _answered(message, by)


def _answered(message: AssistantMessage, by: str) -> dict[str, Any]:
    calls: list[dict[str, Any]] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call)},
        }
        for call in message.tool_calls
    ]
    sent: dict[str, Any] = {"role": "assistant", "content": message.text}
    for part in own_parts(message, by):
        sent = {**part.get("message", {}), **sent}
        for place, fields in zip(calls, part.get("calls", ()), strict=False):
            place.update({**fields, **place})
    if calls:
        sent |= {"content": message.text or None, "tool_calls": calls}
    return sent


def _said(content: Content) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else [_part(part) for part in content]


def _part(part: TextPart | ImagePart | FilePart) -> dict[str, Any]:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart():
            return {"type": "image_url", "image_url": {"url": address(part)}}
        case FilePart(url="") if part.media_type in _SOUNDS:
            _, _, sound = address(part).partition(",")
            form = _SOUNDS[part.media_type]
            return {"type": "input_audio", "input_audio": {"data": sound, "format": form}}
        case FilePart(url=""):
            file = {"filename": part.name, "file_data": address(part)}
            return {"type": "file", "file": file}
        case _:
            raise ModelRefused(
                "Chat Completions take no file by its address: give its content as data=, or use "
                "an OpenAIResponses model"
            )


def _result(message: ToolMessage, content: Content) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    if not all(isinstance(part, TextPart) for part in content):
        raise ModelRefused(
            f"Chat Completions take only text from a tool, and call {message.call_id!r} of "
            f"{message.name!r} answered with an image or a file: use an OpenAIResponses model",
            call_id=message.call_id,
        )
    return [_part(part) for part in content]
