"""Tools: functions a model may call.

The schema a model sees and the check of what it sends both come from the function's own type
hints, through msgspec.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Protocol, get_type_hints, overload

import msgspec

from ..events.errors import InvalidAgent, NotSupported
from ..events.messages import ToolCall, ToolSpec
from ..events.values import plain
from .commands import OnCrash
from .models import is_async


class ToolContext(msgspec.Struct, frozen=True):
    """What a tool can learn of the call it serves, as its first parameter.

    ``idempotency_key`` is the same each time the call is run again, and differs in a fork: hand
    it to services that recognise a repeated request. ``attempt`` counts the runs from 1.
    """

    session_id: str
    turn_id: str
    call_id: str
    idempotency_key: str
    attempt: int
    state: Any
    _is_cancelled: Callable[[], bool]

    @property
    def cancelled(self) -> bool:
        """Whether the turn no longer wants the result: a long loop may look and stop."""
        return self._is_cancelled()


class Arguments(Protocol):
    """Turns a call's arguments into what the function takes, or raises
    ``msgspec.ValidationError``."""

    def __call__(self, arguments: Mapping[str, Any]) -> dict[str, Any]: ...


class Tool:
    """A function with a name, a description and a schema. Made by ``@tool`` or ``from_schema``."""

    def __init__(
        self,
        fn: Callable[..., Any],
        spec: ToolSpec,
        convert: Arguments,
        *,
        takes_context: bool,
        on_crash: OnCrash,
        timeout: float | None,
    ) -> None:
        if timeout is not None and not timeout > 0:
            raise InvalidAgent(f"tool {spec.name!r}: timeout must be more than 0 seconds")
        if on_crash not in ("rerun", "fail"):
            raise NotSupported(
                f"tool {spec.name!r}: on_crash={on_crash!r} is not available; use 'rerun' or 'fail'"
            )
        self.fn: Callable[..., Any] = fn
        self.spec: ToolSpec = spec
        self.on_crash: OnCrash = on_crash
        self.timeout: float | None = timeout
        self._convert, self._takes_context = convert, takes_context
        self.is_async: bool = is_async(fn)

    @property
    def name(self) -> str:
        """The name models call it by."""
        return self.spec.name

    @classmethod
    def from_schema(
        cls,
        name: str,
        fn: Callable[..., Any],
        schema: Mapping[str, Any],
        *,
        description: str = "",
        on_crash: OnCrash = "rerun",
        timeout: float | None = None,
    ) -> Tool:
        """A tool whose JSON schema comes from elsewhere: ``fn(**arguments)`` is called with what
        the model sent, unchecked."""
        return cls(
            fn,
            ToolSpec(name, description or _description(fn), dict(schema)),
            _unchecked,
            takes_context=_context_parameter(fn) is not None,
            on_crash=on_crash,
            timeout=timeout,
        )

    def refusal(self, call: ToolCall) -> str | None:
        """Why the call can't be run as it is, in words for the model; None if it can."""
        if call.malformed:
            return "The arguments are no JSON object. Send one that fits the tool's schema."
        try:
            self._convert(call.arguments)
        except msgspec.ValidationError as error:
            return f"The arguments do not fit the tool's schema: {error}"
        except (ArithmeticError, ValueError) as error:  # such as half a surrogate pair for a number
            return f"The arguments can't be read as the tool's schema says: {type(error).__name__}"
        return None

    def run(self, call: ToolCall, context: ToolContext) -> Any:
        """Run the call, on arguments of its own. An async tool gives a coroutine."""
        arguments = self._convert(plain(call.arguments) if call.arguments else {})
        if self._takes_context:
            return self.fn(context, **arguments)
        return self.fn(**arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as if it were not a tool."""
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


@overload
def tool(fn: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: bool = False,
    on_crash: OnCrash = "rerun",
    timeout: float | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: bool = False,
    on_crash: OnCrash = "rerun",
    timeout: float | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function, sync or async, a tool.

    ``on_crash`` says what becomes of a call whose process was lost while it ran: ``"rerun"`` it
    with the same idempotency key, or ``"fail"`` it with a result that says it may have run.
    ``timeout`` is in seconds.

    Raises ``InvalidAgent`` where the signature can't be turned into a schema, and
    ``NotSupported`` for ``needs_approval``, so that nothing runs unapproved by mistake.
    """
    if needs_approval:
        raise NotSupported(
            "needs_approval is not available in this version: leave the tool out, or ask for the "
            "decision inside it"
        )

    def make(fn: Callable[..., Any]) -> Tool:
        tool_name = name or str(getattr(fn, "__name__", ""))
        parameters = _parameters(fn, tool_name)
        return Tool(
            fn,
            ToolSpec(
                tool_name,
                description if description is not None else _description(fn),
                _schema(parameters, tool_name),
            ),
            _converter(parameters),
            takes_context=_context_parameter(fn) is not None,
            on_crash=on_crash,
            timeout=timeout,
        )

    return make if fn is None else make(fn)


def _unchecked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return dict(arguments)


def _description(fn: Callable[..., Any]) -> str:
    return inspect.getdoc(fn) or ""


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    target: Any = fn if inspect.isroutine(fn) else type(fn).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except (NameError, TypeError):
        return dict(getattr(target, "__annotations__", {}))


def _context_parameter(fn: Callable[..., Any]) -> str | None:
    first = next(iter(inspect.signature(fn).parameters), None)
    return first if first is not None and _hints(fn).get(first) is ToolContext else None


def _parameters(fn: Callable[..., Any], name: str) -> type[msgspec.Struct]:
    if not name or not name.isidentifier():
        raise InvalidAgent(f"{name!r} is no name for a tool: give it one with @tool(name=...)")
    context, hints, fields = _context_parameter(fn), _hints(fn), []
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


def _schema(parameters: type[msgspec.Struct], name: str) -> dict[str, Any]:
    try:
        _, components = msgspec.json.schema_components([parameters], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise InvalidAgent(f"tool {name!r}: a parameter has no JSON schema: {error}") from error
    schema: dict[str, Any] = components.pop(parameters.__name__)
    schema.pop("title", None)
    return schema | {"$defs": components} if components else schema


def _converter(parameters: type[msgspec.Struct]) -> Arguments:
    names = parameters.__struct_fields__

    def convert(arguments: Mapping[str, Any]) -> dict[str, Any]:
        converted = msgspec.convert(arguments, parameters, strict=False)
        return {name: getattr(converted, name) for name in names}

    return convert
