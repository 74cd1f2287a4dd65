"""What a process is to do in a session, where it is to be killed, and what it noted before."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

import msgspec
from msgspec import Struct

from turnstream.events import Message, ModelTurn, ToolCall, Usage

SESSION = "s"


class AtAppend(Struct, frozen=True, tag=True):
    """The ``nth`` append, of those with an event of ``topic`` if that is given: right before it
    is submitted, or right after it is durable and before anybody is told."""

    side: Literal["before", "after"]
    nth: int
    topic: str = ""


class InModel(Struct, frozen=True, tag=True):
    """The ``nth`` model call, when half of its answer was shown."""

    nth: int


class InTool(Struct, frozen=True, tag=True):
    """The call with this text, when it has begun."""

    text: str


class AtMoment(Struct, frozen=True, tag=True):
    """So many seconds after its birth, whatever it does then."""

    seconds: float


KillPoint: TypeAlias = AtAppend | AtMoment | InModel | InTool


class Plan(Struct, frozen=True, tag=True):
    """One process's part in a session that is kept in ``store``, an address.

    ``script`` is what the model answers, over all turns and processes; ``inputs`` is what this
    process sends, after it has resumed what is unfinished, if it ``resumes``; where they are
    ``named``, each as the run of that name. Calls with a text
    in ``holds`` never return; each in ``order`` returns when the result of the one before it is
    durable. Each of ``tools`` returns its ``text``.
    """

    folder: str
    store: str
    life: int
    script: tuple[ModelTurn, ...]
    inputs: tuple[str, ...] = ()
    resumes: bool = False
    at_once: bool = False
    named: bool = False
    kill: KillPoint | None = None
    holds: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    tools: tuple[str, ...] = ("work", "fetch")
    max_steps: int = 32
    token_budget: int | None = None


class Talks(Struct, frozen=True, tag=True):
    """One process's part in recorded conversations, all at the same time."""

    folder: str
    store: str
    life: int
    source: str
    chosen: tuple[int, ...]
    kill: AtAppend | AtMoment | None = None


class Asked(Struct, frozen=True, tag=True):
    """The model was asked."""

    life: int
    session_id: str
    turn_id: str
    step: int
    request: str


class Ran(Struct, frozen=True, tag=True):
    """A tool began."""

    life: int
    session_id: str
    turn_id: str
    call_id: str
    attempt: int
    key: str
    text: str = ""


class Accepted(Struct, frozen=True, tag=True):
    """The sender was told that its input is durable."""

    life: int
    input_id: str


class Shown(Struct, frozen=True, tag=True):
    """A stream item that stands for an event was shown."""

    life: int
    version: int


class Finished(Struct, frozen=True, tag=True):
    """The sender was told how a turn ended."""

    life: int
    turn_id: str
    reason: str
    conversation: str
    steps: int
    usage: Usage


class Failed(Struct, frozen=True, tag=True):
    """The sender was told that a turn failed."""

    life: int
    code: str
    error: str


Line: TypeAlias = Asked | Ran | Accepted | Shown | Finished | Failed

_decode_line = msgspec.json.Decoder(Line).decode


class Log:
    """Lines in a file. Each is written by one system call, and so outlives the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def write(self, line: Line) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")


def lines(path: Path) -> Iterator[Line]:
    """What was logged so far."""
    if path.exists():
        yield from map(_decode_line, path.read_bytes().splitlines())


def digest(messages: Sequence[Message]) -> str:
    """Equal for equal messages, across processes."""
    return sha256(msgspec.json.encode(list(messages))).hexdigest()[:16]


def calls(*texts: str, tool: str = "work") -> ModelTurn:
    """A model turn that calls a tool once for each text; a text that begins with ``~`` goes to
    the async tool. The call's id is its text."""
    return ModelTurn(
        tool_calls=tuple(
            ToolCall(text, "fetch" if text.startswith("~") else tool, {"text": text})
            for text in texts
        )
    )


def says(text: str) -> ModelTurn:
    """A model turn that ends the turn."""
    return ModelTurn(text)


def die() -> NoReturn:
    """End this process as a power cut would: nothing is flushed, closed or cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")
