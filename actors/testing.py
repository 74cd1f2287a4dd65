"""Models for tests: scripted, and recorded.

>>> from turnstream import ActorSystem, Agent, tool
>>> from turnstream.actors.testing import ScriptedModel, call
>>> @tool
... def add(a: int, b: int) -> int:
...     return a + b
>>> model = ScriptedModel([[call("add", a=1, b=2)], "It is 3."])
>>> with ActorSystem(Agent("calculator", model=model, tools=[add])) as system:
...     system.session("s").send("1 + 2?").result().text
'It is 3.'
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import chain, count
from threading import Lock
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from ..events.envelope import RecordedEvent
from ..events.errors import InvalidTranscript, ScriptExhausted, ToolError
from ..events.messages import AssistantMessage, Message, ModelTurn, ToolCall, ToolMessage
from ..events.session import AnyEvent
from ..projections import fold
from ..projections.transcript import check_transcript
from .models import Delta, ModelRequest, TextDelta
from .tool_context import ToolContext
from .tools import Tool

T = TypeVar("T")
Reply: TypeAlias = str | Sequence[ToolCall] | ModelTurn | BaseException
Line: TypeAlias = Reply | Callable[[ModelRequest], Reply]


def call(name: str, /, id: str | None = None, **arguments: Any) -> ToolCall:
    """A tool call for a script. Without ``id`` it gets one when it is recorded."""
    return ToolCall(id or "", name, arguments)


class ScriptedModel:
    """Answers with the lines of a script, one a model call.

    A line is a text, a list of calls made with ``call``, a ``ModelTurn``, an exception to raise,
    or a function of the request that gives one of these. ``requests`` keeps what was asked.
    Raises ``InvalidTranscript`` where a request's messages are not what a provider accepts, and
    ``ScriptExhausted`` where the script is used up.
    """

    def __init__(self, script: Iterable[Line], *, id: str = "scripted") -> None:
        self._script, self._id = list(script), id
        self._lock = Lock()
        self.requests: list[ModelRequest] = []

    @property
    def id(self) -> str:
        """The model's name in the stream."""
        return self._id

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelTurn]:
        """The next line, its text as one delta first."""
        check_transcript(request.messages)
        turn = _turn(self._next(request), request)
        if turn.text:
            yield TextDelta(turn.text)
        yield turn

    def _next(self, request: ModelRequest) -> Line:
        with self._lock:
            place = len(self.requests)
            self.requests.append(request)
        if place >= len(self._script):
            raise ScriptExhausted(
                f"the script has {len(self._script)} lines, and this is model call {place + 1}",
                session_id=request.session_id,
                turn_id=request.turn_id,
            )
        return self._script[place]


def _turn(line: Line, request: ModelRequest) -> ModelTurn:
    match line:
        case str():
            return ModelTurn(line)
        case ModelTurn():
            return line
        case BaseException():
            raise line
        case list() | tuple():
            return ModelTurn(tool_calls=tuple(line), finish_reason="tool_calls")
        case _ if callable(line):
            return _turn(line(request), request)
    raise TypeError(f"a script has no use for {type(line).__name__}")


class RecordedModel:
    """Answers as a recorded conversation did: the n-th answer for a request that holds n - 1.

    It keeps nothing between calls, so a conversation can be taken up anywhere, in any process.
    Made from messages, or from recorded events. ``tools`` are the recorded tools: each call is
    answered with the result that was recorded for it. A call whose id was used before in the
    recording gets one of its own.
    """

    def __init__(
        self, recorded: Iterable[Message | RecordedEvent], *, id: str = "recorded"
    ) -> None:
        messages = list(_told_apart(_messages(list(recorded))))
        self._id = id
        self._answers = [each for each in messages if isinstance(each, AssistantMessage)]
        self._results = {each.call_id: each for each in messages if isinstance(each, ToolMessage)}

    @property
    def id(self) -> str:
        """The model's name in the stream."""
        return self._id

    @property
    def tools(self) -> list[Tool]:
        """A tool for each name that was called."""
        names = dict.fromkeys(each.name for answer in self._answers for each in answer.tool_calls)
        return [Tool.from_schema(name, self._replay, {"type": "object"}) for name in names]

    def _replay(self, context: ToolContext, /, **arguments: Any) -> Any:
        recorded = self._results[context.call_id]
        if recorded.outcome != "ok":
            raise ToolError(str(recorded.content))
        return recorded.content

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelTurn]:
        """The recorded answer that comes next."""
        check_transcript(request.messages)
        place = sum(isinstance(each, AssistantMessage) for each in request.messages)
        if place >= len(self._answers):
            raise ScriptExhausted(
                f"the recording has {len(self._answers)} answers, and this is number {place + 1}",
                session_id=request.session_id,
                turn_id=request.turn_id,
            )
        answer = self._answers[place]
        yield ModelTurn(answer.text, answer.tool_calls, parts=answer.parts)


def _messages(recorded: Sequence[Message | RecordedEvent]) -> Sequence[Message]:
    events: list[AnyEvent] = [each.event for each in recorded if isinstance(each, RecordedEvent)]
    if events and len(events) < len(recorded):
        raise InvalidTranscript("a recording is made of messages or of events, not of both")
    if events:
        return list(fold(events).transcript)
    return [each for each in recorded if not isinstance(each, RecordedEvent)]


def _told_apart(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, each call with an id of its own: providers give the same one out again."""
    taken: set[str] = set()
    latest: dict[str, str] = {}
    for message in messages:
        match message:
            case AssistantMessage(tool_calls=calls):
                latest = {each.id: _untaken(each.id, taken) for each in calls}
                taken.update(latest.values())
                calls = tuple([replace(each, id=latest[each.id]) for each in calls])
                yield replace(message, tool_calls=calls)
            case ToolMessage(call_id=call_id):
                yield replace(message, call_id=latest.get(call_id, call_id))
            case _:
                yield message


def _untaken(call_id: str, taken: set[str]) -> str:
    numbered = (f"{call_id}.{number}" for number in count(2))
    return next(each for each in chain((call_id,), numbered) if each not in taken)


def said(messages: Iterable[Message]) -> list[str]:
    """The texts of messages, in order, whoever said them; parts count as nothing."""
    contents = (
        each.text if isinstance(each, AssistantMessage) else each.content for each in messages
    )
    return [each if isinstance(each, str) else "" for each in contents]


def crash_points(stream: Sequence[T]) -> Iterator[Sequence[T]]:
    """Every prefix of a stream, the shortest first: more than any crash can leave, since events
    of one append are durable together."""
    return (stream[:length] for length in range(len(stream) + 1))
