"""Messages in OpenAI chat format, both ways.

What the format has no words for, such as how a call ended, stands beside it under ``turnstream``,
and only where it would be lost otherwise: what is written and read again is the same.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, cast, get_args

from msgspec import convert, to_builtins

from ..events.frozen import thawed
from ..events.messages import (
    AssistantMessage,
    Content,
    FilePart,
    ImagePart,
    Message,
    Outcome,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ..events.rendering import render
from ..events.tagged import tag, untag
from .models import exact_call, parsed_call

OURS = "turnstream"

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,([A-Za-z0-9+/=]+)")


def written_message(message: Message) -> dict[str, Any]:
    """A message as the format has it."""
    match message:
        case UserMessage(content=content):
            return {"role": "user", "content": written_content(content)}
        case AssistantMessage(text=text, tool_calls=calls, parts=parts):
            found: dict[str, Any] = {"role": "assistant", "content": text}
            if calls:
                found["content"] = text or None
                found["tool_calls"] = list(map(written_call, calls))
            if parts:
                found[OURS] = {"parts": tag(list(parts))}
            return found
        case ToolMessage(call_id=call_id, content=content, outcome=outcome):
            found = {
                "role": "tool",
                "tool_call_id": call_id,
                "content": written_content(content),
            }
            return found if outcome == "ok" else found | {OURS: {"outcome": outcome}}


def written_content(content: Content) -> str | list[dict[str, Any]]:
    """Content as the format has it."""
    return content if isinstance(content, str) else list(map(_written_part, content))


def written_call(call: ToolCall) -> dict[str, Any]:
    """A call as the format has it: its arguments as JSON text, malformed ones as they came."""
    text = call.malformed or json_object(call.arguments)
    found: dict[str, Any] = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": text},
    }
    if not is_exact(call, text):
        found[OURS] = written_exactly(call)
    return found


def written_exactly(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call, whatever they are."""
    return {"arguments": tag(call.arguments), "malformed": call.malformed}


def is_exact(call: ToolCall, text: str) -> bool:
    """Whether the call itself is read from this text as its arguments, and nothing that only
    equals it, as 1 does 1.0."""
    read = parsed_call(call.id, call.name, text)
    one, other = (json.dumps(tag(each.arguments)) for each in (call, read))
    return one == other and call.malformed == read.malformed


def json_object(arguments: Mapping[str, Any]) -> str:
    """Arguments as the text of a strict JSON object, in which what JSON has no word for is text."""
    try:
        return json.dumps(thawed(arguments), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return str(render(thawed(arguments)))


def read_answer(message: Mapping[str, Any]) -> AssistantMessage:
    """An assistant's message. Raises ``LookupError``, ``TypeError``, ``ValueError`` and the like
    where it is not of the format."""
    ours = message.get(OURS) or {}
    return AssistantMessage(
        plain_text(message.get("content")),
        tuple(map(read_call, message.get("tool_calls") or ())),
        tuple(untag(ours.get("parts") or [])),
    )


def read_outcome(message: Mapping[str, Any]) -> Outcome:
    """How a call ended; ``ok`` where nothing is said. ``ValueError`` for what is no outcome."""
    outcome = (message.get(OURS) or {}).get("outcome", "ok")
    if outcome not in get_args(Outcome):
        raise ValueError(f"{outcome!r} is no outcome of a call")
    return cast(Outcome, outcome)


def read_call(call: Mapping[str, Any]) -> ToolCall:
    """A call of an assistant's message."""
    function = call["function"]
    if OURS in call:
        return read_exactly(call["id"], function["name"], call[OURS])
    return parsed_call(call["id"], function["name"], function.get("arguments") or "")


def read_exactly(call_id: str, name: str, ours: Mapping[str, Any]) -> ToolCall:
    """The call whose arguments ``written_exactly`` wrote."""
    return exact_call(call_id, name, untag(ours["arguments"]), ours["malformed"])


def read_content(content: Any) -> Content:
    """The content of a message."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list() | tuple():
            return tuple(map(_read_part, content))
    raise TypeError(f"content is text or a list of parts, not {type(content).__name__}")


def plain_text(content: Any) -> str:
    """What is text of the content of a message."""
    given = read_content(content)
    return given if isinstance(given, str) else text_of(given)


def text_of(parts: Iterable[Part]) -> str:
    """What is text of some parts."""
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def data_url(media_type: str, data: bytes) -> str:
    """Data as an address that holds it."""
    return f"data:{media_type};base64,{b64encode(data).decode()}"


def read_data_url(url: str) -> tuple[str, bytes] | None:
    """The media type and the data of an address that ``data_url`` could have made."""
    if (found := _DATA_URL.fullmatch(url)) is None:
        return None
    try:
        data = b64decode(found[2], validate=True)
    except ValueError:
        return None
    return (found[1], data) if data and data_url(found[1], data) == url else None


def _written_part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart(media_type=kind, url=url, data=data):
            found: dict[str, Any] = {
                "type": "image_url",
                "image_url": {"url": url or data_url(kind, data)},
            }
        case FilePart(name=name, media_type=kind, url=url, data=data):
            file = {"filename": name, "file_data": url or data_url(kind, data)}
            found = {"type": "file", "file": file}
    return found if _read_part(found) == part else found | {OURS: to_builtins(part)}


def _read_part(part: Mapping[str, Any]) -> Part:
    match part:
        case {"turnstream": ours}:
            found: Part = convert(ours, Part)
            return found
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            if held := read_data_url(url):
                return ImagePart(held[0], data=held[1])
            return ImagePart(url=url)
        case {"type": "file", "file": {"filename": str(name), "file_data": str(url)}}:
            if held := read_data_url(url):
                return FilePart(name, held[0], data=held[1])
            return FilePart(name, url=url)
    raise ValueError(f"a part of type {part.get('type')!r} can't be imported")
