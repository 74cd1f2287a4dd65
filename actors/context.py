"""What a model sees of a long conversation: a view that a policy makes, the stream untouched."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ..events.errors import ModelFailed
from ..events.messages import Message, ModelTurn, UserMessage
from ..events.values import plain
from ..projections import Carried
from ..projections.transcript import check_transcript
from .models import Ask, ModelRequest, is_async


class Context(Struct, frozen=True):
    """What a policy can learn of the model call that it makes a view for.

    ``messages`` is the whole conversation, ``turns`` the places in it at which turns begin;
    ``carried`` is what the policy carried over from an earlier call, None at first.
    """

    session_id: str
    turn_id: str
    step: int
    messages: Sequence[Message]
    turns: Sequence[int]
    carried: Any = None


class Shrunk(Struct, frozen=True):
    """A view: the ``messages`` that the model is to see, and what is to be carried over to the
    next call, where that changes.

    ``carried`` is plain data, recorded with the model's answer. It speaks of the first ``covers``
    messages of the conversation (None: of all): where one of these is taken back later, what was
    carried is forgotten.
    """

    messages: Sequence[Message]
    carried: Any | UnsetType = UNSET
    covers: int | None = None


View: TypeAlias = Shrunk | Sequence[Message]
ContextPolicy: TypeAlias = Callable[[Context], View | Awaitable[View]]
Show: TypeAlias = Callable[[Any], None]


class Shrinking:
    """A model that is asked with a policy's view. What is carried over is shown, for who records
    it; whether asking gives a coroutine depends on both."""

    def __init__(self, policy: ContextPolicy, *, model_is_async: bool) -> None:
        self._policy, self._model_is_async = policy, model_is_async
        self._policy_is_async = is_async(policy)
        self.is_async: bool = model_is_async or self._policy_is_async

    def ask(
        self,
        ask: Ask,
        turns: Sequence[int],
        carried: Carried | None,
        request: ModelRequest,
        show: Show,
    ) -> Any:
        """Ask the model, by ``ask``, or give the coroutine that does."""
        context = Context(
            request.session_id,
            request.turn_id,
            request.step,
            request.messages,
            turns,
            None if carried is None else carried.value,
        )
        if self.is_async:
            return self._ask_async(ask, context, request, show)
        return ask(_shrunk(self._policy(context), context, request, show), show)

    async def _ask_async(
        self, ask: Ask, context: Context, request: ModelRequest, show: Show
    ) -> ModelTurn:
        if self._policy_is_async:
            view: Any = self._policy(context)
        else:
            view = await asyncio.to_thread(self._policy, context)
        if isawaitable(view):
            view = await view
        request = _shrunk(view, context, request, show)
        if not self._model_is_async:
            return await asyncio.to_thread(ask, request, show)
        answer: ModelTurn = await ask(request, show)
        return answer


def _shrunk(view: Any, context: Context, request: ModelRequest, show: Show) -> ModelRequest:
    """The request with the view in it.

    Raises ``InvalidTranscript``, ``ModelFailed`` and ``Unstorable``.
    """
    if not isinstance(view, Shrunk):
        view = Shrunk(view)
    if not isinstance(view.messages, Sequence) or isinstance(view.messages, str):
        raise ModelFailed(
            f"a context policy returns messages or Shrunk(messages), not "
            f"{type(view.messages).__name__}"
        )
    check_transcript(view.messages)
    if view.carried is not UNSET and view.carried != context.carried:
        most = len(context.messages)
        covers = most if view.covers is None else view.covers
        if type(covers) is not int or not 0 <= covers <= most:
            raise ModelFailed(f"Shrunk.covers must be 0 to {most}, not {covers!r}")
        show(Carried(plain(view.carried, "carried"), covers))
    return replace(request, messages=view.messages)


def last_turns(count: int) -> ContextPolicy:
    """A policy that shows the model the last ``count`` turns, whole, the open one among them."""
    if type(count) is not int or count < 1:
        raise ValueError(f"count must be 1 or more, not {count!r}")

    def policy(context: Context) -> Sequence[Message]:
        turns = context.turns
        return context.messages[turns[-count] :] if len(turns) > count else context.messages

    return policy


Summarise: TypeAlias = Callable[[str, Sequence[Message]], str | Awaitable[str]]


def summarised(summarise: Summarise, *, keep_turns: int = 4, every: int = 4) -> ContextPolicy:
    """A policy that shows the model a summary of what is older than the last ``keep_turns`` turns.

    ``summarise(summary, messages)`` gives the new summary, of the one before (empty at first) and
    the messages to be added to it; it may be async, and ask a model. It is called when ``every``
    more turns are old enough, and what it gives is recorded, so that it is not asked again.
    """
    for name, value in (("keep_turns", keep_turns), ("every", every)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} must be 1 or more, not {value!r}")
    policy = _Summarising(summarise, keep_turns, every)
    return policy.view_async if is_async(summarise) else policy.view


class _Summarising:
    def __init__(self, summarise: Summarise, keep_turns: int, every: int) -> None:
        self._summarise, self._keep, self._every = summarise, keep_turns, every

    def view(self, context: Context) -> Shrunk:
        summary, upto, due = self._due(context)
        if due > upto:
            summary, upto = str(self._summarise(summary, context.messages[upto:due])), due
        return _with_summary(context, summary, upto)

    async def view_async(self, context: Context) -> Shrunk:
        summary, upto, due = self._due(context)
        if due > upto:
            said: Any = self._summarise(summary, context.messages[upto:due])
            summary, upto = str(await said), due
        return _with_summary(context, summary, upto)

    def _due(self, context: Context) -> tuple[str, int, int]:
        """The summary there is, how many messages it covers, and how many it is to cover."""
        carried = context.carried if isinstance(context.carried, dict) else {}
        summary, upto = carried.get("summary", ""), carried.get("covers", 0)
        old = [place for place in context.turns[: -self._keep] if place >= upto]
        if len(old) < self._every:
            return summary, upto, upto
        return summary, upto, context.turns[-self._keep]


def _with_summary(context: Context, summary: str, upto: int) -> Shrunk:
    if not upto:
        return Shrunk(context.messages)
    first = UserMessage(f"{SUMMARY}{summary}")
    return Shrunk((first, *context.messages[upto:]), {"summary": summary, "covers": upto}, upto)


SUMMARY = "Summary of the conversation so far:\n"
