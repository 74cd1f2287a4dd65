"""The model and tool calls of one session that are under way.

A call runs off the actor, and comes back as one command. What user code returns or raises is
turned into plain data where it ran, not in the actor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from ..events.errors import (
    InvalidModelTurn,
    ModelFailed,
    ModelStreamEnded,
    ModelTimedOut,
    ToolError,
    Unstorable,
)
from ..events.messages import Usage
from ..events.session import ToolCallStarted
from ..events.values import plain
from ..projections import Carried, OpenTurn, SessionState
from .call_state import AskForState, CallState, ChangingCall
from .commands import Command, ModelAnswered, ModelBroke, ToolReturned
from .effects import (
    Abandoned,
    Cancelled,
    Effects,
    NotRun,
    Raised,
    Returned,
    Running,
    Settled,
    TimedOut,
)
from .feed import Feed
from .gate import Gate
from .models import Delta, ModelRequest, is_usage, model_turn
from .ready import ReadyAgent
from .results import emitted
from .tool_context import ToolContext, idempotency_key
from .tools import Tool

Post = Callable[[Command, "Call", BaseException | None], None]


class Call:
    """One call under way: its gate, what runs behind it once it started, and what it is known to
    have used so far, and what its context policy carries over."""

    __slots__ = ("carried", "gate", "running", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.carried: Carried | None = None
        self.gate: Gate = Gate()
        self.running: Running | None = None


class Calls:
    """Starts calls, and knows which are still wanted."""

    def __init__(self, session_id: str, effects: Effects, post: Post, ask: AskForState) -> None:
        self._session_id, self._effects = session_id, effects
        self._post, self._ask = post, ask
        self._model: Call | None = None
        self._tools: set[Call] = set()

    @property
    def running(self) -> bool:
        """Whether anything is under way."""
        return self._model is not None or bool(self._tools)

    @property
    def asking(self) -> bool:
        """Whether a model call is under way."""
        return self._model is not None

    def finished(self, call: Call) -> bool:
        """Note that ``call`` came back; false where it is no longer wanted."""
        if call is self._model:
            self._model = None
            return True
        wanted = call in self._tools
        self._tools.discard(call)
        return wanted

    def cancel_all(self) -> None:
        """Stop what can be stopped; nothing of it is wanted any more."""
        self.drop_model()
        calls, self._tools = self._tools, set()
        for call in calls:
            self._cancel(call)

    def silence_model(self) -> bool:
        """Cancel the model call, if one is under way and has shown nothing yet; whether it was
        so. It is still to be dropped."""
        return self._model is not None and self._model.gate.cancel_if_new()

    def drop_model(self) -> None:
        """Stop the model call, if one is under way; nothing of it is wanted any more."""
        call, self._model = self._model, None
        if call is not None:
            self._cancel(call)

    def _cancel(self, call: Call) -> None:
        if call.running is not None:
            self._effects.cancel(call.running)

    def start_model(self, ready: ReadyAgent, state: SessionState, feed: Feed | None) -> None:
        """Ask the model for the open turn's next step, unless it is being asked already."""
        turn = state.turn
        if turn is None or self._model is not None:
            return
        call = self._model = Call()
        request = self._request(ready, state, turn)
        attempt, timeout = turn.discarded + 1, ready.agent.model_timeout

        def settle(settled: Settled) -> None:
            command, cause = model_command(settled, request, attempt, ready, call.usage)
            if call.carried is not None:
                command = replace(command, carried=call.carried)
            self._post(command, call, cause)

        call.running = self._effects.run(
            ready.asking(
                request, state.starts, state.carried, partial(_show, call, feed, request.turn_id)
            ),
            is_async=ready.model_is_async,
            gate=call.gate,
            opens="result",
            session_id=self._session_id,
            timeout=timeout,
            post=settle,
        )

    def start_tool(self, ready: ReadyAgent, state: SessionState, event: ToolCallStarted) -> None:
        """Run the tool of a call that was just recorded as started."""
        turn = state.turn
        assert turn is not None
        requested = next(each.call for each in turn.calls if each.call.id == event.call_id)
        tool, call = ready.tools[requested.name], Call()
        self._tools.add(call)
        context = ToolContext(
            self._session_id,
            event.turn_id,
            event.call_id,
            idempotency_key(self._session_id, event.turn_id, event.call_id),
            event.attempt,
            CallState(state.application, ChangingCall(self._session_id, event, self._ask)),
            lambda: call.gate.cancelled,
            tool.is_async,
        )

        def settle(settled: Settled) -> None:
            self._post(_tool_command(settled, event, tool), call, None)

        call.running = self._effects.run(
            partial(tool.run, requested, context),
            is_async=tool.is_async,
            gate=call.gate,
            opens="entry",
            session_id=self._session_id,
            timeout=tool.options.timeout,
            post=settle,
        )

    def _request(self, ready: ReadyAgent, state: SessionState, turn: OpenTurn) -> ModelRequest:
        return ModelRequest(
            state.transcript,
            ready.configured.instructions,
            ready.configured.tools,
            self._session_id,
            turn.turn_id,
            turn.steps + 1,
            output=ready.configured.output,
        )


