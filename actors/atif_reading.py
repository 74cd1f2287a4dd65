"""Conversations in the Agent Trajectory Interchange Format (ATIF), as streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from ..events.errors import InvalidTranscript
from ..events.identifiers import check_session_id
from ..events.messages import (
    AssistantMessage,
    Content,
    ImagePart,
    Part,
    TextPart,
    ToolCall,
    ToolSpec,
    Usage,
)
from ..events.session import SessionEvent
from ..events.tagged import untag
from ..projections import fold
from ..stores import EventStore
from .chat_format import OURS, plain_text, read_content, read_data_url, read_exactly, read_outcome
from .importing import SHAPELESS
from .models import exact_call
from .recording import Known, append_after
from .transcribing import IMPORTED, Transcriber

NO_RESULT = "no result of this call was recorded"


def is_trajectory(document: object) -> bool:
    """Whether a document says that it is in this format."""
    if not isinstance(document, Mapping):
        return False
    version = document.get("schema_version")
    return isinstance(version, str) and version.startswith("ATIF-")


def import_trajectory(
    document: Mapping[str, Any],
    store: EventStore,
    session_id: str,
    *,
    agent: str | None = None,
    at: datetime | None = None,
) -> int:
    """Write a trajectory in ATIF, of any version 1, as a new session, in one append, and return
    its version.

    ``agent`` names the agent the session belongs to; the trajectory's own, if not given. ``at``
    (UTC) is the time of steps that have none; now, if not given. A call without a result gets a
    ``cancelled`` one, but for those of the last step, which are left to be run. Trajectories of
    sub-agents are not imported. Raises ``InvalidTranscript`` naming the step at fault, and
    ``WrongExpectedVersion`` where the session exists.
    """
    check_session_id(session_id)
    events = trajectory_events(document, agent=agent, at=at or datetime.now(UTC))
    append, _ = append_after(Known(), session_id, events, fold(events))
    return store.append(append).version


def trajectory_events(
    document: Mapping[str, Any], *, agent: str | None, at: datetime
) -> list[SessionEvent]:
    """The events of a trajectory. Raises ``InvalidTranscript`` naming the step at fault."""
    version = document.get("schema_version")
    if not is_trajectory(document) or not str(version).startswith("ATIF-v1."):
        raise InvalidTranscript(f"this is no trajectory in ATIF, version 1: it says {version!r}")
    try:
        reader = _Reader(document, agent, at)
    except SHAPELESS as error:
        raise InvalidTranscript(
            f"this is no trajectory in ATIF: {type(error).__name__}: {error}"
        ) from error
    for place, step in enumerate(reader.steps, 1):
        try:
            reader.read(step, is_last=place == len(reader.steps))
        except SHAPELESS as error:
            raise InvalidTranscript(
                f"step {place} does not fit there: {type(error).__name__}: {error}"
            ) from error
    return reader.events


class _Reader:
    def __init__(self, document: Mapping[str, Any], agent: str | None, at: datetime) -> None:
        described, self._at = document["agent"], at
        self.steps: list[Mapping[str, Any]] = list(document["steps"])
        if not any(step["source"] in ("user", "agent") for step in self.steps):
            raise ValueError("neither a user nor an agent says anything in it")
        self._model = str(described.get("model_name") or IMPORTED)
        self._writer = Transcriber(at, agent or str(described["name"]))
        instructions = [
            plain_text(_chat_content(step.get("message")))
            for step in self.steps
            if step["source"] == "system"
        ]
        self._writer.begin("\n\n".join(instructions), _tools(document), self._model)

    @property
    def events(self) -> list[SessionEvent]:
        return self._writer.events

    def read(self, step: Mapping[str, Any], *, is_last: bool) -> None:
        self._writer.now = _time(step.get("timestamp")) or self._at
        observation: Mapping[str, Any] = step.get("observation") or {}
        observed: list[Mapping[str, Any]] = list(observation.get("results") or ())
        match step["source"]:
            case "system":
                pass
            case "user":
                self._writer.user(_content(step.get("message"), _ours(step)))
            case "agent":
                self._agent(step, observed, is_last=is_last)
            case source:
                raise ValueError(f"source {source!r} is none of system, user, agent")

    def _agent(
        self, step: Mapping[str, Any], observed: list[Mapping[str, Any]], *, is_last: bool
    ) -> None:
        calls = tuple(map(_call, step.get("tool_calls") or ()))
        parts = tuple(untag(_ours(step).get("parts") or [])) or _reasoning(step)
        text = plain_text(_chat_content(step.get("message")))
        model = str(step.get("model_name") or self._model)
        answer = AssistantMessage(text, calls, parts)
        self._writer.answer(answer, _usage(step.get("metrics") or {}), model)
        for call in calls:
            self._settle(call, _taken(observed, call.id, len(calls)), is_last=is_last)
        for result in observed:
            if result.get("source_call_id") is not None:
                raise ValueError(f"no open call has the id {result['source_call_id']!r}")
            self._writer.user(_content(result.get("content"), _ours(result)))

    def _settle(self, call: ToolCall, result: Mapping[str, Any] | None, *, is_last: bool) -> None:
        if result is not None:
            content = _content(result.get("content"), _ours(result))
            self._writer.result(call.id, content, read_outcome({OURS: _ours(result)}))
        elif not is_last:
            self._writer.result(call.id, NO_RESULT, "cancelled")


def _taken(observed: list[Mapping[str, Any]], call_id: str, calls: int) -> Mapping[str, Any] | None:
    """The call's result, taken out of those that were observed. Where there is one call, one that
    names none is its."""
    for place, result in enumerate(observed):
        source = result.get("source_call_id")
        if source == call_id or (source is None and calls == 1):
            return observed.pop(place)
    return None


def _reasoning(step: Mapping[str, Any]) -> tuple[Any, ...]:
    reasoning = step.get("reasoning_content")
    return ({"reasoning_content": str(reasoning)},) if reasoning else ()


def _tools(document: Mapping[str, Any]) -> tuple[ToolSpec, ...]:
    """Those that are described, and after them those that are only called."""
    found: dict[str, ToolSpec] = {}
    for each in document["agent"].get("tool_definitions") or ():
        function = each.get("function") or each
        name = str(function["name"])
        schema = function.get("parameters") or {}
        found[name] = ToolSpec(name, str(function.get("description") or ""), dict(schema))
    for step in document["steps"]:
        for call in step.get("tool_calls") or ():
            name = str(call["function_name"])
            found.setdefault(name, ToolSpec(name))
    return tuple(found.values())


def _call(call: Mapping[str, Any]) -> ToolCall:
    call_id, name = str(call["tool_call_id"]), str(call["function_name"])
    ours = _ours(call)
    if "arguments" in ours:
        return read_exactly(call_id, name, ours)
    return exact_call(call_id, name, call.get("arguments") or {})


def _ours(described: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = described.get("extra")
    ours = extra.get(OURS) if isinstance(extra, Mapping) else None
    return ours if isinstance(ours, Mapping) else {}


def _usage(metrics: Mapping[str, Any]) -> Usage:
    extra = metrics.get("extra") or {}
    return Usage(
        _tokens(metrics.get("prompt_tokens")),
        _tokens(metrics.get("completion_tokens")),
        _tokens(metrics.get("cached_tokens")),
        _tokens(extra.get("reasoning_tokens")),
    )


def _tokens(count: Any) -> int:
    return count if type(count) is int and count > 0 else 0


def _time(text: Any) -> datetime | None:
    """A time without a zone is taken for UTC."""
    if text is None:
        return None
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _content(content: Any, ours: Mapping[str, Any]) -> Content:
    if "content" in ours:
        return read_content(ours["content"])
    return _chat_content(content)


def _chat_content(content: Any) -> Content:
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return tuple(map(_part, cast(Iterable[Mapping[str, Any]], content)))
    raise TypeError(f"a message is text or a list of parts, not {type(content).__name__}")


def _part(part: Mapping[str, Any]) -> Part:
    match part:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "image", "source": {"media_type": str(kind), "path": str(path)}}:
            if held := read_data_url(path):
                return ImagePart(held[0], data=held[1])
            return ImagePart(kind, url=path)
        case {"type": "audio", "source": {"media_type": str(kind), "path": str(path)}}:
            return TextPart(f"[audio {kind}: {path}]")
    raise ValueError(f"a part of type {part.get('type')!r} can't be imported")
