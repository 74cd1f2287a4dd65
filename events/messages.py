"""What is said in a conversation: messages, tool calls, model turns, usage.

Everything here is a value. A message never changes once it exists; a conversation grows by
new messages only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

Policy: TypeAlias = Literal["wait", "queue", "steer"]
Outcome: TypeAlias = Literal["ok", "error", "rejected", "cancelled", "skipped"]


class TextPart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="text"):
    """A piece of text among other parts."""

    text: str


class ImagePart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="image"):
    """An image, by address or by value.

    Exactly one of ``url`` and ``data`` is given; ``ValueError`` otherwise.
    """

    media_type: str = "image/png"
    url: str = ""
    data: bytes = b""

    def __post_init__(self) -> None:
        _one_source(self, self.url, self.data)


class FilePart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="file"):
    """A file, by address or by value.

    Exactly one of ``url`` and ``data`` is given; ``ValueError`` otherwise.
    """

    name: str
    media_type: str = "application/octet-stream"
    url: str = ""
    data: bytes = b""

    def __post_init__(self) -> None:
        _one_source(self, self.url, self.data)


Part: TypeAlias = TextPart | ImagePart | FilePart
Content: TypeAlias = str | tuple[Part, ...]


class ToolCall(Struct, frozen=True, gc=False, omit_defaults=True):
    """One call a model asks for.

    ``malformed`` keeps, word for word, arguments that were no JSON object. Such a call is
    answered with an error and never run; ``arguments`` is then empty, so that the transcript
    stays valid for every provider.
    """

    id: str
    name: str
    arguments: dict[str, Any] = {}
    malformed: str = ""


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens of one or more model calls. Cached input tokens are part of the input tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together; cached and reasoning tokens are contained in these."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        if other is NO_USAGE:
            return self
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


NO_USAGE = Usage()


class UserMessage(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="user"):
    """What the user said."""

    content: Content


class AssistantMessage(
    Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="assistant"
):
    """What the model said, and the calls it asked for.

    ``parts`` are a provider's own pieces (reasoning, signatures). They are opaque: kept as they
    came, in their turn, and handed back with it.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    parts: tuple[Any, ...] = ()


class ToolMessage(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="tool"):
    """The result of one call, as the model reads it."""

    call_id: str
    name: str
    content: Content
    outcome: Outcome = "ok"


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


class ModelTurn(Struct, frozen=True, gc=False, omit_defaults=True):
    """What one model call answers."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = NO_USAGE
    finish_reason: str = "stop"
    parts: tuple[Any, ...] = ()


class ToolSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool as a model is told of it: ``schema`` is the JSON schema of its arguments."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = {}


def _one_source(part: object, url: str, data: bytes) -> None:
    if bool(url) == bool(data):
        raise ValueError(f"{type(part).__name__} takes either url= or data=, exactly one of them")
