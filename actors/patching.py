"""How a fork begins: what is said to be different in it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from msgspec import UNSET, Struct

from ..events.errors import InvalidModelTurn, InvalidTranscript, SessionReadOnly, Unstorable
from ..events.messages import (
    AssistantMessage,
    Message,
    ModelTurn,
    Outcome,
    ToolMessage,
    UserMessage,
)
from ..events.session import ForkPatched, InputQueued, SessionEvent, SessionStarted
from ..events.terms import ForkOrigin
from ..events.values import plain
from ..projections import SessionState, evolve
from ..projections.editing import is_conversation, last_result
from ..projections.phases import check_transition
from ..projections.transcript import check_transcript
from .inputs import content_of
from .models import model_turn

Rewrite: TypeAlias = Callable[[list[Message]], Sequence[Message]]


class ToolResultPatch(Struct, frozen=True):
    """Another result for a call, or one for a call that has none yet."""

    call_id: str
    result: Any


class Patch(Struct, frozen=True):
    """What is different in a fork, in the order in which it is applied.

    ``messages`` takes the place of the conversation, the open turn's part included: messages, or
    a function of those there are. ``state`` is the application's. ``tool_result`` gives a call
    another result. ``append_input`` is a new input, which joins the open turn after its calls, or
    begins the next one. ``by`` says who wants it so.
    """

    messages: Sequence[Message] | Rewrite | None = None
    state: Any = UNSET
    tool_result: ToolResultPatch | None = None
    append_input: Any = None
    by: str = ""


NO_PATCH = Patch()


def beginning(
    state: SessionState, origin: ForkOrigin, patch: Patch, at: datetime, nonce: str
) -> tuple[Sequence[SessionEvent], SessionState]:
    """The events of a fork that follow what it has from its source, and the state they lead to.

    Raises ``InvalidTranscript`` where the patch makes no conversation or names a call that is not
    there, ``Unstorable``, ``TypeError`` where it is no patch, and ``SessionReadOnly`` where what
    is to be changed can't be read.
    """
    _check_types(patch)
    changes = _changes(state, patch, at)
    marker = SessionStarted(
        at=at, agent=state.agent, tenant=state.tenant, forked_from=origin, nonce=nonce
    )
    events: list[SessionEvent] = [marker, *changes]
    if patch.append_input is not None:
        content = content_of(patch.append_input)
        events.append(InputQueued(at=at, input_id=nonce, content=content, policy="queue"))
    if len(events) > 1 and state.unfolded:
        raise SessionReadOnly(
            f"the stream holds {state.unfolded!r}, which this version can't make sense of: it can "
            "be forked, but not changed"
        )
    for event in events:
        check_transition(state.phase, event)
        state = evolve(state, event)
    return events, state


def _check_types(patch: object) -> None:
    match patch:
        case Patch(by=str(), tool_result=None | ToolResultPatch(call_id=str())):
            return
        case Patch(by=str()):
            raise TypeError("tool_result is a ToolResultPatch with the id of a call")
        case Patch():
            raise TypeError(f"by is text, not {type(patch.by).__name__}")
    raise TypeError(f"patch is a Patch, not {type(patch).__name__}")


def _changes(state: SessionState, patch: Patch, at: datetime) -> list[SessionEvent]:
    changed: list[Literal["messages", "state", "tool_result"]] = []
    messages, application, call_id, result = None, None, "", None
    if patch.messages is not None:
        messages = _messages(state, patch.messages)
        changed.append("messages")
    if patch.state is not UNSET:
        application = plain(patch.state, "state")
        changed.append("state")
    if patch.tool_result is not None:
        call_id, result = _result(state, messages, patch.tool_result)
        changed.append("tool_result")
    if not changed:
        return []
    return [
        ForkPatched(
            at=at,
            messages=messages,
            state=application,
            call_id=call_id,
            result=result,
            changed=tuple(changed),
            by=str(plain(patch.by)),
        )
    ]


def _messages(state: SessionState, given: Sequence[Message] | Rewrite) -> tuple[Message, ...]:
    wanted = given(list(state.transcript)) if callable(given) else given
    messages = tuple([_message(each, place) for place, each in enumerate(wanted)])
    if not is_conversation(messages, unfinished=state.turn is not None):
        check_transcript(messages)
    match messages[-1:]:
        case (AssistantMessage(tool_calls=calls),) if {each.id for each in calls} >= {""} or (
            len({each.id for each in calls}) < len(calls)
        ):
            raise InvalidTranscript("the calls of the patch that are to run need ids of their own")
    return messages


def _message(given: object, place: int) -> Message:
    """The message, of plain data: Structs are not checked when they are made, and what can't be
    read back must not be written."""
    try:
        match given:
            case UserMessage(content=content):
                return UserMessage(content_of(content))
            case AssistantMessage(text=text, tool_calls=calls, parts=parts):
                answer = model_turn(ModelTurn(text, calls, parts=parts))
                return AssistantMessage(answer.text, answer.tool_calls, answer.parts)
            case ToolMessage(call_id=str(), name=str(), content=content, outcome=outcome):
                if outcome in get_args(Outcome):
                    name, read = str(plain(given.name)), content_of(content)
                    return ToolMessage(str(plain(given.call_id)), name, read, outcome)
    except (InvalidTranscript, InvalidModelTurn, Unstorable) as error:
        raise InvalidTranscript(f"message {place} of the patch: {error}") from error
    raise InvalidTranscript(
        f"message {place} of the patch is a UserMessage, an AssistantMessage or a ToolMessage with "
        f"its call, not {type(given).__name__}"
    )


def _result(
    state: SessionState, messages: Sequence[Message] | None, patch: ToolResultPatch
) -> tuple[str, Any]:
    there = state.transcript if messages is None else messages
    unanswered = [each.call.id for each in state.turn.calls] if state.turn is not None else []
    match messages:
        case None:
            pass
        case [*_, AssistantMessage(tool_calls=calls)]:
            unanswered = [call.id for call in calls]
        case _:
            unanswered = []
    known = [each.call_id for each in there if isinstance(each, ToolMessage)]
    if patch.call_id not in unanswered and last_result(there, patch.call_id) is None:
        raise InvalidTranscript(
            f"there is no call {patch.call_id!r} to give a result to; there are "
            f"{', '.join(map(repr, [*known, *unanswered])) or 'none'}",
            call_id=patch.call_id,
        )
    return patch.call_id, plain(patch.result, "result")
