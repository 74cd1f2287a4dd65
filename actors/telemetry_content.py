"""What was said, as attributes of spans: JSON in the shape of the conventions. Only on demand."""

from __future__ import annotations

import json
from typing import Any

from ..events.messages import AssistantMessage, Message, ModelTurn, ToolCall, ToolMessage
from .models import ModelRequest


def asked(request: ModelRequest) -> dict[str, str]:
    """What the model was asked."""
    said = {"gen_ai.input.messages": _json([_message(each) for each in request.messages])}
    if request.instructions:
        said["gen_ai.system_instructions"] = _json([_text(request.instructions)])
    return said


def answered(turn: ModelTurn) -> dict[str, str]:
    """What it answered."""
    answer = {
        "role": "assistant",
        "parts": _answer(turn.text, turn.tool_calls),
        "finish_reason": turn.finish_reason,
    }
    return {"gen_ai.output.messages": _json([answer])}


def arguments_of(call: ToolCall) -> dict[str, str]:
    """What a tool was called with."""
    return {"gen_ai.tool.call.arguments": _json(call.arguments)}


def result_of(content: Any) -> dict[str, str]:
    """What is recorded as its result."""
    return {"gen_ai.tool.call.result": _json(content)}


def _message(message: Message) -> dict[str, Any]:
    match message:
        case AssistantMessage(text=text, tool_calls=calls):
            return {"role": "assistant", "parts": _answer(text, calls)}
        case ToolMessage(call_id=call_id, content=content):
            part = {"type": "tool_call_response", "id": call_id, "response": content}
            return {"role": "tool", "parts": [part]}
        case _:
            content = message.content
            parts = [content] if isinstance(content, str) else content
            return {"role": "user", "parts": [_part(each) for each in parts]}


def _part(part: Any) -> dict[str, Any]:
    """Of a picture or a file only that there was one."""
    text = part if isinstance(part, str) else getattr(part, "text", None)
    return _text(text) if text is not None else {"type": type(part).__name__}


def _answer(text: str, calls: tuple[ToolCall, ...]) -> list[dict[str, Any]]:
    asked_for = [
        {"type": "tool_call", "id": each.id, "name": each.name, "arguments": each.arguments}
        for each in calls
    ]
    return ([_text(text)] if text else []) + asked_for


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _json(value: Any) -> str:
    """ASCII, which every exporter can send; what JSON has no word for as text."""
    return json.dumps(value, default=str)
