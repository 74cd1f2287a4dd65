"""A turn's items, for any number of readers in threads and event loops.

Late readers begin at the first item. Reading never holds the turn up, and leaving early leaves
nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock
from typing import Self

from .effects import Place
from .results import StreamItem, TurnDone
from .waiting import refuse_to_block, waiting_for


class Feed:
    """Items in order, ended by exactly one ``TurnDone``."""

    __slots__ = ("_items", "_lock", "_wakers")

    def __init__(self) -> None:
        self._items: list[StreamItem] = []
        self._lock = Lock()
        self._wakers: list[Callable[[], None]] = []

    def publish(self, item: StreamItem) -> None:
        """Show ``item``; after ``TurnDone`` nothing more is shown."""
        with self._lock:
            if self._ended:
                return
            self._items.append(item)
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def at(self, place: int) -> StreamItem:
        """The item at that place, which has come."""
        return self._items[place]

    def waits_for(self, place: int, wake: Callable[[], None]) -> bool:
        """Whether the item at that place is still to come; then ``wake`` is called with it."""
        with self._lock:
            if place < len(self._items):
                return False
            self._wakers.append(wake)
            return True

    @property
    def _ended(self) -> bool:
        return bool(self._items) and isinstance(self._items[-1], TurnDone)


class Reader:
    """One reader's way through a feed, whose items come from code of session ``after``: waiting
    for one inside that code raises ``WouldDeadlock``. ``on_leave`` is called where the reader is
    closed, or dropped, before the last item."""

    def __init__(
        self, feed: Feed, after: Place, on_leave: Callable[[], object] | None = None
    ) -> None:
        self._feed, self._after, self._place = feed, after, 0
        self._on_leave = on_leave
        self._over = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StreamItem:
        if self._over:
            raise StopIteration
        arrived = Event()
        if self._feed.waits_for(self._place, arrived.set):
            refuse_to_block(self._after.session_id)
            with waiting_for(self._after):
                arrived.wait()
        return self._next()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamItem:
        if self._over:
            raise StopAsyncIteration
        arrived = asyncio.Event()
        if self._feed.waits_for(self._place, _waker(asyncio.get_running_loop(), arrived)):
            with waiting_for(self._after):
                await arrived.wait()
        return self._next()

    def close(self) -> None:
        """Read no further. May be called more than once."""
        over, self._over = self._over, True
        if not over and self._on_leave is not None:
            self._on_leave()

    async def aclose(self) -> None:
        """The same, as the closing of an asynchronous iterator."""
        self.close()

    def __del__(self) -> None:
        self.close()

    def _next(self) -> StreamItem:
        item = self._feed.at(self._place)
        self._place += 1
        self._over = self._over or isinstance(item, TurnDone)
        return item


def _waker(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> Callable[[], None]:
    def wake() -> None:
        with suppress(RuntimeError):  # the reader's loop is closed: nobody reads any more
            loop.call_soon_threadsafe(arrived.set)

    return wake
