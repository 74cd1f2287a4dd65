"""What an event says, in a few words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict

from ...events.messages import Content, FilePart, ImagePart, Part, TextPart, ToolCall
from ...events.session import (
    AgentConfigured,
    AnyEvent,
    ForkPatched,
    InputQueued,
    ModelTurnRecorded,
    SessionStarted,
    ToolCallStarted,
    ToolResultRecorded,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    UnknownEvent,
)
from ...events.terms import ForkOrigin, Owner
from .text import quoted, readable

_ENVELOPE = ("at", "prev", "erased")


def summary(event: AnyEvent) -> str:
    """What the event says; text of any length, with stored text in it as it is."""
    match event:
        case SessionStarted():
            return _begun(event)
        case AgentConfigured(name=name, model=model, tools=tools):
            return f"{name}: model {model}, tools {_listed(tool.name for tool in tools)}"
        case InputQueued(content=content):
            return content_text(content)
        case TurnStarted() | TurnResumed():
            return _taken_up(event)
        case ModelTurnRecorded():
            return f"step {event.step}: {_answer(event)}"
        case ToolCallStarted(call_id=call_id, attempt=attempt):
            return call_id if attempt == 1 else f"{call_id}, attempt {attempt}"
        case ToolResultRecorded(call_id=call_id, outcome=outcome, content=content):
            return f"{call_id} {outcome}: {readable(content)}"
        case TurnFinished(turn_id=turn_id, finish_reason=reason):
            return f"{turn_id}: {reason}"
        case TurnFailed(turn_id=turn_id, code=code, error=error, kept=kept):
            return f"{turn_id} {'kept' if kept else 'dropped'}: {error} [{code}]"
        case ForkPatched():
            return _patched(event)
        case UnknownEvent():
            return "(a newer turnstream wrote this)"
        case _:
            return _fields(asdict(event))


def call_text(call: ToolCall) -> str:
    """A call as a programmer would write it."""
    if call.malformed:
        return f"{call.name}({call.malformed})"
    given = (f"{name}={quoted(value)}" for name, value in call.arguments.items())
    return f"{call.name}({', '.join(given)})"


def content_text(content: Content) -> str:
    """Text as it is; other parts named."""
    return content if isinstance(content, str) else "\n".join(map(_part_text, content))


def _part_text(part: Part) -> str:
    match part:
        case TextPart(text=text):
            return text
        case ImagePart(media_type=kind, url=url, data=data):
            return f"[image {kind}: {url or f'{len(data)} bytes'}]"
        case FilePart(name=name, url=url, data=data):
            return f"[file {name}: {url or f'{len(data)} bytes'}]"


def _begun(event: SessionStarted) -> str:
    match event.forked_from:
        case None:
            return f"agent {event.agent}"
        case ForkOrigin(session_id=source, version=version):
            return f"agent {event.agent}, forked from {source} at version {version}"


def _patched(event: ForkPatched) -> str:
    what = [f"result of {event.call_id}" if w == "tool_result" else w for w in event.changed]
    return f"changed: {_listed(what)}{f', by {event.by}' if event.by else ''}"


def _taken_up(event: TurnStarted | TurnResumed) -> str:
    run = event.run_id if isinstance(event, TurnStarted) else ""
    named = f", run {quoted(run)}," if run else ""
    return f"{event.turn_id}{named} on {_node(event.owner)}"


def _answer(event: ModelTurnRecorded) -> str:
    said = [event.text] if event.text else []
    return " ".join(said + [call_text(call) for call in event.tool_calls])


def _node(owner: Owner) -> str:
    return f"node {owner.node}, generation {owner.generation}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _fields(fields: dict[str, Any]) -> str:
    named = ((name, value) for name, value in fields.items() if name not in _ENVELOPE)
    return ", ".join(f"{name} {readable(value)}" for name, value in named if value)
