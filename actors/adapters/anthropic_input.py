"""A conversation as Messages take it: users and assistants in turn, each message a row of blocks.

Results and inputs that follow each other are blocks of one message, results first, which is the
order they have in a conversation. Blocks of text that say nothing are not taken there, and are
left out.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
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
from .carrying import own_parts, pieces_of

Block = dict[str, Any]

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOTHING = {"type": "text", "text": "(nothing)"}


def messages_input(messages: Sequence[Message], by: str) -> list[dict[str, Any]]:
    """All messages. ``by`` is the model whose own parts are sent along.

    Raises ``ModelRefused`` for content that there is no place for.
    """
    sent: list[dict[str, Any]] = []
    names = _CallNames()
    for message in messages:
        match message:
            case UserMessage(content=content):
                _add(sent, "user", list(_blocks(content)) or [_NOTHING])
            case ToolMessage():
                _add(sent, "user", [_result(message, names.answered(message.call_id))])
            case AssistantMessage():
                _add(sent, "assistant", list(_answered(message, own_parts(message, by), names)))
    return sent


class _CallNames:
    """The ids of calls, as they are sent: those that are not taken there, or came up before, are
    numbered."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._open: list[tuple[str, str]] = []

    def asked(self, call_id: str) -> str:
        name, number = call_id, len(self._given)
        while name in self._given or not _ID.fullmatch(name):
            name, number = f"call_{number}", number + 1
        self._given.add(name)
        self._open.append((call_id, name))
        return name

    def answered(self, call_id: str) -> str:
        """The name of the first call of that id without a result."""
        place = next(at for at, (asked, _) in enumerate(self._open) if asked == call_id)
        return self._open.pop(place)[1]


def _add(sent: list[dict[str, Any]], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if sent and sent[-1]["role"] == role:
        sent[-1]["content"] += blocks
    else:
        sent.append({"role": role, "content": blocks})


def _answered(
    message: AssistantMessage, own: list[Mapping[str, Any]], names: _CallNames
) -> Iterator[Block]:
    pieces = pieces_of(message.text, own)
    if pieces is None:
        yield from _text(message.text)
    calls = list(message.tool_calls)
    for part in own:
        match part:
            case {"block": dict() as block}:
                yield dict(block)
            case {"text": dict() as fields} if pieces is not None:
                yield from _text(pieces.pop(0), fields)
            case {"call": str() as name} if calls and calls[0].name == name:
                call = calls.pop(0)
                yield _call(names.asked(call.id), call.name, call.arguments)
            case _:
                pass
    for call in calls:
        yield _call(names.asked(call.id), call.name, call.arguments)


def _call(call_id: str, name: str, arguments: Mapping[str, Any]) -> Block:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def _result(message: ToolMessage, call_id: str) -> Block:
    content = message.content
    told = content if isinstance(content, str) else list(_blocks(content))
    sent = {"type": "tool_result", "tool_use_id": call_id, "content": told}
    return sent if message.outcome == "ok" else {**sent, "is_error": True}


def _blocks(content: Content) -> Iterator[Block]:
    if isinstance(content, str):
        yield from _text(content)
        return
    for part in content:
        match part:
            case TextPart(text=text):
                yield from _text(text)
            case ImagePart():
                yield {"type": "image", "source": _source(part)}
            case FilePart():
                block = {"type": "document", "source": _document(part)}
                yield {**block, "title": part.name} if part.name else block


def _text(text: str, fields: Mapping[str, Any] | None = None) -> Iterator[Block]:
    if text.strip():
        yield {**(fields or {}), "type": "text", "text": text}


def _source(part: ImagePart | FilePart) -> Block:
    if part.url:
        return {"type": "url", "url": part.url}
    encoded = b64encode(part.data).decode()
    return {"type": "base64", "media_type": part.media_type, "data": encoded}


def _document(part: FilePart) -> Block:
    if part.url or part.media_type == "application/pdf":
        return _source(part)
    if not part.media_type.startswith("text/") and part.media_type != "application/json":
        raise ModelRefused(
            f"Messages take PDF and text as files, not {part.media_type!r}: let a tool read it"
        )
    return {"type": "text", "media_type": "text/plain", "data": part.data.decode(errors="replace")}
