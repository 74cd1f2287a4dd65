"""Conversations in the Agent Trajectory Interchange Format (ATIF), version 1.7, on their way out.

The format knows steps of a system, a user or an agent. An agent's step is one answer of its model,
with its calls, and the results of these as its observation. What it has no words for, such as a
file among the parts of a message, stands in the ``extra`` of its step, exactly, and as text where
it belongs. Text that UTF-8 can't hold is mended, as for models.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from ..events.errors import InvalidTranscript
from ..events.messages import (
    AssistantMessage,
    Content,
    FilePart,
    ImagePart,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from ..events.rendering import render
from ..events.session import AgentConfigured, ModelTurnRecorded
from ..events.tagged import tag
from ..projections import Course
from ..stores import EventStore
from .chat_format import (
    OURS,
    data_url,
    is_exact,
    json_object,
    written_content,
    written_exactly,
)
from .exporting import session_course, written_approval

VERSION = "ATIF-v1.7"
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def export_trajectory(store: EventStore, session_id: str) -> dict[str, Any]:
    """A session's conversation as a document in ATIF, version 1.7.

    An unfinished turn is part of it. ``import_trajectory`` makes the same conversation of it.
    Raises ``SessionNotFound``, ``CorruptEvent``, and ``InvalidTranscript`` for a session in which
    nothing was said: a trajectory has a step.
    """
    return trajectory_of(session_course(store, session_id), session_id)


def trajectory_of(course: Course, session_id: str) -> dict[str, Any]:
    """The same, of a session that was read."""
    steps = _steps(course)
    if not steps:
        raise InvalidTranscript(
            f"nothing was said in session {session_id!r}, and a trajectory has at least one step",
            session_id=session_id,
        )
    state = course.state
    ours: dict[str, Any] = {"status": state.status}
    if waiting := state.approvals(session_id):
        ours["approvals"] = list(map(written_approval, waiting))
    document = {
        "schema_version": VERSION,
        "session_id": session_id,
        "agent": _agent(state.active, state.configured),
        "steps": steps,
        "final_metrics": _final(course, len(steps)),
        "extra": {OURS: ours},
    }
    mended: dict[str, Any] = json.loads(str(render(document)))
    return mended


def _agent(name: str, configured: AgentConfigured | None) -> dict[str, Any]:
    """The version is the fingerprint: the format asks for one, and it changes with the agent."""
    if configured is None:
        return {"name": name, "version": "unknown"}
    found: dict[str, Any] = {
        "name": name,
        "version": configured.fingerprint or "unknown",
        "model_name": configured.model,
    }
    if configured.tools:
        found["tool_definitions"] = list(map(_definition, configured.tools))
    return found


def _definition(spec: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": spec.name}
    if spec.description:
        function["description"] = spec.description
    if spec.schema:
        function["parameters"] = dict(spec.schema)
    return {"type": "function", "function": function}


def _steps(course: Course) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    configured = course.state.configured
    if configured is not None and configured.instructions:
        steps.append({"source": "system", "message": configured.instructions})
    answers = {each.place: each.event for each in course.answers}
    times = [*course.times, *[None] * (len(course.messages) - len(course.times))]
    for place, (message, at) in enumerate(zip(course.messages, times, strict=True)):
        match message:
            case UserMessage(content=content):
                steps.append(_user(content) | _time(at))
            case AssistantMessage():
                steps.append(_answer(message, answers.get(place)) | _time(at))
            case ToolMessage():
                observation = steps[-1].setdefault("observation", {"results": []})
                observation["results"].append(_result(message))
    return [{"step_id": number, **step} for number, step in enumerate(steps, 1)]


def _time(at: datetime | None) -> dict[str, str]:
    return {} if at is None else {"timestamp": at.isoformat()}


def _user(content: Content) -> dict[str, Any]:
    step: dict[str, Any] = {"source": "user", "message": _content(content)}
    return step | _exact_content(content)


def _answer(message: AssistantMessage, event: ModelTurnRecorded | None) -> dict[str, Any]:
    step: dict[str, Any] = {"source": "agent", "message": message.text}
    if event is not None and event.model:
        step["model_name"] = event.model
    if message.tool_calls:
        step["tool_calls"] = list(map(_call, message.tool_calls))
    if event is not None and event.usage != Usage():
        step["metrics"] = _metrics(event.usage)
    if event is not None:
        step["llm_call_count"] = 1
    match message.parts:
        case ():
            pass
        case ({"reasoning_content": str(reasoning), **others},) if not others:
            step["reasoning_content"] = reasoning
        case parts:
            step["extra"] = {OURS: {"parts": tag(list(parts))}}
    return step


def _call(call: ToolCall) -> dict[str, Any]:
    text = json_object(call.arguments)
    arguments = json.loads(text)
    written: dict[str, Any] = {
        "tool_call_id": call.id,
        "function_name": call.name,
        "arguments": arguments if isinstance(arguments, dict) else {"arguments": arguments},
    }
    if not is_exact(call, text):
        written["extra"] = {OURS: written_exactly(call)}
    return written


def _result(message: ToolMessage) -> dict[str, Any]:
    found: dict[str, Any] = {
        "source_call_id": message.call_id,
        "content": _content(message.content),
    }
    ours = _exact_content(message.content).get("extra", {}).get(OURS, {})
    if message.outcome != "ok":
        ours = ours | {"outcome": message.outcome}
    return found | {"extra": {OURS: ours}} if ours else found


def _metrics(usage: Usage) -> dict[str, Any]:
    found: dict[str, Any] = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_input_tokens,
    }
    if usage.reasoning_tokens:
        found["extra"] = {"reasoning_tokens": usage.reasoning_tokens}
    return found


def _final(course: Course, steps: int) -> dict[str, Any]:
    """The sums over the steps there are; a session may have used more, in turns it dropped."""
    used = sum((each.event.usage for each in course.answers), Usage())
    spent = course.state.usage + course.state.discarded_usage
    return {
        "total_prompt_tokens": used.input_tokens,
        "total_completion_tokens": used.output_tokens,
        "total_cached_tokens": used.cached_input_tokens,
        "total_steps": steps,
        "extra": {
            "reasoning_tokens": used.reasoning_tokens,
            "session_prompt_tokens": spent.input_tokens,
            "session_completion_tokens": spent.output_tokens,
        },
    }


def _content(content: Content) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else list(map(_part, content))


def _part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart(media_type=kind, url=url, data=data) if kind in IMAGES:
            source = {"media_type": kind, "path": url or data_url(kind, data)}
            return {"type": "image", "source": source}
        case ImagePart(media_type=kind, url=url, data=data):
            return {"type": "text", "text": f"[image {kind}: {url or f'{len(data)} bytes'}]"}
        case FilePart(name=name, url=url, data=data):
            return {"type": "text", "text": f"[file {name}: {url or f'{len(data)} bytes'}]"}


def _exact_content(content: Content) -> dict[str, Any]:
    """The content once more, where it holds parts that the format has no words for."""
    if isinstance(content, str) or all(_has_words(each) for each in content):
        return {}
    return {"extra": {OURS: {"content": written_content(content)}}}


def _has_words(part: Part) -> bool:
    match part:
        case ImagePart(media_type=kind, url=url):
            return kind in IMAGES and not url.startswith("data:")
        case _:
            return isinstance(part, TextPart)
