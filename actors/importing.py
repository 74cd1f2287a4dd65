"""Conversations from elsewhere, as streams.

A conversation in OpenAI chat format becomes the events that would have been recorded had it
been held here, so that it can be inspected, replayed, forked and continued like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import MsgspecError

from ..events.errors import IllegalTransition, InvalidModelTurn, InvalidTranscript
from ..events.identifiers import check_session_id
from ..events.messages import ToolSpec
from ..events.session import SessionEvent
from ..projections import fold
from ..stores import EventStore
from .chat_format import plain_text, read_answer, read_content, read_outcome
from .recording import Known, append_after
from .transcribing import Transcriber

Chat = Iterable[Mapping[str, Any]]

# What reading a message can raise that is not of the format.
SHAPELESS = (
    ArithmeticError,
    AttributeError,
    IllegalTransition,
    InvalidModelTurn,
    LookupError,
    MsgspecError,
    RecursionError,
    TypeError,
    ValueError,
)


def import_transcript(
    messages: Chat,
    store: EventStore,
    session_id: str,
    *,
    agent: str = "imported",
    at: datetime | None = None,
) -> int:
    """Write a conversation as a new session, in one append, and return its version.

    ``at`` (UTC) is when it is said to have happened; now, if not given. A conversation that ends
    before an answer leaves its turn unfinished, to be resumed. Raises ``InvalidTranscript``
    naming the message that no provider would accept, and ``WrongExpectedVersion`` where the
    session exists.
    """
    check_session_id(session_id)
    events = transcript_events(messages, agent=agent, at=at or datetime.now(UTC))
    append, _ = append_after(Known(), session_id, events, fold(events))
    return store.append(append).version


def transcript_events(messages: Chat, *, agent: str, at: datetime) -> list[SessionEvent]:
    """The events of a conversation in OpenAI chat format.

    Raises ``InvalidTranscript`` naming the message at fault.
    """
    chat = list(messages)
    writer = Transcriber(at, agent)
    try:
        writer.begin(*_configuration(chat))
    except SHAPELESS as error:
        raise InvalidTranscript(
            f"this is no conversation in OpenAI chat format: {type(error).__name__}: {error}"
        ) from error
    for place, message in enumerate(chat):
        try:
            _write(message, writer)
        except SHAPELESS as error:
            raise InvalidTranscript(
                f"message {place} (role {_role(message)!r}) does not fit there: "
                f"{type(error).__name__}: {error}"
            ) from error
    return writer.events


def _role(message: object) -> str:
    return str(message.get("role")) if isinstance(message, Mapping) else type(message).__name__


def _configuration(chat: list[Mapping[str, Any]]) -> tuple[str, tuple[ToolSpec, ...]]:
    instructions = [
        plain_text(each.get("content")) for each in chat if _role(each) in ("system", "developer")
    ]
    names = dict.fromkeys(
        call["function"]["name"]
        for each in chat
        if isinstance(each, Mapping)
        for call in each.get("tool_calls") or ()
    )
    return "\n\n".join(instructions), tuple(ToolSpec(name) for name in names)


def _write(message: Mapping[str, Any], writer: Transcriber) -> None:
    match message["role"]:
        case "system" | "developer":
            pass
        case "user":
            writer.user(read_content(message.get("content")))
        case "assistant":
            writer.answer(read_answer(message))
        case "tool":
            content = read_content(message.get("content"))
            writer.result(message["tool_call_id"], content, read_outcome(message))
        case role:
            raise ValueError(f"role {role!r} is none of system, user, assistant, tool")
