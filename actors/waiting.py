"""Promises that callers wait on, from threads and from event loops.

A wait that could never end is refused when it begins: on a running event loop, inside the
session's own tool or model, and in a circle of sessions that wait for each other.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Generic, TypeVar

from ..events.errors import WouldDeadlock
from .dispatcher import on_worker
from .effects import current_session

T = TypeVar("T")

_lock = Lock()
_waits: defaultdict[str, Counter[str]] = defaultdict(Counter)


class Promise(Generic[T]):
    """A value that will come, or an error. Whoever waits may give up without harm to others."""

    __slots__ = ("_future", "_session_id")

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._future: Future[T] = Future()
        self._future.set_running_or_notify_cancel()

    def resolve(self, value: T) -> None:
        """Give the value; ignored where there is an outcome already."""
        with suppress(InvalidStateError):
            self._future.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Give the error; ignored where there is an outcome already."""
        with suppress(InvalidStateError):
            self._future.set_exception(error)

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Block for the value, at most ``timeout`` seconds (``TimeoutError``).

        Raises ``WouldDeadlock`` where the wait could never end or would block an event loop.
        """
        if self._future.done():
            return self._future.result()
        _refuse_on_a_loop(self._session_id)
        if on_worker():
            raise WouldDeadlock("a wait inside an actor's handler would hold up other actors")
        with _waiting_for(self._session_id):
            return self._future.result(timeout)

    def __await__(self) -> Generator[object, None, T]:
        if self._future.done():
            return self._future.result()
        with _waiting_for(self._session_id):
            return (yield from asyncio.wrap_future(self._future).__await__())


def _refuse_on_a_loop(session_id: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise WouldDeadlock(
        "this wait would block the running event loop: await it instead", session_id=session_id
    )


@contextmanager
def _waiting_for(target: str) -> Iterator[None]:
    me = current_session.get()
    if me is None:
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


def _refuse_a_circle(me: str, target: str) -> None:
    reached, frontier = set(), [target]
    while frontier:
        session = frontier.pop()
        if session == me:
            raise WouldDeadlock(
                f"session {me!r} would wait for itself: send without waiting for the result",
                session_id=me,
            )
        if session not in reached:
            reached.add(session)
            frontier.extend(_waits.get(session, ()))
