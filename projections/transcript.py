"""A conversation: messages in order, and what makes them one that providers accept."""

from __future__ import annotations

from collections.abc import Iterable

from ..events.errors import InvalidTranscript
from ..events.messages import AssistantMessage, Message, ToolMessage
from .growing import Growing


class Transcript(Growing[Message]):
    """Messages in order. Equal to any sequence of equal messages."""

    __slots__ = ()


def check_transcript(messages: Iterable[Message]) -> None:
    """Raise ``InvalidTranscript`` unless every turn with calls is followed directly by exactly
    one result for each call, in call order, and no other result exists."""
    owed: list[str] = []
    for place, message in enumerate(messages):
        match message:
            case ToolMessage(call_id=call_id):
                if not owed or owed.pop(0) != call_id:
                    raise InvalidTranscript(
                        f"message {place} is a result of call {call_id!r} out of its place: "
                        "results follow their calls directly, one for each, in call order",
                        call_id=call_id,
                    )
            case _ if owed:
                raise InvalidTranscript(
                    f"message {place} stands where the result of call {owed[0]!r} must be",
                    call_id=owed[0],
                )
            case AssistantMessage(tool_calls=calls):
                owed = [call.id for call in calls]
            case _:
                pass
    if owed:
        raise InvalidTranscript(f"call {owed[0]!r} has no result", call_id=owed[0])
