"""Structured output: the type that an agent's final answer is to have. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ..events.errors import InvalidAgent
from ..events.values import plain

_FENCE = "```"


class Fits(Struct, frozen=True, gc=False):
    """The answer is of the type; ``value`` is what it says, as plain data."""

    value: Any


class Unfit(Struct, frozen=True, gc=False):
    """The answer is not of the type, and ``why``, in words for the model."""

    why: str


class Output:
    """A type, as a model is told of it and as its answers are held against it. Raises
    ``InvalidAgent`` where it has no JSON schema."""

    def __init__(self, agent: str, kind: Any) -> None:
        self._kind = kind
        self.schema: dict[str, Any] = _schema(agent, kind)

    def check(self, text: str) -> Fits | Unfit:
        """Whether the answer is JSON of the type, bare or in a fenced block."""
        try:
            said = msgspec.json.decode(_unfenced(text))
            msgspec.convert(said, self._kind, strict=False)
        except msgspec.ValidationError as error:
            return Unfit(str(error))
        except (msgspec.DecodeError, ArithmeticError, ValueError, RecursionError):
            return Unfit("it is no JSON.")
        return Fits(plain(said, "output"))

    def typed(self, value: Any) -> Any:
        """A recorded value as the type; as it is where it no longer fits."""
        try:
            return msgspec.convert(value, self._kind, strict=False)
        except (msgspec.ValidationError, ArithmeticError, ValueError):
            return value


def _unfenced(text: str) -> bytes:
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and "\n" in text:
        text = text[text.index("\n") : -len(_FENCE)]
    return text.encode()


def _schema(agent: str, kind: Any) -> dict[str, Any]:
    try:
        (schema,), components = msgspec.json.schema_components(
            [kind], ref_template="#/$defs/{name}"
        )
    except (TypeError, ValueError) as error:
        raise InvalidAgent(
            f"agent {agent!r}: output_type has no JSON schema: {error}; a Struct, a dataclass or a "
            "TypedDict has one"
        ) from error
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name in components and f"#/$defs/{name}" not in str(components):
        schema = components.pop(name)
    return schema | {"$defs": components} if components else schema
