"""What goes to a provider: strict JSON, and the parts of a message that are its own."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from ...events.errors import ModelRefused
from ...events.messages import AssistantMessage, FilePart, ImagePart, ToolCall
from ...events.rendering import render, well_formed
from ...events.values import plain
from ..models import ModelRequest

_BY = "by"
_NOT_SET = {"messages", "input", "stream"}


def own_part(by: str, **fields: Any) -> dict[str, Any]:
    """Something of a provider's own, to be kept with its turn. ``by`` says whose it is."""
    return {_BY: by, **fields}


def own_parts(message: AssistantMessage, by: str) -> list[Mapping[str, Any]]:
    """The parts of a message that are this model's: those of others mean nothing to it."""
    return [each for each in message.parts if isinstance(each, Mapping) and each.get(_BY) == by]


def pieces_of(text: str, own: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """The texts that an answer's text was put together from, by the ``length`` of each in its own
    parts; None where it is not what they said, because somebody changed it, or because they are
    not known."""
    lengths = [part["length"] for part in own if "length" in part]
    if not lengths or sum(lengths) != len(text):
        return None
    pieces, start = [], 0
    for length in lengths:
        pieces.append(text[start : start + length])
        start += length
    return pieces


def arguments_text(call: ToolCall) -> str:
    """A call's arguments as JSON text; of a malformed call those of an empty object, since a
    provider may read them."""
    return str(render(call.arguments)) if call.arguments else "{}"


def address(part: ImagePart | FilePart) -> str:
    """Where a part is: its address, or itself as one."""
    return part.url or f"data:{part.media_type};base64,{b64encode(part.data).decode()}"


def sendable(value: Any) -> Any:
    """Plain data that JSON can carry: text well formed, numbers finite, keys text. A copy."""
    match value:
        case str():
            return well_formed(value)
        case float():
            return value if isfinite(value) else None
        case None | bool() | int():
            return value
        case Mapping():
            return {well_formed(str(key)): sendable(item) for key, item in value.items()}
        case list() | tuple():
            return [sendable(item) for item in value]
        case _:
            return sendable(plain(render(value)))


def with_settings(body: dict[str, Any], *settings: Mapping[str, Any]) -> Any:
    """The body of a request, with settings, of which later ones win. Into a field that is an
    object or a list they go beside what is there; one that is None takes its field out. Can be
    sent as it is.

    Raises ``ModelRefused`` for settings that would take the conversation's place.
    """
    sent = dict(body)
    for each in settings:
        for field, value in each.items():
            if field in _NOT_SET:
                raise ModelRefused(f"settings can't set {field!r}: it is the conversation's")
            sent[field] = _beside(sent.get(field), value)
    return sendable({field: value for field, value in sent.items() if value is not None})


def _beside(there: Any, value: Any) -> Any:
    match there, value:
        case Mapping(), Mapping():
            return {**there, **value}
        case list(), list() | tuple():
            return [*there, *value]
        case _:
            return value


def instructions_for(request: ModelRequest) -> str:
    """The instructions, and in words what the answer is to be: for schemas that a provider does
    not take."""
    if request.output is None:
        return request.instructions
    schema = json.dumps(sendable(request.output))
    asked = (
        f"Your final answer is JSON alone, without a word around it. Its JSON schema is: {schema}"
    )
    return f"{request.instructions}\n\n{asked}" if request.instructions else asked


def joined(pieces: Iterable[str]) -> str:
    """Text that came in pieces. Where a piece ended in the middle of a surrogate pair, the halves
    become one character; one that is alone stays as it is."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text
