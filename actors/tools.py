"""Tools: functions a model may call.

The schema a model sees and the check of what it sends both come from the function's own type
hints, through msgspec.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    TypeAlias,
    TypedDict,
    Unpack,
    get_args,
    overload,
)

import msgspec

from ..events.approvals import OnExpiry
from ..events.errors import InvalidAgent
from ..events.messages import ToolCall, ToolSpec
from ..events.values import plain
from .commands import Gate, OnCrash
from .logging_context import about, log_failure
from .models import is_async
from .signatures import (
    Arguments,
    converter,
    description_of,
    first_parameter,
    parameters_of,
    schema_of,
)
from .tool_context import ToolContext, without_steps

if TYPE_CHECKING:
    from .agent import Agent

log: logging.Logger = logging.getLogger("turnstream")


class NotDone(Enum):
    """What a ``reconcile`` function says of a call that had no effect."""

    NOT_DONE = "not-done"


NOT_DONE: Final = NotDone.NOT_DONE

MOST_SECONDS = 10 * 365 * 86_400


def is_seconds(value: object) -> bool:
    """Whether it is a time to wait for: above 0, and at most ten years."""
    return type(value) in (int, float) and 0 < value <= MOST_SECONDS  # type: ignore[operator]


NeedsApproval: TypeAlias = bool | Callable[[ToolContext, dict[str, Any]], bool]


class Options(TypedDict, total=False):
    """What ``tool`` takes beside the function; see there."""

    needs_approval: NeedsApproval
    approval_timeout: float | None
    on_expiry: OnExpiry
    on_crash: OnCrash
    reconcile: Callable[..., Any] | None
    timeout: float | None


class ToolOptions(msgspec.Struct, frozen=True):
    """The same, with what counts where one is not given."""

    needs_approval: NeedsApproval = False
    approval_timeout: float | None = None
    on_expiry: OnExpiry = "reject"
    on_crash: OnCrash = "rerun"
    reconcile: Callable[..., Any] | None = None
    timeout: float | None = None

    def check(self, name: str) -> None:
        """Raise ``InvalidAgent`` where one of them can't work."""
        for option in ("timeout", "approval_timeout"):
            value = getattr(self, option)
            if value is not None and not is_seconds(value):
                raise InvalidAgent(
                    f"tool {name!r}: {option} must be more than 0 seconds and at most ten years, "
                    f"not {value!r}"
                )
        for option, allowed in (("on_crash", OnCrash), ("on_expiry", OnExpiry)):
            if getattr(self, option) not in get_args(allowed):
                raise InvalidAgent(
                    f"tool {name!r}: {option} must be one of {get_args(allowed)}, not "
                    f"{getattr(self, option)!r}"
                )
        if not isinstance(self.needs_approval, bool) and not callable(self.needs_approval):
            raise InvalidAgent(f"tool {name!r}: needs_approval must be a bool or a function")
        if is_async(self.needs_approval):
            raise InvalidAgent(f"tool {name!r}: needs_approval must not be async")


