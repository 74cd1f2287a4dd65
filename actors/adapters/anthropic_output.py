"""How a typed answer is asked of Messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..models import ModelRequest
from .carrying import instructions_for

_NAMES = ("$ref", "anyOf", "enum", "const", "type")


def wanted_output(request: ModelRequest) -> tuple[dict[str, Any] | None, str]:
    """The setting for the wanted output, and the instructions.

    A schema is held to there only where it closes its objects, names every type, and does not
    refer to itself; any other one is told with the instructions.
    """
    schema = request.output
    if schema is None:
        return None, request.instructions
    if _is_held_to(schema):
        from anthropic import transform_schema

        wanted = transform_schema(dict(schema))
        return {"format": {"type": "json_schema", "schema": wanted}}, request.instructions
    return None, instructions_for(request)


def _is_held_to(schema: Mapping[str, Any]) -> bool:
    definitions = schema.get("$defs", {})
    every = [schema, *definitions.values()]
    return all(map(_is_closed, every)) and not _refers_to_itself(definitions)


def _is_closed(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or not any(name in schema for name in _NAMES):
        return False
    if not isinstance(schema.get("type", ""), str) or "prefixItems" in schema:
        return False
    if schema.get("type") == "object" and (
        "properties" not in schema or schema.get("additionalProperties", False) is not False
    ):
        return False
    return all(map(_is_closed, _inner(schema)))


def _inner(schema: Mapping[str, Any]) -> Iterator[Any]:
    yield from schema.get("anyOf", ())
    yield from schema.get("properties", {}).values()
    if schema.get("type") == "array":
        yield schema.get("items")


def _refers_to_itself(definitions: Mapping[str, Any]) -> bool:
    left = {name: set(_references(each)) for name, each in definitions.items()}
    while ends := [name for name, each in left.items() if not each & left.keys()]:
        for name in ends:
            del left[name]
    return bool(left)


def _references(schema: Any) -> Iterator[str]:
    match schema:
        case Mapping():
            if isinstance(reference := schema.get("$ref"), str):
                yield reference.rpartition("/")[2]
            for each in schema.values():
                yield from _references(each)
        case list() | tuple():
            for each in schema:
                yield from _references(each)
        case _:
            pass
