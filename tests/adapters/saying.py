"""What a model is made to say, whatever the provider: the lines of a script, and what was heard.

A ``Wire`` turns them into a provider's format and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from serving import Hold

from turnstream.actors import Model
from turnstream.events import Message, ToolCall, Usage

USAGE = Usage(10, 5, 4, 2)

Kind: TypeAlias = Literal[
    "rate-limited",
    "overloaded",
    "broken",
    "too-long",
    "wrong-key",
    "unknown-model",
    "invalid",
    "used-up",
]


@dataclass(frozen=True)
class Said:
    """A whole answer. ``seal`` is something of the provider's own that is to come back with it;
    ``usage`` counts cached tokens among the input, and reasoning tokens among the output."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thought: str = ""
    seal: str = ""
    usage: Usage = USAGE
    finish: Literal["stop", "length", "refusal"] = "stop"


@dataclass(frozen=True)
class Fault:
    """An error instead of an answer, or with ``inside`` in the middle of the stream of one."""

    kind: Kind
    retry_after: float | None = None
    inside: bool = False


@dataclass(frozen=True)
class Broken:
    """An answer of which only the first pieces come: then the connection is cut, or the stream
    ends as if all had come, or goes on with what is none of its format."""

    said: Said
    pieces: int
    how: Literal["cut", "ended", "garbage"] = "cut"


@dataclass(frozen=True)
class Held:
    """An answer that stops after its first pieces, until it is let go."""

    said: Said
    pieces: int
    hold: Hold = field(default_factory=Hold)


Line: TypeAlias = str | Said | Fault | Broken | Held


@dataclass(frozen=True)
class Heard:
    """One request as the provider reads it. ``seals`` are in the order of the conversation;
    a message has no parts of a provider's own, and a result no outcome."""

    messages: tuple[Message, ...]
    instructions: str = ""
    tools: tuple[str, ...] = ()
    seals: tuple[str, ...] = ()
    output: Mapping[str, Any] | None = None


class Wire(Protocol):
    """A provider's format, seen from the provider. One for each adapter."""

    name: str
    """Which adapter this is: the prefix of its models' names."""

    path: str
    """What requests are posted to."""

    key_header: str
    """The header that carries the key."""

    def model(self, url: str, **options: Any) -> Model:
        """The adapter, on a server at ``url`` (without a path). Without ``api_key`` among the
        options it has some."""
        ...

    def environment(self, url: str, key: str) -> dict[str, str]:
        """The variables in which the provider's client looks for these."""
        ...

    def answer(self, said: Said) -> list[bytes]:
        """The pieces that a whole answer is streamed in, one an event of the format at most. Text,
        thoughts and arguments take several each, and the first piece holds none of them."""
        ...

    def fault(self, kind: Kind, key: str) -> tuple[int, dict[str, Any]]:
        """The status and body of an error. The provider repeats the ``key`` in it where it can."""
        ...

    def fault_inside(self, kind: Kind) -> bytes:
        """The same as a piece of a stream."""
        ...

    def heard(self, body: dict[str, Any]) -> Heard:
        """What a request says. ``AssertionError`` or ``KeyError`` for one that the provider would
        not take."""
        ...


def pieces(text: str) -> list[str]:
    """Text as it is streamed: three characters a time."""
    return [text[start : start + 3] for start in range(0, len(text), 3)]
