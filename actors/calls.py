"""The model and tool calls of one session that are under way.

A call runs off the actor, and comes back as one command. What user code returns or raises is
turned into plain data where it ran, not in the actor.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from msgspec.structs import replace

from ..events.errors import ModelStreamEnded, ModelUnavailable, SystemClosed, TurnstreamError
from ..events.messages import ToolCall, Usage
from ..events.session import AgentDriftDetected, ModelCallDiscarded, SessionEvent, ToolCallStarted
from ..projections import Carried, OpenTurn, SessionState
from .call_state import CallState, ChangingCall
from .commands import Command
from .completions import failure_of, model_command, takes_long, tool_command
from .effects import Effects, Returned, Running, Settled
from .feed import Feed
from .gate import Gate
from .idempotency import idempotency_key
from .logging_context import CallIds, about, within
from .models import Ask, Delta, ModelRequest, is_usage
from .parentage import parent_call
from .ready import ReadyAgent
from .results import emitted
from .step_recorder import AskSession, CallRecorder
from .steps import Steps
from .sub_agents import SubAgent, SubAgentGone
from .telling import Teller
from .tool_context import ToolContext

log: logging.Logger = logging.getLogger("turnstream.session")

DRIFTED = "%s of session %r goes on with an agent that differs from the one that began it: %s"

Post = Callable[[Command, "Call", BaseException | None], None]
Serve = Callable[..., Coroutine[Any, Any, object]]


class Call:
    """One call under way: its gate, what runs behind it once it started, what it is known to
    have used so far, and what its context policy carries over. A call that ``waits`` has a
    ``pause`` running before it. ``failure`` is why asking again may help, once it ended so;
    ``gone`` is why nobody can tell what it comes to."""

    __slots__ = ("carried", "failure", "gate", "gone", "pause", "running", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.carried: Carried | None = None
        self.pause: Running | None = None
        self.failure: ModelStreamEnded | ModelUnavailable | None = None
        self.gate: Gate = Gate()
        self.running: Running | None = None
        self.gone: TurnstreamError | None = None

    @property
    def waits(self) -> bool:
        return self.pause is not None and self.running is None


class Calls:
    """Starts calls, and knows which are still wanted."""

    def __init__(
        self,
        session_id: str,
        effects: Effects,
        teller: Teller,
        post: Post,
        ask: AskSession,
        *,
        serve: Serve,
    ) -> None:
        self._session_id, self._effects, self._teller = session_id, effects, teller
        self._post, self._ask_session, self._serve = post, ask, serve
        self._model: Call | None = None
        self._failure: ModelStreamEnded | ModelUnavailable | None = None
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
            self._model, self._failure = None, call.failure
            return True
        wanted = call in self._tools
        self._tools.discard(call)
        if wanted and call.gone is not None and not isinstance(call.gone, SystemClosed):
            raise call.gone
        return wanted

    def drain(self, *, now: bool) -> None:
        """Stop what only waits to be started, or everything."""
        if now:
            self.cancel_all()
        elif self._model is not None and self._model.waits:
            self.drop_model()

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
        call.gate.cancel()  # or what waits could begin meanwhile
        for each in (call.pause, call.running):
            if each is not None:
                self._effects.cancel(each)

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
                    found, extra = ", ".join(changes), about(self._session_id, turn_id)
                    log.warning(DRIFTED, turn_id, self._session_id, found, extra=extra)
                case ToolCallStarted():
                    self.start_tool(ready(), state, event)
                case _:
                    pass

    def start_model(self, ready: ReadyAgent, state: SessionState, feed: Feed | None) -> None:
        """Ask the model for the open turn's next step, unless it is being asked already. After a
        failure of this activation's, that takes a while."""
        turn = state.turn
        if turn is None or self._model is not None:
            return
        call = self._model = Call()
        request = self._request(ready, state, turn)
        attempt, timeout = turn.discarded + 1, ready.agent.model_timeout

        def settle(settled: Settled) -> None:
            call.failure = failure_of(settled)
            command, cause = model_command(settled, request, attempt, ready, call.usage)
            if call.carried is not None:
                command = replace(command, carried=call.carried)
            self._post(command, call, cause)

        show = partial(_show, call, feed, request.turn_id)
        ask = ready.asking(self._ask(ready, turn), request, state.starts, state.carried_over, show)

        def begin() -> Running:
            return self._effects.run(
                partial(within, CallIds(self._session_id, turn.turn_id), ask),
                is_async=ready.model_is_async,
                gate=call.gate,
                opens="result",
                session_id=self._session_id,
                timeout=timeout,
                post=settle,
            )

        failure, self._failure = self._failure, None
        if failure is None or not turn.broken:
            call.running = begin()
        else:
            self._wait(call, partial(_pause, ready, turn.broken, failure), begin, settle)

    def _wait(
        self,
        call: Call,
        pause: Callable[[], Coroutine[Any, Any, None]],
        begin: Callable[[], Running],
        settle: Callable[[Settled], None],
    ) -> None:
        """Let the call begin after a pause. Whoever cancels it shuts its gate first: what begins
        after that finds it shut."""

        def end(settled: Settled) -> None:
            if not isinstance(settled, Returned):
                settle(settled)
                return
            call.running = begin()
            if call.gate.cancelled:
                self._effects.cancel(call.running)

        call.pause = self._effects.run(
            pause,
            is_async=True,
            gate=Gate(),
            opens="result",
            session_id=self._session_id,
            post=end,
        )

    def start_tool(self, ready: ReadyAgent, state: SessionState, event: ToolCallStarted) -> None:
        """Run the tool of a call that was just recorded as started."""
        turn = state.turn
        assert turn is not None
        requested = next(each.call for each in turn.calls if each.call.id == event.call_id)
        tool, call = ready.tools[requested.name], Call()
        self._tools.add(call)
        recorder = CallRecorder(self._session_id, event, call.gate, self._ask_session)
        context = ToolContext(
            self._session_id,
            event.turn_id,
            event.call_id,
            idempotency_key(self._session_id, event.turn_id, event.call_id),
            event.attempt,
            CallState(state.application, ChangingCall(self._session_id, event, self._ask_session)),
            lambda: call.gate.cancelled,
            Steps(turn.taken_by(event.call_id), recorder, call_id=event.call_id),
            tool.is_async,
        )

        run = self._running(ready, state, event, requested, context)

        def settle(settled: Settled) -> None:
            if isinstance(settled, Returned) and isinstance(settled.value, SubAgentGone):
                call.gone = settled.value.error

            def tell() -> None:
                self._post(tool_command(settled, event, tool), call, None)

            if tool.is_async and takes_long(settled):
                self._effects.off_loop(tell)
            else:
                tell()

        call.running = self._effects.run(
            partial(within, CallIds(self._session_id, event.turn_id, event.call_id), run),
            is_async=tool.is_async,
            gate=call.gate,
            opens="entry",
            session_id=self._session_id,
            timeout=tool.options.timeout,
            post=settle,
        )

    def _ask(self, ready: ReadyAgent, turn: OpenTurn) -> Ask:
        if ready.hooking is None:
            return ready.ask
        stretch = self._teller.stretch(ready, turn)
        return ready.hooking.model(
            ready.ask, stretch, self._effects, is_async=ready.model_itself_is_async
        )

    def _running(
        self,
        ready: ReadyAgent,
        state: SessionState,
        event: ToolCallStarted,
        call: ToolCall,
        context: ToolContext,
    ) -> Callable[[], Any]:
        tool, turn = ready.tools[call.name], state.turn
        assert turn is not None
        run: Callable[[ToolCall, ToolContext], Any] = tool.run
        if isinstance(tool, SubAgent):
            parent = parent_call(self._session_id, state, event.call_id, event.at)
            run = partial(self._serve, tool, parent, state.tenant)
        if ready.hooking is None:
            return partial(run, call, context)
        stretch = self._teller.stretch(ready, turn)
        return ready.hooking.tool(
            run, call, context, stretch, self._effects, is_async=tool.is_async
        )

    def _request(self, ready: ReadyAgent, state: SessionState, turn: OpenTurn) -> ModelRequest:
        return ModelRequest(
            state.transcript,
            ready.configured.instructions,
            ready.configured.tools,
            self._session_id,
            turn.turn_id,
            turn.steps + 1,
            ready.agent.settings,
            output=ready.configured.output,
        )


async def _pause(ready: ReadyAgent, failures: int, failure: BaseException) -> None:
    await asyncio.sleep(ready.agent.retry_wait(failures, getattr(failure, "retry_after", None)))


def _show(call: Call, feed: Feed | None, turn_id: str, delta: Delta | Usage | Carried) -> None:
    """Show a delta, unless the call was cancelled before it showed anything."""
    if isinstance(delta, Carried):
        call.carried = delta
    elif isinstance(delta, Usage):
        call.usage = delta if is_usage(delta) else call.usage
    elif call.gate.open() and feed is not None and (item := emitted(turn_id, delta)) is not None:
        feed.publish(item)
