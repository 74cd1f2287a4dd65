"""An agent's hooks, put around its model and tool calls.

All of it runs inside the effect: behind the gate of approvals, which is the decider's, on
whatever path the call came, and before anything of the call is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from ..events.errors import HookFailed, InvalidTranscript
from ..events.messages import NO_USAGE, ModelTurn, ToolCall, Usage
from ..events.values import is_light, plain
from ..projections.transcript import check_transcript
from .crossing import FAILURES, Caller, FromLoop, FromThread, at_once, is_cancelled
from .effects import Effects
from .hooks import Hooks, Refused, Stretch
from .models import Ask, ModelRequest, Show, model_turn
from .outcomes import ToolDone, described, tool_done
from .sub_agents import SubAgentGone, SubAgentOutcome, SubAgentWaits
from .tool_context import ToolContext
from .watching import Watch, note_failure

Hook = Callable[..., Any]
T = TypeVar("T")

_LONGEST_TRACE = 256


class Hooking:
    """The hooks of one agent, each method with those that have one of their own."""

    def __init__(self, hooks: Sequence[Hooks]) -> None:
        self.listening: tuple[Hooks, ...] = tuple(
            [each for each in hooks if _has(each, "on_event") or _has(each, "on_rest")]
        )
        self._during_model = _those(hooks, "during_model")
        self._before_model = _those(hooks, "before_model")
        self._after_model = _those(hooks, "after_model")[::-1]
        self._during_tool = _those(hooks, "during_tool")
        self._before_tool = _those(hooks, "before_tool")
        self._after_tool = _those(hooks, "after_tool")[::-1]
        self._on_send = _those(hooks, "on_send")
        self._models = bool(self._during_model or self._before_model or self._after_model)
        self._tools = bool(self._during_tool or self._before_tool or self._after_tool)

    def sending(self, session_id: str, agent: str) -> str:
        """Which trace an input is sent in; empty where no hook knows."""
        for hook in self._on_send:
            try:
                if trace := _checked(hook(session_id, agent)):
                    return trace
            except Exception as error:
                note_failure(hook, error)
        return ""

    def model(self, ask: Ask, stretch: Stretch, effects: Effects, *, is_async: bool) -> Ask:
        """What asks the model, with the hooks around it; async where ``ask`` is."""
        if not self._models:
            return ask
        caller: Caller = FromLoop(effects) if is_async else FromThread(effects.loop)

        def asked(request: ModelRequest, show: Show) -> Any:
            inner = partial(_shown, ask, show)
            run = self._run_model(caller, inner, request, stretch, is_async=is_async)
            return run if is_async else at_once(run)

        return asked

    def tool(
        self,
        run: Callable[[ToolCall, ToolContext], Any],
        call: ToolCall,
        context: ToolContext,
        stretch: Stretch,
        effects: Effects,
        *,
        is_async: bool,
    ) -> Callable[[], Any]:
        """What runs the tool, with the hooks around it; async where ``run`` is. It gives a
        ``ToolDone``."""
        if not self._tools:
            return partial(run, call, context)
        caller: Caller = FromLoop(effects) if is_async else FromThread(effects.loop)
        runs = partial(self._run_tool, caller, run, call, context, stretch, is_async=is_async)
        return runs if is_async else lambda: at_once(runs())

    async def _run_model(
        self,
        caller: Caller,
        ask: Callable[[ModelRequest], Any],
        request: ModelRequest,
        stretch: Stretch,
        *,
        is_async: bool,
    ) -> Any:
        for hook in self._before_model:
            request = await _requested(caller, hook, stretch, request)
        watch, raised = Watch(), None
        for hook in self._during_model:
            watch.enter(hook, stretch, request)
        try:
            answer = ask(request)
            if is_async:
                answer = await answer
            answer = await self._answered(caller, stretch, request, answer)
            watch.tell(answer)
        except BaseException as error:
            raised = error
            raise
        finally:
            watch.leave(raised)
        return answer

    async def _answered(
        self, caller: Caller, stretch: Stretch, request: ModelRequest, answer: object
    ) -> object:
        try:
            turn = model_turn(answer)
        except Exception:  # what is no turn is refused where it would be recorded
            return answer
        for hook in self._after_model:
            asked = partial(caller.call, hook, stretch, request, turn)
            replaced = await _taking_part(asked, hook, stretch, turn.usage)
            if replaced is not None:
                turn = _replaced(hook, stretch, turn, replaced)
        return turn

    async def _run_tool(
        self,
        caller: Caller,
        run: Callable[[ToolCall, ToolContext], Any],
        call: ToolCall,
        context: ToolContext,
        stretch: Stretch,
        *,
        is_async: bool,
    ) -> SubAgentOutcome:
        watch, raised = Watch(), None
        for hook in self._during_tool:
            watch.enter(hook, stretch, context, _copy(call))
        try:
            done = await self._vetoed(caller, call, context)
            if done is None:
                ran = await _ran(caller, run, call, context, is_async=is_async)
                if not isinstance(ran, ToolDone):
                    return ran  # no result yet: the call is run again
                done = await self._processed(caller, call, context, ran)
            watch.tell(done.outcome, done.content)
        except BaseException as error:
            raised = error
            raise
        finally:
            watch.leave(raised)
        return done

    async def _vetoed(
        self, caller: Caller, call: ToolCall, context: ToolContext
    ) -> ToolDone | None:
        """The result of a call that a hook does not let run. None is the one thing a hook can
        say that lets it: who returns something else meant something."""
        for hook in self._before_tool:
            try:
                verdict = await caller.call(hook, context, _copy(call))
                match verdict:
                    case None:
                        continue
                    case Refused(outcome="rejected" | "error" as outcome):
                        return ToolDone(outcome, plain(verdict.content, "content"))
                    case _:
                        kind = type(verdict).__name__
                        return ToolDone("error", f"Not run: {_name(hook)} returned {kind}")
            except FAILURES as error:
                if is_cancelled():
                    raise
                return ToolDone("error", _not_run(hook, error))
        if context.cancelled:
            return ToolDone("cancelled", "Not run: the turn was stopped.")
        return None

    async def _processed(
        self, caller: Caller, call: ToolCall, context: ToolContext, done: ToolDone
    ) -> ToolDone:
        for hook in self._after_tool:
            try:
                found = await caller.call(hook, context, _copy(call), done.outcome, done.content)
                content = done.content if found is None else found
                content = await _made(caller, plain, content, "content")
            except FAILURES as error:
                if is_cancelled():
                    raise
                return ToolDone("error", _post_processing(hook, error, done))
            done = replace(done, content=content)
        return done


def _shown(ask: Ask, show: Show, request: ModelRequest) -> Any:
    return ask(request, show)


async def _requested(
    caller: Caller, hook: Hook, stretch: Stretch, request: ModelRequest
) -> ModelRequest:
    changed = await _taking_part(partial(caller.call, hook, stretch, request), hook, stretch)
    if changed is None:
        return request
    if not isinstance(changed, ModelRequest):
        raise _failed(hook, stretch, f"returned {type(changed).__name__}, no ModelRequest")
    if changed.messages is not request.messages:
        try:
            check_transcript(changed.messages)
        except InvalidTranscript as error:
            raise _failed(hook, stretch, f"returned an invalid conversation: {error}") from error
    return replace(
        changed, session_id=request.session_id, turn_id=request.turn_id, step=request.step
    )


async def _taking_part(
    call: Callable[[], Any], hook: Hook, stretch: Stretch, used: Usage = NO_USAGE
) -> Any:
    """What a hook around the model returns."""
    try:
        return await call()
    except FAILURES as error:
        if is_cancelled():
            raise
        raise _failed(hook, stretch, f"raised {described(error)}", used) from error


def _replaced(hook: Hook, stretch: Stretch, turn: ModelTurn, replaced: object) -> ModelTurn:
    try:
        answer = model_turn(replaced)
    except Exception as error:
        raise _failed(hook, stretch, f"returned no turn: {described(error)}", turn.usage) from error
    return answer if answer.usage != NO_USAGE else replace(answer, usage=turn.usage)


async def _ran(
    caller: Caller,
    run: Callable[[ToolCall, ToolContext], Any],
    call: ToolCall,
    context: ToolContext,
    *,
    is_async: bool,
) -> SubAgentOutcome:
    try:
        value = run(call, context)
        if is_async:
            value = await value
    except FAILURES as error:
        if is_cancelled():
            raise
        return ToolDone("error", described(error))
    if isinstance(value, (ToolDone, SubAgentWaits, SubAgentGone)):
        return value  # a sub-agent's
    return await _made(caller, tool_done, value)


async def _made(caller: Caller, plainly: Callable[..., T], value: object, *args: str) -> T:
    """What ``plainly`` makes of a value, where that keeps nobody waiting."""
    if is_light(value):
        return plainly(value, *args)
    found: T = await caller.call(plainly, value, *args)
    return found


def _checked(trace: Any) -> str:
    if not trace:
        return ""
    if not isinstance(trace, str) or not trace.isascii() or len(trace) > _LONGEST_TRACE:
        raise ValueError("a traceparent is ASCII, and short")
    return trace


def _has(hooks: Hooks, method: str) -> bool:
    return getattr(type(hooks), method) is not getattr(Hooks, method)


def _those(hooks: Sequence[Hooks], method: str) -> tuple[Hook, ...]:
    return tuple([getattr(each, method) for each in hooks if _has(each, method)])


def _copy(call: ToolCall) -> ToolCall:
    """The call for a hook, which may do to it what it likes."""
    return replace(call, arguments=plain(call.arguments))


def _name(hook: Hook) -> str:
    return str(getattr(hook, "__qualname__", type(hook).__name__))


def _failed(hook: Hook, stretch: Stretch, what: str, used: Usage = NO_USAGE) -> HookFailed:
    return HookFailed(
        f"{_name(hook)} {what}",
        usage=used if used != NO_USAGE else None,
        session_id=stretch.session_id,
        turn_id=stretch.turn_id,
    )


def _not_run(hook: Hook, error: BaseException) -> str:
    return f"Not run: {_name(hook)} raised {described(error)}"


def _post_processing(hook: Hook, error: BaseException, done: ToolDone) -> dict[str, Any]:
    """Says that the tool ran, and not what it returned: a hook may be there to keep that back."""
    return {
        "error": "post-processing failed",
        "message": f"The tool ran; then {_name(hook)} raised {described(error)}",
        "tool_ran": True,
        "tool_outcome": done.outcome,
    }
