"""Tool results made short: what a model reads of one, once it is old."""

from __future__ import annotations

import re

from msgspec.structs import replace

from ..events.messages import Content, FilePart, ImagePart, Part, TextPart, ToolMessage

_MARK = re.compile(r"\[([0-9]{1,15}) more characters were trimmed\]\Z")
_PART = re.compile(r"\[.{0,64} \(.{0,64}, [0-9]{1,15} bytes\) was trimmed\]", re.DOTALL)


def shortened(message: ToolMessage, keep_chars: int) -> ToolMessage:
    """The result with the first ``keep_chars`` characters of each text in it; the very same
    where that would not be shorter. Done again, it changes nothing."""
    content = _content(message.content, keep_chars)
    return message if content is message.content else replace(message, content=content)


def _content(content: Content, keep: int) -> Content:
    if isinstance(content, str):
        return _text(content, keep)
    parts = tuple([_part(part, keep) for part in content])
    same = all(new is old for new, old in zip(parts, content, strict=True))
    return content if same else parts


def _part(part: Part, keep: int) -> Part:
    match part:
        case TextPart(text=text) if not _PART.fullmatch(text):
            short = _text(text, keep)
            return part if short is text else TextPart(short)
        case ImagePart(data=data) | FilePart(data=data) if len(data) > keep:
            name = part.name if isinstance(part, FilePart) else "an image"
            mark = f"[{name[:64]} ({part.media_type[:64]}, {len(data)} bytes) was trimmed]"
            return TextPart(mark) if len(mark) < len(data) else part
        case _:
            return part


def _text(text: str, keep: int) -> str:
    found = _MARK.search(text)
    body, gone = (text[: found.start()], int(found[1])) if found else (text, 0)
    short = f"{body[:keep]}[{gone + len(body) - keep} more characters were trimmed]"
    return short if len(body) > keep and len(short) < len(text) else text