def _show(call: Call, feed: Feed | None, turn_id: str, delta: Delta | Usage | Carried) -> None:
    """Show a delta, unless the call was cancelled before it showed anything."""
    if isinstance(delta, Carried):
        call.carried = delta
    elif isinstance(delta, Usage):
        call.usage = delta if is_usage(delta) else call.usage
    elif call.gate.open() and feed is not None and (item := emitted(turn_id, delta)) is not None:
        feed.publish(item)


def model_command(
    settled: Settled, request: ModelRequest, attempt: int, ready: ReadyAgent, used: Usage | None
) -> tuple[ModelAnswered | ModelBroke, BaseException | None]:
    key = (request.turn_id, request.step, attempt)
    match settled:
        case Returned(value=value):
            try:
                return ModelAnswered(*key, ready.configured.model, model_turn(value)), None
            except Exception as error:  # the answer is user code's, down to its __iter__
                return ModelBroke(*key, InvalidModelTurn.code, _described(error)), error
        case Raised(error=error):
            usage = _usage(error) or used
            if isinstance(error, ModelStreamEnded):
                return ModelBroke(*key, error.code, str(error), transient=True, usage=usage), error
            return ModelBroke(*key, ModelFailed.code, _described(error), usage=usage), error
        case TimedOut():
            too_long = f"the model took longer than {ready.agent.model_timeout:g} seconds"
            return ModelBroke(*key, ModelTimedOut.code, too_long, usage=used), None
        case _:
            return ModelBroke(*key, ModelFailed.code, "the model call was cancelled"), None


def _usage(error: BaseException) -> Usage | None:
    """What a call cost that came to nothing, where its error tells."""
    try:
        usage = getattr(error, "usage", None)
    except Exception:  # an error may have code of its own
        return None
    return usage if isinstance(usage, Usage) and is_usage(usage) else None


def _tool_command(settled: Settled, event: ToolCallStarted, tool: Tool) -> ToolReturned:
    key = (event.turn_id, event.call_id, event.attempt)
    match settled:
        case Returned(value=value):
            try:
                return ToolReturned(*key, "ok", plain(value, "result"))
            except Exception as error:  # a result may have code of its own, such as model_dump
                why = str(error) if isinstance(error, Unstorable) else _described(error)
                return ToolReturned(
                    *key, "error", f"The tool ran, but its result can't be recorded: {why}"
                )
        case Raised(error=error):
            return ToolReturned(*key, "error", _described(error))
        case TimedOut():
            return ToolReturned(
                *key,
                "error",
                f"The tool took longer than {tool.options.timeout:g} seconds. It may still take "
                "effect.",
            )
        case NotRun():
            return ToolReturned(*key, "cancelled", "Not run: the turn was stopped.")
        case Cancelled():
            return ToolReturned(*key, "cancelled", "Stopped while it ran.")
        case Abandoned():
            return ToolReturned(
                *key, "cancelled", "It could not be stopped and may still take effect."
            )


def _described(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = ""
    if isinstance(error, ToolError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
