"""Conversations from elsewhere, as streams.

A conversation in OpenAI chat format becomes the events that would have been recorded had it
been held here, so that it can be inspected, replayed, forked and continued like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ..events.errors import IllegalTransition, InvalidTranscript
from ..events.identifiers import check_session_id
from ..events.messages import Content, FilePart, ImagePart, Part, TextPart, ToolCall, ToolSpec
from ..events.session import (
    AgentConfigured,
    Budget,
    InputApplied,
    InputQueued,
    ModelTurnRecorded,
    Owner,
    SessionEvent,
    SessionStarted,
    ToolCallStarted,
    ToolResultRecorded,
    TurnFinished,
    TurnStarted,
)
from ..projections import INITIAL, evolve, fold
from ..projections.phases import Phase, check_transition
from ..stores import EventStore
from .models import parsed_call
from .ready import fingerprint
from .recording import Known, append_after

Chat = Iterable[Mapping[str, Any]]


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
    writer = _Writer(at, agent)
    try:
        writer.begin(*_configuration(chat))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidTranscript(
            f"this is no conversation in OpenAI chat format: {type(error).__name__}: {error}"
        ) from error
    for place, message in enumerate(chat):
        try:
            writer.write(message)
        except (IllegalTransition, KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidTranscript(
                f"message {place} (role {_role(message)!r}) does not fit there: "
                f"{type(error).__name__}: {error}"
            ) from error
    return writer.events


def _role(message: object) -> str:
    return str(message.get("role")) if isinstance(message, Mapping) else type(message).__name__


def _configuration(chat: list[Mapping[str, Any]]) -> tuple[str, tuple[ToolSpec, ...]]:
    instructions = [
        _plain_text(each.get("content")) for each in chat if _role(each) in ("system", "developer")
    ]
    names = dict.fromkeys(
        call["function"]["name"]
        for each in chat
        if isinstance(each, Mapping)
        for call in each.get("tool_calls") or ()
    )
    return "\n\n".join(instructions), tuple(ToolSpec(name) for name in names)


class _Writer:
    """Writes one message after the other as events."""

    def __init__(self, at: datetime, agent: str) -> None:
        self._at, self._agent = at, agent
        self._state = INITIAL
        self._fingerprint = ""
        self.events: list[SessionEvent] = []

    def begin(self, instructions: str, tools: tuple[ToolSpec, ...]) -> None:
        self._fingerprint = fingerprint("imported", instructions, tools)
        self._record(SessionStarted(at=self._at, agent=self._agent))
        self._record(
            AgentConfigured(
                at=self._at,
                name=self._agent,
                model="imported",
                instructions=instructions,
                tools=tools,
                fingerprint=self._fingerprint,
            )
        )

    def write(self, message: Mapping[str, Any]) -> None:
        match message["role"]:
            case "system" | "developer":
                pass
            case "user":
                self._user(_content(message.get("content")))
            case "assistant":
                self._assistant(message)
            case "tool":
                self._tool(message["tool_call_id"], _content(message.get("content")))
            case role:
                raise ValueError(f"role {role!r} is none of system, user, assistant, tool")

    def _record(self, event: SessionEvent) -> None:
        check_transition(self._state.phase, event)
        self._state = evolve(self._state, event)
        self.events.append(event)

    def _user(self, content: Content) -> None:
        input_id = f"input-{len(self.events)}"
        self._record(InputQueued(at=self._at, input_id=input_id, content=content))
        if self._state.turn is None:
            self._start((input_id,))
        else:
            self._record(InputApplied(at=self._at, turn_id=self._turn_id, input_id=input_id))

    def _assistant(self, message: Mapping[str, Any]) -> None:
        if self._state.turn is None:
            self._start(())
        calls = tuple(map(_call, message.get("tool_calls") or ()))
        assert self._state.turn is not None
        self._record(
            ModelTurnRecorded(
                at=self._at,
                turn_id=self._turn_id,
                step=self._state.turn.steps + 1,
                text=_plain_text(message.get("content")),
                tool_calls=calls,
                model="imported",
                finish_reason="tool_calls" if calls else "stop",
            )
        )
        if not calls:
            self._record(TurnFinished(at=self._at, turn_id=self._turn_id))

    def _tool(self, call_id: str, content: Content) -> None:
        turn = self._state.turn
        if self._state.phase is not Phase.TOOLS or turn is None:
            raise ValueError(f"no call waits for a result, and this is one of {call_id!r}")
        if call_id not in [each.call.id for each in turn.calls]:
            raise ValueError(f"no open call has the id {call_id!r}")
        for event in (
            ToolCallStarted(at=self._at, turn_id=turn.turn_id, call_id=call_id),
            ToolResultRecorded(at=self._at, turn_id=turn.turn_id, call_id=call_id, content=content),
        ):
            self._record(event)

    def _start(self, input_ids: tuple[str, ...]) -> None:
        self._record(
            TurnStarted(
                at=self._at,
                turn_id=f"turn-{self._state.turns + 1}",
                input_ids=input_ids,
                agent=self._agent,
                budget=Budget(max_steps=32),
                owner=Owner(0, "import"),
                fingerprint=self._fingerprint,
            )
        )

    @property
    def _turn_id(self) -> str:
        assert self._state.turn is not None
        return self._state.turn.turn_id


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = call["function"]
    return parsed_call(call["id"], function["name"], function.get("arguments") or "")


def _content(content: Any) -> Content:
    match content:
        case None:
            return ""
        case str():
            return content
        case list() | tuple():
            return tuple(map(_part, content))
    raise TypeError(f"content is text or a list of parts, not {type(content).__name__}")


def _plain_text(content: Any) -> str:
    given = _content(content)
    if isinstance(given, str):
        return given
    return "".join(part.text for part in given if isinstance(part, TextPart))


def _part(part: Mapping[str, Any]) -> Part:
    match part:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return ImagePart(url=url)
        case {"type": "file", "file": {"filename": str(name), "file_data": str(url)}}:
            return FilePart(name, url=url)
    raise ValueError(f"a part of type {part.get('type')!r} can't be imported")
