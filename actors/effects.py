"""User code, off the actors: coroutines on one event loop, functions on daemon threads.

However an effect ends, one ``Settled`` is posted for it, once, from whatever thread. What can't
be stopped is given up after a while: then its late end is logged, and dropped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from functools import partial
from itertools import count
from threading import Event, Lock, Thread, current_thread
from typing import Any, NamedTuple

from .daemon_pool import DaemonPool
from .gate import (
    Abandoned,
    Cancelled,
    Gate,
    NotRun,
    Opens,
    Raised,
    Returned,
    Running,
    Settled,
    TimedOut,
)
from .logging_context import about, log_failure

__all__ = [
    "Abandoned",
    "Cancelled",
    "EffectLoop",
    "Effects",
    "NotRun",
    "Opens",
    "Place",
    "Raised",
    "Returned",
    "Running",
    "Settled",
    "TimedOut",
    "current_session",
]

log: logging.Logger = logging.getLogger("turnstream.effects")


class Place(NamedTuple):
    """A session among those of all systems of the process, which may share ids."""

    system: int
    session_id: str


current_session: ContextVar[Place | None] = ContextVar("current_session", default=None)
"""The session whose code is running, None outside of such code."""

_numbers = count()


class EffectLoop:
    """One asyncio loop on a daemon thread, started when it is first used."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio's own references are weak
        self._closed = self._halted = False

    def call(self, fn: Callable[..., object], *args: Any) -> bool:
        """Call ``fn`` soon, on the loop. False once the loop is closed."""
        loop = self._loop or self._begin()
        if loop is None or self._closed:
            return False
        try:
            loop.call_soon_threadsafe(fn, *args)
        except RuntimeError:  # closed since
            return False
        return True

    def spawn(
        self, start: Callable[[], Coroutine[Any, Any, None]], context: Context | None = None
    ) -> bool:
        """Make a coroutine on the loop and run it, in ``context``. False once the loop is
        closed."""
        return self.call(self._create, start, context)

    def call_later(
        self, seconds: float, fn: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """Call ``fn`` in ``seconds``. To be used on the loop itself."""
        assert self._loop is not None
        return self._loop.call_later(seconds, fn, *args)

    def stalled(self, timeout: float) -> bool:
        """Whether some coroutine keeps the loop from going round for ``timeout`` seconds."""
        went_round = Event()
        if self._loop is None or not self.call(went_round.set):
            return False
        return not went_round.wait(timeout)

    def close(self, timeout: float) -> bool:
        """Cancel what runs, and end when it has ended. False where that takes longer than
        ``timeout`` seconds. Called on the loop itself, it does not wait."""
        with self._lock:
            first, self._closed = not self._closed, True
        if self._loop is None or self._thread is None:
            return True
        if first:
            self._loop.call_soon_threadsafe(self._create, self._drain)
        if self._thread is current_thread():
            return False
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _begin(self) -> asyncio.AbstractEventLoop | None:
        with self._lock:
            if self._loop is None and not self._closed:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._run, name="turnstream-effects", daemon=True)
                self._thread.start()
            return self._loop

    def _run(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        while not self._halted:
            try:
                self._loop.run_forever()
            except BaseException as error:  # SystemExit of a task that user code started
                log_failure(log, error, {}, "the event loop goes on after an error of a task")
        self._loop.close()

    def _create(
        self, start: Callable[[], Coroutine[Any, Any, None]], context: Context | None = None
    ) -> None:
        assert self._loop is not None
        task = self._loop.create_task(start(), context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                if not task.cancelling():
                    task.cancel()
            await asyncio.wait(tasks)
        await loop.shutdown_asyncgens()
        self._halt()

    def _halt(self) -> None:
        assert self._loop is not None
        self._halted = True
        self._loop.stop()


class Effects:
    """Runs user code for actors, on one loop and at most ``threads`` threads.

    All its methods may be called from any thread, and none but ``close`` waits. An effect takes a
    ``gate``, which is opened when user code is entered (``opens="entry"``) or at the latest with
    its result (``"result"``, for code that opens it itself when it begins to show something); a
    ``timeout`` in seconds; and ``post``, which is given the outcome, and must not wait either.
    What does not end within ``grace`` seconds of being asked to stop is given up.
    """

    def __init__(self, *, threads: int = 256, grace: float = 1.0) -> None:
        self.loop: EffectLoop = EffectLoop()
        self._pool, self._grace = DaemonPool(threads), grace
        self._running: set[Running] = set()
        self._closed = False
        self._number = next(_numbers)

    def place(self, session_id: str) -> Place:
        """Where code of that session runs."""
        return Place(self._number, session_id)

    def run(
        self,
        fn: Callable[[], Any],
        *,
        is_async: bool,
        gate: Gate,
        opens: Opens,
        session_id: str,
        post: Callable[[Settled], None],
        timeout: float | None = None,
    ) -> Running:
        """Call ``fn``: on a thread, or, where that gives an awaitable, on the loop."""
        start = self._start_async if is_async else self._start_sync
        running = Running(gate, opens, session_id, timeout, partial(self._settled, post))
        self._running.add(running)
        if self._closed:
            self.cancel(running)
        else:
            start(running, fn)
        return running

    def cancel(self, running: Running) -> None:
        """Ask it to stop, if it is still running. Its outcome comes as always: ``NotRun`` at once
        where it was not entered, ``Cancelled`` when it ends, ``Abandoned`` when it does not."""
        if running.stop():
            running.settle(NotRun())
        elif not self.loop.call(self._give_up_later, running, Abandoned()):
            running.settle(Abandoned())

    def close(self, timeout: float) -> bool:
        """Stop what runs, for at most ``timeout`` seconds, and end the loop and the threads.
        False where something is left running; it was abandoned. What is run later is not."""
        deadline = time.monotonic() + timeout
        self._closed = True
        for running in list(self._running):
            self.cancel(running)
        clean = self.loop.close(timeout)
        clean &= self._pool.close(max(deadline - time.monotonic(), 0))
        for running in list(self._running):
            running.settle(Abandoned())
        return clean

    def submit(self, job: Callable[[], object]) -> None:
        """Have a thread do a part of an effect. ``RuntimeError`` once they are closed."""
        self._pool.submit(job)

    def off_loop(self, job: Callable[[], object]) -> None:
        """Have a thread do what would keep the loop, as long as there are any."""
        context = copy_context()
        try:
            self._pool.submit(lambda: context.run(job))
        except RuntimeError:
            job()

    def _start_async(self, running: Running, fn: Callable[[], Any]) -> None:
        context = _context(self.place(running.session_id))
        if not self.loop.spawn(partial(self._await, running, fn), context):
            self.cancel(running)

    def _start_sync(self, running: Running, fn: Callable[[], Any]) -> None:
        context = _context(self.place(running.session_id))
        try:
            self._pool.submit(lambda: context.run(self._call, running, fn))
        except RuntimeError as error:
            running.settle(Raised(error))

    async def _await(self, running: Running, fn: Callable[[], Awaitable[Any]]) -> None:
        running.task = asyncio.current_task()
        if not running.enter():
            return
        if running.timeout is not None:
            self._expire_later(running, running.timeout)
        try:
            outcome: Settled = Returned(await fn())
        except asyncio.CancelledError as error:
            outcome = Cancelled() if _is_cancelled(running) else Raised(error)
        except BaseException as error:
            outcome = Raised(error)
        running.end(outcome)

    def _call(self, running: Running, fn: Callable[[], Any]) -> None:
        if not running.enter():
            return
        if running.timeout is not None:
            self.loop.call(self._expire_later, running, running.timeout)
        try:
            outcome: Settled = Returned(fn())
        except BaseException as error:
            outcome = Raised(error)
        running.end(outcome)

    def _expire_later(self, running: Running, seconds: float) -> None:
        self._set_timer(running, seconds, self._expire, running)

    def _expire(self, running: Running) -> None:
        running.instead = TimedOut()
        running.stop()
        if running.task is None:
            running.settle(TimedOut())
        else:
            self._give_up_later(running, TimedOut())

    def _give_up_later(self, running: Running, otherwise: Settled) -> None:
        if running.task is not None and not running.task.cancelling():
            running.task.cancel()
        self._set_timer(running, self._grace, running.settle, otherwise)

    def _set_timer(
        self, running: Running, seconds: float, fn: Callable[..., object], *args: Any
    ) -> None:
        if running.timer is not None:
            running.timer.cancel()
        running.timer = self.loop.call_later(seconds, fn, *args)
        if running.settled:  # which may have missed the timer
            running.timer.cancel()

    def _settled(self, post: Callable[[Settled], None], running: Running, outcome: Settled) -> None:
        try:
            post(outcome)
        except Exception as error:
            lost, named = "an outcome for session %r could not be posted", running.session_id
            log_failure(log, error, about(named), lost, named)
        self._running.discard(running)
        if running.timer is not None:
            self.loop.call(running.timer.cancel)


def _context(place: Place) -> Context:
    context = copy_context()
    context.run(current_session.set, place)
    return context


def _is_cancelled(running: Running) -> bool:
    """As opposed to user code that raised the error of its own accord."""
    return running.task is not None and running.task.cancelling() > 0
