"""What a turn comes to, and what it shows on its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct, to_builtins

from ..events.approvals import Approval
from ..events.messages import (
    AssistantMessage,
    Content,
    Message,
    Outcome,
    Policy,
    ToolCall,
    Usage,
)
from ..events.session import FinishReason
from ..events.tagged import tag, tree, written
from ..events.values import PARTS, plain
from .models import ReasoningDelta, TextDelta


class TurnResult(Struct, frozen=True, eq=False):
    """How a turn ended.

    ``messages`` is the whole conversation, ``new_messages`` this turn's part of it; ``steps``
    and ``usage`` are this turn's. Where it is paused (``awaiting-approval``), ``approvals`` are
    the decisions it waits for, and the messages go up to the pause. ``output`` is the answer as the
    agent's ``output_type``, if it has one; ``run_id`` the name that its caller gave the turn, empty
    where that gave none.
    """

    turn_id: str
    finish_reason: FinishReason | Literal["aborted", "awaiting-approval"]
    messages: Sequence[Message]
    base: int
    steps: int
    usage: Usage
    approvals: tuple[Approval, ...] = ()
    output: Any = None
    run_id: str = ""

    @property
    def new_messages(self) -> Sequence[Message]:
        """The turn's own messages, its inputs first."""
        return self.messages[self.base :]

    @property
    def text(self) -> str:
        """The text of the model's last answer."""
        return next((each.text for each in reversed(self._answers)), "")

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The turn's calls, in order."""
        return tuple(call for answer in self._answers for call in answer.tool_calls)

    @property
    def _answers(self) -> list[AssistantMessage]:
        return [each for each in self.new_messages if isinstance(each, AssistantMessage)]


class Item(Struct, frozen=True, gc=False, tag_field="type"):
    """Something a turn shows on its way."""

    @property
    def type(self) -> str:
        """What kind of item it is, as ``turn.started``."""
        return str(self.__struct_config__.tag)

    def json(self) -> bytes:
        """The item as a line of JSON in UTF-8, with its ``type``: for a wire. Values that JSON has
        no word for read as they do in the stream; of a result, the conversation is left out."""
        fields = {name: _on_the_wire(getattr(self, name)) for name in self.__struct_fields__}
        return written({"type": self.type, **fields})


def _on_the_wire(value: object) -> Any:
    match value:
        case TurnResult():
            new = [tree(each) for each in value.new_messages]
            usage = to_builtins(value.usage)
            approvals = [tree(each) for each in value.approvals]
            return {
                "text": value.text,
                "steps": value.steps,
                "usage": usage,
                "new_messages": new,
                "approvals": approvals,
                "output": tag(plain(value.output)),
            }
        case AssistantMessage() | Approval():
            return tree(value)
        case tuple() if value and all(isinstance(each, PARTS) for each in value):
            return to_builtins(value)
        case _:
            return tag(value)


class TurnBegan(Item, frozen=True, tag="turn.started"):
    """The turn runs; again, where it was resumed."""

    turn_id: str
    version: int


class TextEmitted(Item, frozen=True, tag="text.delta"):
    """Some more text of the answer; provisional until its ``model.turn``."""

    turn_id: str
    text: str


class ReasoningEmitted(Item, frozen=True, tag="reasoning.delta"):
    """Some more of the model's reasoning; provisional."""

    turn_id: str
    text: str


class ModelTurnShown(Item, frozen=True, tag="model.turn"):
    """The model's answer is recorded."""

    turn_id: str
    version: int
    step: int
    message: AssistantMessage


class ToolBegan(Item, frozen=True, tag="tool.started"):
    """A tool call runs."""

    turn_id: str
    version: int
    call_id: str
    attempt: int


class ToolEnded(Item, frozen=True, tag="tool.result"):
    """A tool call's result is recorded."""

    turn_id: str
    version: int
    call_id: str
    outcome: Outcome
    content: Any


class InputShown(Item, frozen=True, tag="input.queued"):
    """An input was accepted while the turn ran."""

    turn_id: str
    version: int
    input_id: str
    content: Content
    policy: Policy


class InputJoined(Item, frozen=True, tag="input.applied"):
    """An input joined the turn: the model is asked with it next."""

    turn_id: str
    version: int
    input_id: str


class AgentChanged(Item, frozen=True, tag="agent.changed"):
    """Another agent goes on with the turn."""

    turn_id: str
    version: int
    agent: str


class ApprovalShown(Item, frozen=True, tag="approval.requested"):
    """A call waits for a decision."""

    turn_id: str
    version: int
    approval: Approval


class ErrorShown(Item, frozen=True, tag="error"):
    """The turn can't go on."""

    turn_id: str
    code: str
    error: str


class TurnDone(Item, frozen=True, tag="turn.done"):
    """The last item of every stream. ``result`` is None where the turn failed."""

    turn_id: str
    finish_reason: str
    result: TurnResult | None = None


StreamItem: TypeAlias = (
    TurnBegan
    | TextEmitted
    | ReasoningEmitted
    | ModelTurnShown
    | ToolBegan
    | ToolEnded
    | InputShown
    | InputJoined
    | AgentChanged
    | ApprovalShown
    | ErrorShown
    | TurnDone
)


def emitted(turn_id: str, delta: object) -> StreamItem | None:
    """A model's delta as a stream item; None for one that is not shown."""
    match delta:
        case TextDelta(text=text):
            return TextEmitted(turn_id, text)
        case ReasoningDelta(text=text):
            return ReasoningEmitted(turn_id, text)
        case _:
            return None
