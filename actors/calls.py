"""The model and tool calls of one session that are under way.

A call runs off the actor, and comes back as one command. What user code returns or raises is
turned into plain data where it ran, not in the actor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from ..events.errors import (
    InvalidModelTurn,
    ModelFailed,
    ModelStreamEnded,
    ModelTimedOut,
    SystemClosed,
    ToolError,
    TurnstreamError,
    Unstorable,
)
from ..events.messages import Usage
from ..events.session import (
    AgentDriftDetected,
    ModelCallDiscarded,
    SessionEvent,
    ToolCallStarted,
)
from ..events.values import plain
from ..projections import OpenTurn, SessionState
from .commands import (
    Command,
    ModelAnswered,
    ModelBroke,
    SubAgentLeft,
    SubAgentPaused,
    ToolReturned,
)
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
from .parentage import parent_call
from .ready import ReadyAgent
from .results import emitted
from .sub_agents import SubAgent, SubAgentEnded, SubAgentGone, SubAgentWaits
from .tool_context import ToolContext, idempotency_key
from .tools import Tool

log: logging.Logger = logging.getLogger("turnstream.session")

DRIFTED = "%s of session %r goes on with an agent that differs from the one that began it: %s"

Post = Callable[[Command, "Call", BaseException | None], None]
Serve = Callable[..., Coroutine[Any, Any, object]]


class Call:
    """One call under way: its gate, what runs behind it once it started, what it is known to
    have used so far, and, where nobody can tell what it comes to, why."""

    __slots__ = ("gate", "gone", "running", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.gate: Gate = Gate()
        self.running: Running | None = None
        self.gone: TurnstreamError | None = None


class Calls:
    """Starts calls, and knows which are still wanted."""

    def __init__(self, session_id: str, effects: Effects, post: Post, serve: Serve) -> None:
        self._session_id, self._effects, self._post = session_id, effects, post
        self._serve = serve
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
        """Note that ``call`` came back; false where it is no longer wanted. Raises what it was
        given up for, unless that is the system's end, which lets the others be recorded."""
        if call is self._model:
            self._model = None
            return True
        wanted = call in self._tools
        self._tools.discard(call)
        if wanted and call.gone is not None and not isinstance(call.gone, SystemClosed):
            raise call.gone
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

    def follow(
        self,
        events: Iterable[SessionEvent],
        state: SessionState,
        ready: Callable[[], ReadyAgent],
    ) -> None:
        """Start and drop what events that are durable now say, in the state that they led to."""
        for event in events:
            match event:
                case ModelCallDiscarded():
                    self.drop_model()
                case AgentDriftDetected(turn_id=turn_id, changes=changes):
                    log.warning(DRIFTED, turn_id, self._session_id, ", ".join(changes))
                case ToolCallStarted():
                    self.start_tool(ready(), state, event)
                case _:
                    pass

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
            self._post(command, call, cause)

        call.running = self._effects.run(
            partial(ready.ask, request, partial(_show, call, feed, request.turn_id)),
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
            state.application,
            lambda: call.gate.cancelled,
        )

        def settle(settled: Settled) -> None:
            if isinstance(settled, Returned) and isinstance(settled.value, SubAgentGone):
                call.gone = settled.value.error
            self._post(_tool_command(settled, event, tool), call, None)

        run = partial(tool.run, requested, context)
        if isinstance(tool, SubAgent):
            parent = parent_call(self._session_id, state, event.call_id, event.at)
            run = partial(self._serve, tool, requested, context, parent, state.tenant)
        call.running = self._effects.run(
            run,
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
        )


def _show(call: Call, feed: Feed | None, turn_id: str, delta: Delta | Usage) -> None:
    """Show a delta, unless the call was cancelled before it showed anything."""
    if isinstance(delta, Usage):
        call.usage = delta if is_usage(delta) else call.usage
    elif call.gate.open() and feed is not None and (item := emitted(turn_id, delta)) is not None:
        feed.publish(item)


def model_command(
    settled: Settled, request: ModelRequest, attempt: int, ready: ReadyAgent, used: Usage | None
) -> tuple[Command, BaseException | None]:
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


def _tool_command(settled: Settled, event: ToolCallStarted, tool: Tool) -> Command:
    key = (event.turn_id, event.call_id, event.attempt)
    match settled:
        case Returned(value=SubAgentEnded(outcome=outcome, content=content, usage=usage)):
            return ToolReturned(*key, outcome, content, usage)
        case Returned(value=SubAgentWaits(asked=asked)):
            return SubAgentPaused(*key, asked)
        case Returned(value=SubAgentGone()):
            return SubAgentLeft()
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