class Tool:
    """A function with a name, a description and a schema. Made by ``@tool`` or ``from_schema``.

    ``agents`` are those that a kind of tool brings along: a system that runs it can run them."""

    agents: tuple[Agent, ...] = ()

    def __init__(
        self,
        fn: Callable[..., Any],
        spec: ToolSpec,
        convert: Arguments,
        *,
        takes_context: bool,
        options: ToolOptions,
    ) -> None:
        _check_spec(spec)
        options.check(spec.name)
        if is_async(options.reconcile) and not is_async(fn):
            raise InvalidAgent(f"tool {spec.name!r}: reconcile is async, and the tool is not")
        self.options: ToolOptions = options
        self.fn: Callable[..., Any] = fn
        self.spec: ToolSpec = spec
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
        **options: Unpack[Options],
    ) -> Tool:
        """A tool whose JSON schema comes from elsewhere: ``fn(**arguments)`` is called with what
        the model sent, unchecked. The options are those of ``tool``."""
        return cls(
            fn,
            ToolSpec(
                name,
                description or description_of(fn),
                plain(dict(schema) if isinstance(schema, Mapping) else schema, "schema"),
            ),
            _unchecked,
            takes_context=first_parameter(fn, ToolContext) is not None,
            options=ToolOptions(**options),
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

    def needs_approval(self, call: ToolCall, context: ToolContext) -> bool:
        """Whether the call may only run once somebody decided so. It does where the tool's own
        function can't tell."""
        asks = self.options.needs_approval
        if not callable(asks):
            return asks
        try:
            return bool(asks(context, self._convert(plain(call.arguments))))
        except Exception as error:
            ids = about(context.session_id, context.turn_id, context.call_id)
            needed = "tool %r: needs_approval raised, so the call needs one"
            log_failure(log, error, ids, needed, self.name)
            return True

    @property
    def gate(self) -> Gate:
        """How long a decision on its calls is waited for."""
        return Gate(self.options.approval_timeout, self.options.on_expiry)

    def run(self, call: ToolCall, context: ToolContext) -> Any:
        """Run the call, on arguments of its own. An async tool gives a coroutine."""
        if context.attempt > 1 and (reconcile := self.options.reconcile) is not None:
            reconciled = self._reconciled_async if self.is_async else self._reconciled
            return reconciled(reconcile, call, context)
        return self._invoke(self.fn, call, context)

    def _reconciled(
        self, reconcile: Callable[..., Any], call: ToolCall, context: ToolContext
    ) -> Any:
        found = self._invoke(reconcile, call, without_steps(context))
        return self._invoke(self.fn, call, context) if found is NOT_DONE else found

    async def _reconciled_async(
        self, reconcile: Callable[..., Any], call: ToolCall, context: ToolContext
    ) -> Any:
        found = self._invoke(reconcile, call, without_steps(context))
        if inspect.isawaitable(found):
            found = await found
        return await self._invoke(self.fn, call, context) if found is NOT_DONE else found

    def _invoke(self, fn: Callable[..., Any], call: ToolCall, context: ToolContext) -> Any:
        arguments = self._convert(plain(call.arguments) if call.arguments else {})
        return fn(context, **arguments) if self._takes_context else fn(**arguments)

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
    **options: Unpack[Options],
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[Options],
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function, sync or async, a tool.

    ``needs_approval`` says whether a call runs only once somebody approved it: ``True``, or a
    quick function of a ``ToolContext`` and the arguments; where that raises, a decision is
    needed. After ``approval_timeout`` seconds without one the call is rejected, or with
    ``on_expiry="keep"`` kept waiting, and shown as overdue.

    ``on_crash`` says what becomes of a call whose process was lost while it ran: ``"rerun"`` it
    with the same idempotency key, ``"fail"`` it with a result that says it may have run, or
    ``"ask"`` for a decision. ``reconcile``, a function like the tool itself, is called before the
    tool is run again: what it returns is the result of the call that happened; ``NOT_DONE`` lets
    it run. ``timeout`` is in seconds.

    Raises ``InvalidAgent`` where the signature can't be turned into a schema, or an option is
    none.
    """

    chosen = ToolOptions(**options)

    def make(fn: Callable[..., Any]) -> Tool:
        tool_name = name or str(getattr(fn, "__name__", ""))
        chosen.check(tool_name)
        parameters = parameters_of(fn, tool_name)
        return Tool(
            fn,
            ToolSpec(
                tool_name,
                description if description is not None else description_of(fn),
                schema_of(parameters, tool_name),
            ),
            converter(parameters),
            takes_context=first_parameter(fn, ToolContext) is not None,
            options=chosen,
        )

    return make if fn is None else make(fn)


def _check_spec(spec: ToolSpec) -> None:
    for field, value in (("name", spec.name), ("description", spec.description)):
        if not isinstance(value, str):
            raise InvalidAgent(
                f"tool {spec.name!r}: its {field} is text, not {type(value).__name__}"
            )
    if not isinstance(spec.schema, dict):
        raise InvalidAgent(
            f"tool {spec.name!r}: its schema is a dict, not {type(spec.schema).__name__}"
        )


def _unchecked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return dict(arguments)
