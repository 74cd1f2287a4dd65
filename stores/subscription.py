"""The log of all events, read and then followed.

The thread that iterates does all the work: it reads, and when it has read everything it waits to
be woken. Writers in this process ring a bell. For those in other processes it looks, a few times
a second, at a number that changes with their every commit. So there is no thread to leave behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event, Lock
from typing import Protocol

from ..events.envelope import StoredRecord
from ..events.errors import StoreClosed

POLL_SECONDS = 0.05
PAGE = 500


class Tide(Protocol):
    """Tells whether other processes committed."""

    def level(self) -> int:
        """A number that is another one after each commit of another process."""
        ...

    def close(self) -> None:
        """Release what it holds. May be called more than once."""


class Bell:
    """Wakes the subscriptions of a store when something was written."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._subscriptions: tuple[LogSubscription, ...] = ()

    def ring(self) -> None:
        """Wake every subscription."""
        for subscription in self._subscriptions:
            subscription.wake()

    def hang(self, subscription: LogSubscription) -> None:
        """Wake this one too, from now on."""
        with self._lock:
            self._subscriptions = (*self._subscriptions, subscription)

    def take_down(self, subscription: LogSubscription) -> None:
        """Wake this one no more."""
        with self._lock:
            self._subscriptions = tuple(s for s in self._subscriptions if s is not subscription)

    def close(self) -> None:
        """Close every subscription."""
        for subscription in self._subscriptions:
            subscription.close()


class LogSubscription:
    """A ``Subscription``. One thread at a time iterates; a later iteration goes on where the
    one before it was left."""

    def __init__(
        self,
        read: Callable[[int, int], Sequence[StoredRecord]],
        bell: Bell,
        *,
        after: int,
        tide: Tide | None = None,
    ) -> None:
        self._read = read
        self._bell = bell
        self._after = after
        self._tide = tide
        self._woken = Event()
        self._closed = False
        bell.hang(self)

    def __iter__(self) -> Iterator[StoredRecord]:
        while not self._closed:
            # Both before the read: what is committed during it must wake us again.
            self._woken.clear()
            level = self._level()
            records = self._page()
            for record in records:
                if self._closed:
                    return
                self._after = record.position
                yield record
            if not records:
                self._wait(level)

    def __enter__(self) -> LogSubscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def wake(self) -> None:
        """There may be something to read."""
        self._woken.set()

    def close(self) -> None:
        """End the iteration. May be called more than once."""
        self._closed = True
        self._bell.take_down(self)
        self._woken.set()
        if self._tide is not None:
            self._tide.close()

    def _page(self) -> Sequence[StoredRecord]:
        try:
            return self._read(self._after, PAGE)
        except StoreClosed:
            if self._closed:
                return ()
            raise

    def _level(self) -> int:
        return self._tide.level() if self._tide is not None else 0

    def _wait(self, level: int) -> None:
        pause = None if self._tide is None else POLL_SECONDS
        while not self._closed and not self._woken.wait(pause):
            if self._level() != level:
                return
