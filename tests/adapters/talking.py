"""Models that say what a script says: one scripted in the process, and each adapter on a server
that speaks its provider's format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, Protocol

from msgspec.structs import replace
from saying import Broken, Fault, Heard, Held, Line, Said, Wire
from serving import CUT, ModelServer, Reply, Request, refused, streamed

from turnstream.actors import Model, ModelRequest
from turnstream.actors.testing import ScriptedModel
from turnstream.events import (
    AssistantMessage,
    ContextTooLong,
    Message,
    ModelRefused,
    ModelStreamEnded,
    ModelTurn,
    ModelUnavailable,
    ToolMessage,
)
from turnstream.projections.transcript import check_transcript

KEY = "sk-a-secret-of-the-tests-0123456789"


class Talk(Protocol):
    """Makes models of scripts."""

    name: str

    def model(self, script: Iterable[Line], **options: Any) -> Model:
        """A model that says these lines, one a call."""
        ...

    @property
    def heard(self) -> list[Heard]:
        """What all its models were asked, in order."""
        ...

    def settings(self, *names: str) -> list[tuple[Any, ...]]:
        """These settings, as each request had them."""
        ...

    def close(self) -> None: ...


class Scripted:
    """The specification: a ``ScriptedModel``."""

    name = "scripted"

    def __init__(self) -> None:
        self._models: list[ScriptedModel] = []

    def model(self, script: Iterable[Line], **options: Any) -> Model:
        self._models.append(ScriptedModel(list(map(_scripted, script))))
        return self._models[-1]

    @property
    def heard(self) -> list[Heard]:
        return [_heard(each) for each in self._requests]

    @property
    def _requests(self) -> list[ModelRequest]:
        return [each for model in self._models for each in model.requests]

    def settings(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(each.settings[name] for name in names) for each in self._requests]

    def close(self) -> None:
        pass


class OnWire:
    """An adapter, over HTTP. Each model has a server of its own."""

    def __init__(self, wire: Wire) -> None:
        self.wire, self.name = wire, wire.name
        self.servers: list[ModelServer] = []
        self._ends = ExitStack()

    def model(self, script: Iterable[Line], **options: Any) -> Model:
        lines = iter(script)
        return self.served(lambda _: reply_of(self.wire, next(lines)), **options)

    def served(self, reply: Callable[[Request], Reply], **options: Any) -> Model:
        """A model on a server that replies so, after it looked whether the request is valid."""

        def checked(request: Request) -> Reply:
            assert request.path.endswith(self.wire.path), request.path
            self._valid(self.wire.heard(request.json()))
            return reply(request)

        server = ModelServer(checked)
        self.servers.append(server)
        self._ends.callback(server.close)
        return self.wire.model(server.url, **options)

    def _valid(self, heard: Heard) -> None:
        check_transcript(heard.messages)

    @property
    def requests(self) -> list[Request]:
        """What the servers were asked, as it came."""
        return [each for server in self.servers for each in server.requests]

    @property
    def heard(self) -> list[Heard]:
        return [self.wire.heard(each.json()) for each in self.requests]

    def settings(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(each.json()[name] for name in names) for each in self.requests]

    def close(self) -> None:
        self._ends.close()
        for server in self.servers:
            if server.complaint is not None:
                raise server.complaint


def reply_of(wire: Wire, line: Line) -> Reply:
    """What a server answers that says ``line``."""
    match line:
        case str():
            return streamed(*wire.answer(Said(line)))
        case Said():
            return streamed(*wire.answer(line))
        case Held(said=said, pieces=few, hold=hold):
            sent = wire.answer(said)
            return streamed(*sent[:few], hold, *sent[few:])
        case Broken(said=said, pieces=few, how=how):
            ends = {"cut": (CUT,), "ended": (), "garbage": (b"data: {no JSON\n\n",)}
            return streamed(*wire.answer(said)[:few], *ends[how])
        case Fault(kind=kind, inside=True):
            return streamed(*wire.answer(Said("begun"))[:2], wire.fault_inside(kind))
        case Fault(kind=kind, retry_after=after):
            status, body = wire.fault(kind, KEY)
            headers = {} if after is None else {"retry-after": str(after)}
            return refused(status, body, **headers)


def error_of(fault: Fault) -> Exception:
    """What a model raises for a fault."""
    match fault.kind:
        case "rate-limited" | "overloaded" | "broken":
            return ModelUnavailable(fault.kind, retry_after=fault.retry_after)
        case "too-long":
            return ContextTooLong(fault.kind)
        case _:
            return ModelRefused(fault.kind)


def _scripted(line: Line) -> Any:
    match line:
        case str():
            return line
        case Said():
            reason = "tool_calls" if line.calls and line.finish == "stop" else line.finish
            seals = ({"seal": line.seal},) if line.seal else ()
            return ModelTurn(line.text, line.calls, line.usage, reason, seals)
        case Fault():
            return error_of(line)
        case Broken():
            return ModelStreamEnded("cut")
        case Held():
            raise NotImplementedError("what is said in the process can't be held")


def _heard(request: ModelRequest) -> Heard:
    return Heard(
        tuple(map(bare, request.messages)),
        request.instructions,
        tuple(each.name for each in request.tools),
        tuple(
            part["seal"]
            for message in request.messages
            if isinstance(message, AssistantMessage)
            for part in message.parts
        ),
        request.output,
    )


def bare(message: Message) -> Message:
    """A message as it can be read from a provider's format."""
    match message:
        case AssistantMessage(text=text, tool_calls=calls):
            return AssistantMessage(text, tuple(replace(each, malformed="") for each in calls))
        case ToolMessage():
            return replace(message, outcome="ok")
        case _:
            return message
