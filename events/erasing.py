"""Content erased on request: what was said goes, that something was said stays.

Ids, names, outcomes, counts and times are kept, so that calls and results still find each other
and the conversation stays one that a provider accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from .messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from .session import (
    AgentConfigured,
    ApprovalRequested,
    ApprovalResolved,
    ContentErased,
    ContextCarried,
    ForkPatched,
    InputQueued,
    ModelTurnRecorded,
    OutputRefused,
    SessionEvent,
    StateChanged,
    StepRecorded,
    ToolResultRecorded,
    TurnFailed,
    TurnFinished,
)

ERASED = "[erased]"
"""What stands where text was."""

_KEPT_OF_A_MESSAGE = ("role", "call_id", "name", "outcome")


def erased(event: SessionEvent) -> SessionEvent:
    """The event without its content; the event itself where it has none."""
    match event:
        case InputQueued() | ToolResultRecorded():
            return replace(event, content=ERASED)
        case ModelTurnRecorded(text=text, tool_calls=calls):
            return replace(event, text=_text(text), tool_calls=_calls(calls), parts=())
        case StateChanged() | StepRecorded():
            return replace(event, value=None)
        case ApprovalRequested(asked=asked) if asked:
            return replace(event, asked=tuple([replace(each, arguments={}) for each in asked]))
        case ApprovalResolved(note=note, arguments=arguments):
            return replace(event, note=_text(note), arguments=None if arguments is None else {})
        case AgentConfigured(instructions=instructions):
            return replace(event, instructions=_text(instructions))
        case ContextCarried():
            return replace(event, value=None)
        case OutputRefused(text=text):
            return replace(event, text=_text(text))
        case TurnFailed(error=error):
            return replace(event, error=_text(error))
        case TurnFinished(output=output):
            return replace(event, output=_value(output))
        case ForkPatched(messages=messages, result=result):
            said = None if messages is None else [_message(each) for each in _listed(messages)]
            return replace(event, messages=said, state=None, result=_value(result))
        case _:
            return event


def unvouched(
    was_erased: Mapping[int, str], sayings: Iterable[tuple[int, ContentErased]]
) -> list[int]:
    """Of the erased versions, each with the digest of what stands there now, those that no later
    ``ContentErased`` vouches for; ``sayings`` are those of the stream with their versions."""
    vouched = {
        version: now
        for said_at, saying in sayings
        for version, now in zip(saying.versions, _left(saying), strict=False)
        if version < said_at
    }
    return [
        version
        for version, now in was_erased.items()
        if version not in vouched or vouched[version] not in ("", now)
    ]


def _left(saying: ContentErased) -> tuple[str, ...]:
    return saying.left or ("",) * len(saying.versions)


def _text(text: object) -> str:
    return ERASED if text else ""


def _value(value: Any) -> Any:
    return None if value is None else ERASED


def _calls(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(each.id, each.name, {}, _text(each.malformed)) for each in calls)


def _listed(messages: Any) -> Iterable[Any]:
    return messages if isinstance(messages, list | tuple) else (messages,)


def _message(message: Any) -> Any:
    match message:
        case UserMessage() | ToolMessage():
            return replace(message, content=ERASED)
        case AssistantMessage(text=text, tool_calls=calls):
            return AssistantMessage(_text(text), _calls(calls))
        case {"role": "assistant", **rest}:
            asked = [_call(each) for each in _listed(rest.get("tool_calls", ()))]
            return {"role": "assistant", "text": _text(rest.get("text", "")), "tool_calls": asked}
        case {"role": _}:
            kept = {key: message[key] for key in _KEPT_OF_A_MESSAGE if key in message}
            return {**kept, "content": ERASED}
        case _:
            return ERASED


def _call(call: Any) -> Any:
    match call:
        case {"id": id, "name": name}:
            return {"id": id, "name": name}
        case _:
            return ERASED
