"""What a model is told of a function, and how its answer becomes arguments: from type hints."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Protocol, get_type_hints

import msgspec

from ..events.errors import InvalidAgent
from .tool_context import ToolContext


class Arguments(Protocol):
    """Turns a call's arguments into what the function takes, or raises
    ``msgspec.ValidationError``."""

    def __call__(self, arguments: Mapping[str, Any]) -> dict[str, Any]: ...


def description_of(fn: Callable[..., Any]) -> str:
    """What the function says of itself."""
    return inspect.getdoc(fn) or ""


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    target: Any = fn if inspect.isroutine(fn) else type(fn).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except (NameError, TypeError):
        return dict(getattr(target, "__annotations__", {}))


def first_parameter(fn: Callable[..., Any], kind: type) -> str | None:
    """The name of the first parameter, where it is annotated with that type."""
    first = next(iter(inspect.signature(fn).parameters), None)
    return first if first is not None and _hints(fn).get(first) is kind else None


def parameters_of(fn: Callable[..., Any], name: str) -> type[msgspec.Struct]:
    """Its parameters, but for the context, as a type. Raises ``InvalidAgent``."""
    if not name or not name.isidentifier():
        raise InvalidAgent(f"{name!r} is no name for a tool: give it one with @tool(name=...)")
    context, hints, fields = first_parameter(fn, ToolContext), _hints(fn), []
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.name == context:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidAgent(
                f"tool {name!r}: *{parameter.name} has no schema; name each parameter, or use "
                "Tool.from_schema"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise InvalidAgent(
                f"tool {name!r}: {parameter.name!r} is positional only; models name arguments"
            )
        fields.append(_field(parameter, hints.get(parameter.name, Any)))
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True)


def _field(parameter: inspect.Parameter, hint: Any) -> Any:
    default = parameter.default
    if default is parameter.empty:
        return (parameter.name, hint)
    if default is None or isinstance(default, (bool, int, float, str)):
        return (parameter.name, hint, default)
    return (parameter.name, hint, msgspec.field(default_factory=lambda: deepcopy(default)))


def schema_of(parameters: type[msgspec.Struct], name: str) -> dict[str, Any]:
    """Their JSON schema. Raises ``InvalidAgent``."""
    try:
        _, components = msgspec.json.schema_components([parameters], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise InvalidAgent(f"tool {name!r}: a parameter has no JSON schema: {error}") from error
    schema: dict[str, Any] = components.pop(parameters.__name__)
    schema.pop("title", None)
    return schema | {"$defs": components} if components else schema


def converter(parameters: type[msgspec.Struct]) -> Arguments:
    """What turns a call's arguments into them."""
    names = parameters.__struct_fields__

    def convert(arguments: Mapping[str, Any]) -> dict[str, Any]:
        converted = msgspec.convert(arguments, parameters, strict=False)
        return {name: getattr(converted, name) for name in names}

    return convert
