"""What a model is: a protocol, and plain functions that answer a request.

A model call ends in one ``ModelTurn``. Before it, a streaming model hands out deltas, which are
provisional: they are shown, never stored.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from ..events.errors import InvalidAgent, InvalidModelTurn, ModelStreamEnded, Unstorable
from ..events.messages import NO_USAGE, Message, ModelTurn, ToolCall, ToolSpec, Usage
from ..events.values import plain


class TextDelta(Struct, frozen=True, gc=False, tag_field="type", tag="text.delta"):
    """Some more of the answer's text."""

    text: str


class ReasoningDelta(Struct, frozen=True, gc=False, tag_field="type", tag="reasoning.delta"):
    """Some more of the model's reasoning."""

    text: str


class ToolCallDelta(Struct, frozen=True, gc=False, tag_field="type", tag="tool_call.delta"):
    """Some more of a tool call's arguments, as the provider's text."""

    call_id: str
    name: str
    arguments: str


_MOST_TOKENS = 2**53

Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta


class ModelRequest(Struct, frozen=True):
    """What a model is asked: the whole conversation so far, which no model may change.
    ``output`` is the JSON schema that its final answer is to fit, if there is one."""

    messages: Sequence[Message]
    instructions: str
    tools: tuple[ToolSpec, ...]
    session_id: str
    turn_id: str
    step: int
    settings: Mapping[str, Any] = {}
    output: Mapping[str, Any] | None = None


@runtime_checkable
class Model(Protocol):
    """A streaming model. ``id`` names it in the stream of a session."""

    @property
    def id(self) -> str: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Usage | ModelTurn]:
        """Deltas, then exactly one ``ModelTurn``. A ``Usage`` among them says what was used so
        far, should the stream break off."""
        ...


Answer: TypeAlias = ModelTurn | str
ModelFunction: TypeAlias = Callable[[ModelRequest], Answer | Awaitable[Answer]]
AnyModel: TypeAlias = Model | ModelFunction
Show: TypeAlias = Callable[[Delta | Usage], None]
Ask: TypeAlias = Callable[[ModelRequest, Show], Any]


def model_id(model: AnyModel) -> str:
    """The name of a model: its ``id``, or the function's name."""
    if isinstance(model, Model):
        if not isinstance(model.id, str):
            raise InvalidAgent(f"the id of a model is text, not {type(model.id).__name__}")
        return model.id
    if callable(model):
        return str(getattr(model, "__name__", type(model).__name__))
    raise InvalidAgent(
        f"a model is an object with id and stream(request), or a function of a request; "
        f"{type(model).__name__} is neither"
    )


def asking(model: AnyModel) -> tuple[Ask, bool]:
    """How to ask a model, given the request and where to show its deltas, and whether that gives
    a coroutine. To be found out once: asking a protocol is dear."""
    if isinstance(model, Model):
        return partial(_streamed, model), True
    return lambda request, _: model(request), is_async(model)


async def _streamed(model: Model, request: ModelRequest, show: Show) -> ModelTurn:
    stream: Any = model.stream(request)
    async with aclosing(stream):
        async for item in stream:
            if isinstance(item, ModelTurn):
                return item
            show(item)
    raise ModelStreamEnded(
        "the model's stream ended without a ModelTurn: the answer was cut off",
        session_id=request.session_id,
        turn_id=request.turn_id,
    )


def is_async(fn: object) -> bool:
    """Whether calling ``fn`` gives a coroutine."""
    if inspect.iscoroutinefunction(fn):
        return True
    return callable(fn) and inspect.iscoroutinefunction(type(fn).__call__)


def model_turn(answer: object) -> ModelTurn:
    """What a model answered, as a turn that can be recorded: text becomes a turn, arguments
    become plain data of our own.

    Raises ``InvalidModelTurn`` where the answer is no turn.
    """
    if isinstance(answer, str):
        answer = ModelTurn(answer)
    if not isinstance(answer, ModelTurn):
        raise InvalidModelTurn(
            f"the model answered with {type(answer).__name__}: return a ModelTurn or a str"
        )
    _check_fields(answer)
    try:
        parts = tuple(plain(part, "parts") for part in answer.parts or ())
    except Unstorable as error:
        raise InvalidModelTurn(f"ModelTurn.parts can't be stored: {error}") from error
    return ModelTurn(
        text=plain(answer.text),
        tool_calls=tuple(map(_tool_call, answer.tool_calls or ())),
        usage=answer.usage,
        finish_reason=plain(answer.finish_reason),
        parts=parts,
    )


def _check_fields(answer: ModelTurn) -> None:
    """Structs are not checked when they are made, and what can't be read back must not be
    written."""
    for name in ("text", "finish_reason"):
        if not isinstance(getattr(answer, name), str):
            raise InvalidModelTurn(f"ModelTurn.{name} must be a str")
    for name in ("tool_calls", "parts"):
        value = getattr(answer, name)
        if not isinstance(value or (), Iterable):
            raise InvalidModelTurn(f"ModelTurn.{name} must be a tuple, not {type(value).__name__}")
    if not is_usage(answer.usage):
        raise InvalidModelTurn("ModelTurn.usage must be a Usage of whole numbers, 0 or more")


def is_usage(usage: object) -> bool:
    """Whether it tells tokens that can be counted."""
    if usage is NO_USAGE:
        return True
    counts = astuple(usage) if isinstance(usage, Usage) else (None,)
    return all(type(count) is int and 0 <= count < _MOST_TOKENS for count in counts)


def _tool_call(call: object) -> ToolCall:
    match call:
        case ToolCall(name=str(), malformed=str()):
            name, malformed = str(plain(call.name)), str(plain(call.malformed))
        case _:
            raise InvalidModelTurn("ModelTurn.tool_calls must hold ToolCall(id, name, arguments)")
    call_id = "" if call.id is None else str(call.id)
    arguments: object = call.arguments
    if isinstance(arguments, str):
        return parsed_call(call_id, name, arguments)
    if not isinstance(arguments, dict):
        return ToolCall(call_id, name, malformed=malformed or _text(arguments))
    try:
        return ToolCall(call_id, name, plain(arguments, "arguments"), malformed)
    except Unstorable as error:
        return ToolCall(call_id, name, malformed=str(error))


def parsed_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """A call whose arguments came as JSON text. Text that is no JSON object is kept as
    ``malformed``."""
    try:
        parsed = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        return ToolCall(call_id, name, malformed=str(plain(arguments)))
    return _tool_call(ToolCall(call_id, name, parsed))


def exact_call(call_id: str, name: str, arguments: Any, malformed: str = "") -> ToolCall:
    """A call with these arguments, as plain data of our own. ``InvalidModelTurn`` for what is no
    call."""
    return _tool_call(ToolCall(call_id, name, arguments, malformed))


def _text(arguments: object) -> str:
    try:
        return msgspec.json.encode(plain(arguments, "arguments")).decode()
    except (Unstorable, TypeError, UnicodeEncodeError, OverflowError):
        return type(arguments).__name__
