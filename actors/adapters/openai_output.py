"""The JSON schema of an answer, as OpenAI's servers take it.

They hold an answer to a schema only where that is strict: where it names every field there can
be, says that each is there, and uses no words but some. Others they take as a hint. And they take
none that is not of an object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..models import ModelRequest
from .carrying import instructions_for

_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_WORDS = {
    *("$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum"),
    *("exclusiveMaximum", "exclusiveMinimum", "items", "maxItems", "maximum", "minItems"),
    *("minimum", "multipleOf", "pattern", "properties", "required", "title", "type"),
}
_KINDS = {"type", "anyOf", "enum", "const", "$ref"}
_OF_NAMES = ("properties", "$defs")


def asked_output(request: ModelRequest) -> tuple[str, dict[str, Any] | None]:
    """The instructions, and the format of the answer: its name, schema, and whether that is
    strict. Where there is no format that they take, the instructions say what the answer is to
    be."""
    schema = request.output
    if schema is None or schema.get("type") != "object":
        return instructions_for(request), None
    name = _ODD.sub("_", str(schema.get("title") or ""))[:64] or "output"
    strict = _is_strict(schema)
    schema = _closed(schema) if strict else schema
    return request.instructions, {"name": name, "schema": schema, "strict": strict}


def _is_strict(schema: Any) -> bool:
    return not isinstance(schema, Mapping) or (
        _WORDS.issuperset(schema)
        and not _KINDS.isdisjoint(schema)
        and (schema.get("type") != "object" or _is_whole(schema))
        and all(map(_is_strict, _inner(schema)))
    )


def _is_whole(schema: Mapping[str, Any]) -> bool:
    """Whether it names every field of an object, and each has to be there."""
    named, closed = schema.get("properties"), schema.get("additionalProperties", False) is False
    return named is not None and closed and set(named) == set(schema.get("required", ()))


def _inner(schema: Mapping[str, Any]) -> list[Any]:
    """The schemas directly inside a schema."""
    named = [each for key in _OF_NAMES for each in schema.get(key, {}).values()]
    return [*named, schema.get("items"), *schema.get("anyOf", ())]


def _closed(schema: Any) -> Any:
    """A strict schema, saying of each object that it has no other fields."""
    if not isinstance(schema, Mapping):
        return schema
    closed = dict(schema)
    for key in _OF_NAMES:
        if key in closed:
            closed[key] = {name: _closed(each) for name, each in closed[key].items()}
    if "items" in closed:
        closed["items"] = _closed(closed["items"])
    if "anyOf" in closed:
        closed["anyOf"] = [_closed(each) for each in closed["anyOf"]]
    if closed.get("type") == "object":
        closed["additionalProperties"] = False
        closed.setdefault("required", [])
    return closed
