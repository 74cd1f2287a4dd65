"""A session as people read it: what was said, what was called, what is unfinished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.text import Text

from ...events.messages import (
    AssistantMessage,
    Message,
    Outcome,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from ...projections import (
    Approved,
    Gated,
    InDoubt,
    OpenCall,
    OpenTurn,
    Requested,
    Running,
    SessionState,
    Settled,
)
from ...projections.open_turn import (
    Stage,
)
from .summaries import call_text, content_text
from .text import printable, printable_lines

_OUTCOME_STYLES: Mapping[Outcome, str] = {"ok": "green"}


def conversation(session_id: str, version: int, state: SessionState) -> Iterator[Text]:
    """The session's lines, its heading first."""
    yield Text(printable(session_id), "bold")
    yield Text(f"{state.status}, version {version}, agent {printable(state.active)}", "dim")
    yield Text(_used(state.usage), "dim")
    if state.unfolded:
        topic = printable(state.unfolded)
        yield Text(f"read-only: it holds {topic}, which this version does not know", "red")
    yield from _messages(state.conversation)
    if state.turn is not None:
        yield from _unfinished(state.turn, state)
    for each in state.queued:
        yield from _said("user, waiting", content_text(each.content), "yellow")


def session_fields(session_id: str, version: int, state: SessionState) -> dict[str, Any]:
    """The same, for programs."""
    return {
        "session_id": session_id,
        "agent": state.active,
        "status": state.status,
        "version": version,
        "usage": state.usage,
        "messages": list(state.conversation),
        "pending": _pending(state),
    }


def _messages(messages: Iterable[Message]) -> Iterator[Text]:
    for message in messages:
        match message:
            case UserMessage(content=content):
                yield from _said("user", content_text(content), "cyan")
            case AssistantMessage(text=text, tool_calls=calls):
                yield from _said("assistant", text, "magenta")
                yield from map(_asked, calls)
            case ToolMessage():
                yield from _result(message)


def _said(who: str, text: str, style: str) -> Iterator[Text]:
    yield Text()
    yield Text(who, f"bold {style}")
    if text:
        yield from map(Text, printable_lines(text))


def _asked(call: ToolCall) -> Text:
    return Text("  calls ").append(printable(call_text(call))).append(_id(call.id), "dim")


def _result(message: ToolMessage) -> Iterator[Text]:
    style = _OUTCOME_STYLES.get(message.outcome, "red")
    first, *others = printable_lines(content_text(message.content))
    yield (
        Text("  ")
        .append(message.outcome, style)
        .append(_id(message.call_id), "dim")
        .append(f" {first}")
    )
    for line in others:
        yield Text(f"     {line}")


def _id(call_id: str) -> str:
    return f" ({printable(call_id)})"


def _unfinished(turn: OpenTurn, state: SessionState) -> Iterator[Text]:
    yield Text()
    yield Text(f"unfinished: {printable(turn.turn_id)}, {state.status}", "bold yellow")
    if turn.halt is not None:
        yield Text(printable(f"{turn.halt.error} [{turn.halt.code}]"), "red")
    yield from _messages(state.transcript[turn.base :])
    for each in turn.calls:
        yield from _open_call(each)


def _open_call(open_call: OpenCall) -> Iterator[Text]:
    if isinstance(open_call.stage, Settled):
        yield from _result(open_call.stage.message)
    else:
        yield (
            Text("  ")
            .append(_stage(open_call.stage), "yellow")
            .append(_id(open_call.call.id), "dim")
        )


def _stage(stage: Stage) -> str:
    match stage:
        case Requested():
            return "not started"
        case Gated(approval_id=approval_id):
            return f"waits for a decision: {printable(approval_id)}"
        case Approved():
            return "approved, not started"
        case Running(attempt=attempt):
            return f"started, attempt {attempt}: no result yet"
        case InDoubt(attempt=attempt):
            return f"in doubt: attempt {attempt} was lost with its process"
        case Settled(message=message):
            return message.outcome


def _used(usage: Usage) -> str:
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out"


def _pending(state: SessionState) -> dict[str, Any] | None:
    turn = state.turn
    if turn is None and not state.queued:
        return None
    return {
        "turn_id": turn.turn_id if turn else "",
        "error": turn.halt.error if turn and turn.halt else "",
        "messages": list(state.transcript[turn.base :]) if turn else [],
        "calls": [
            {"id": each.call.id, "name": each.call.name, "stage": _stage(each.stage)}
            for each in (turn.calls if turn else ())
        ],
        "queued": [each.content for each in state.queued],
    }
