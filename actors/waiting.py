"""Promises that callers wait on, from threads and from event loops.

A wait that could never end is refused when it begins: on a running event loop, inside the
session's own tool or model, and in a circle of sessions that wait for each other.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Lock
from typing import Generic, TypeVar

from msgspec import Struct

from ..events.errors import WouldDeadlock
from .dispatcher import on_worker
from .effects import Place, current_session

T = TypeVar("T")

_lock = Lock()
_waits: defaultdict[Place, Counter[Place]] = defaultdict(Counter)


class Kept(Struct, Generic[T], frozen=True):
    """The value came."""

    value: T


class Broken(Struct, frozen=True):
    """An error came instead."""

    error: BaseException


class Promise(Generic[T]):
    """A value that will come from a session, or an error. Whoever waits may give up without harm
    to others. ``after`` is the session whose code has to return before it can come, if any.

    Every send makes two of these and waits for one, which ``concurrent.futures`` makes dear.
    """

    __slots__ = ("_after", "_lock", "_outcome", "_session_id", "_wakers")

    def __init__(self, session_id: str, *, after: Place | None = None) -> None:
        self._session_id, self._after = session_id, after
        self._lock = Lock()
        self._outcome: Kept[T] | Broken | None = None
        self._wakers: list[Callable[[], object]] = []

    def resolve(self, value: T) -> None:
        """Give the value; ignored where there is an outcome already."""
        self._settle(Kept(value))

    def fail(self, error: BaseException) -> None:
        """Give the error; ignored where there is an outcome already."""
        self._settle(Broken(error))

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._outcome is not None

    def when_done(self, call: Callable[[], object]) -> None:
        """Have ``call`` called once the outcome is known, by whoever gives it: it must be quick."""
        if not self._wakes(call):
            call()

    def comes_from(self, place: Place) -> None:
        """Say that it is another session whose code has to return first."""
        self._after = place

    def result(self, timeout: float | None = None) -> T:
        """Block for the value, at most ``timeout`` seconds (``TimeoutError``).

        Raises ``WouldDeadlock`` where the wait could never end or would block an event loop.
        """
        if self._outcome is None:
            refuse_to_block(self._session_id)
            arrived = Event()
            with waiting_for(self._after):
                if self._wakes(arrived.set) and not arrived.wait(timeout):
                    raise TimeoutError(f"no outcome within {timeout} seconds")
        return self._value()

    def __await__(self) -> Generator[object, None, T]:
        if self._outcome is None:
            loop = asyncio.get_running_loop()
            arrived: asyncio.Future[None] = loop.create_future()
            with waiting_for(self._after):
                if self._wakes(partial(_wake, loop, arrived)):
                    yield from arrived
        return self._value()

    def _settle(self, outcome: Kept[T] | Broken) -> None:
        with self._lock:
            if self._outcome is not None:
                return
            self._outcome = outcome
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def _wakes(self, wake: Callable[[], object]) -> bool:
        """Whether there is something to wait for; then ``wake`` is called at its end."""
        with self._lock:
            if self._outcome is None:
                self._wakers.append(wake)
            return self._outcome is None

    def _value(self) -> T:
        match self._outcome:
            case Kept(value=value):
                return value
            case Broken(error=error):
                raise error
        raise AssertionError("woken before the outcome was there")


def _wake(loop: asyncio.AbstractEventLoop, arrived: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # the waiter's loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_arrive, arrived)


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


def refuse_to_block(session_id: str) -> None:
    """Raise ``WouldDeadlock`` where a wait would hold up what it waits for."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise WouldDeadlock(
            "this wait would block the running event loop: use await or async for instead",
            session_id=session_id,
        )
    if on_worker():
        raise WouldDeadlock(
            "a wait inside an actor's handler would hold up other actors", session_id=session_id
        )


@contextmanager
def waiting_for(target: Place | None) -> Iterator[None]:
    """Around a wait for code of ``target`` to return; raises ``WouldDeadlock`` where that waits
    for the session whose code this is."""
    me = current_session.get()
    if me is None or target is None:
        yield
        return
    with _lock:
        _refuse_a_circle(me, target)
        _waits[me][target] += 1
    try:
        yield
    finally:
        with _lock:
            _waits[me][target] -= 1
            _waits[me] += Counter()
            if not _waits[me]:
                del _waits[me]


def _refuse_a_circle(me: Place, target: Place) -> None:
    reached, frontier = set(), [target]
    while frontier:
        session = frontier.pop()
        if session == me:
            raise WouldDeadlock(
                f"session {me.session_id!r} would wait for itself: send without waiting for the "
                "result",
                session_id=me.session_id,
            )
        if session not in reached:
            reached.add(session)
            frontier.extend(_waits.get(session, ()))
