"""A turn's items, for any number of readers in threads and event loops.

Late readers begin at the first item. Reading never holds the turn up, and leaving early leaves
nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from threading import Event, Lock

from .results import StreamItem, TurnDone


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

    @property
    def _ended(self) -> bool:
        return bool(self._items) and isinstance(self._items[-1], TurnDone)

    def _waits_for(self, place: int, wake: Callable[[], None]) -> bool:
        with self._lock:
            if place < len(self._items):
                return False
            self._wakers.append(wake)
            return True

    def __iter__(self) -> Iterator[StreamItem]:
        place = 0
        while True:
            arrived = Event()
            if self._waits_for(place, arrived.set):
                arrived.wait()
            item = self._items[place]
            place += 1
            yield item
            if isinstance(item, TurnDone):
                return

    async def __aiter__(self) -> AsyncIterator[StreamItem]:
        loop, place = asyncio.get_running_loop(), 0
        while True:
            arrived = asyncio.Event()
            if self._waits_for(place, _waker(loop, arrived)):
                await arrived.wait()
            item = self._items[place]
            place += 1
            yield item
            if isinstance(item, TurnDone):
                return


def _waker(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> Callable[[], None]:
    def wake() -> None:
        with suppress(RuntimeError):  # the reader's loop is closed: nobody reads any more
            loop.call_soon_threadsafe(arrived.set)

    return wake
