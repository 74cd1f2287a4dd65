"""Calling code that is sync or async from an effect that is the one or the other.

An effect with hooks is written once, as a coroutine. On a thread it is driven to its end at once:
there nothing in it suspends, since what is async is waited for as it runs on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from inspect import isawaitable, iscoroutine
from typing import Any, Protocol, TypeVar

from .effects import EffectLoop, Effects
from .models import is_async

T = TypeVar("T")

FAILURES = (Exception, SystemExit, KeyboardInterrupt, asyncio.CancelledError)
"""What user code may raise: whatever there is, but for the end of a generator."""


class Caller(Protocol):
    """Calls a function where that harms nobody, and gives what it returns in the end."""

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any: ...


class FromThread:
    """Calls functions on the thread itself, and has the loop run what is async."""

    def __init__(self, loop: EffectLoop) -> None:
        self._loop = loop

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        found = fn(*args)
        return run_on_loop(self._loop, found) if isawaitable(found) else found


class FromLoop:
    """Awaits what is async, and calls functions on a thread, where they may block."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        found = fn(*args) if is_async(fn) else await self._on_thread(partial(fn, *args))
        return await found if isawaitable(found) else found

    async def _on_thread(self, fn: Callable[[], Any]) -> Any:
        context, ended = copy_context(), Future[Callable[[], Any]]()

        def job() -> None:
            if ended.set_running_or_notify_cancel():
                ended.set_result(context.run(_outcome, fn))

        self._effects.submit(job)
        return (await asyncio.wrap_future(ended))()


def run_on_loop(loop: EffectLoop, awaitable: Awaitable[T]) -> T:
    """Block this thread until the loop has run it. ``RuntimeError`` where the loop is closed."""
    ended = Future[Callable[[], T]]()

    async def run() -> None:
        try:
            value = await awaitable
        except BaseException as error:
            ended.set_result(partial(_throw, error))
        else:
            ended.set_result(lambda: value)

    if not loop.spawn(run, copy_context()):
        if iscoroutine(awaitable):
            awaitable.close()
        raise RuntimeError("the event loop is closed")
    return ended.result()()


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, in the context of this thread."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    coroutine.close()
    raise AssertionError("it suspended, and there is no loop")


def is_cancelled() -> bool:
    """Whether the task that runs was asked to stop."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return False
    return task is not None and task.cancelling() > 0


def _outcome(fn: Callable[[], T]) -> Callable[[], T]:
    """What gives what ``fn`` gave: a future takes not every exception."""
    try:
        value = fn()
    except BaseException as error:
        return partial(_throw, error)
    return lambda: value


def _throw(error: BaseException) -> Any:
    raise error
