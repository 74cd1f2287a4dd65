"""The log of all events, read and then followed.

The thread that iterates does all the work: it reads, and when it has read everything it waits to
be notified. Writers in this process notify it. For those in other processes it looks, some times
a second, at a mark that changes with their every commit. So there is no thread to leave behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event, Lock
from typing import Protocol

from ..events.envelope import StoredRecord
from ..events.errors import StoreClosed

POLL_SECONDS = 0.05
PAGE = 500


class ForeignCommits(Protocol):
    """Tells whether other processes committed."""

    def mark(self) -> object:
        """Something that equals nothing before it once another process has committed."""
        ...

    def close(self) -> None:
        """Release what it holds. May be called more than once."""


class Listeners:
    """The open subscriptions of a store."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._subscriptions: tuple[LogSubscription, ...] = ()

    def notify(self) -> None:
        """Tell every subscription that something was written."""
        for subscription in self._subscriptions:
            subscription.notify()

    def any(self) -> bool:
        """Whether somebody follows the log."""
        return bool(self._subscriptions)

    def add(self, subscription: LogSubscription) -> None:
        """Notify this one too, from now on."""
        with self._lock:
            self._subscriptions = (*self._subscriptions, subscription)

    def remove(self, subscription: LogSubscription) -> None:
        """Notify this one no more."""
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
        listeners: Listeners,
        *,
        after: int,
        foreign: ForeignCommits | None = None,
    ) -> None:
        self._read = read
        self._listeners = listeners
        self._after = after
        self._foreign = foreign
        self._notified = Event()
        self._closed = False
        listeners.add(self)

    def __iter__(self) -> Iterator[StoredRecord]:
        while not self._closed:
            # Both before the read: what is committed during it must be noticed after it.
            self._notified.clear()
            mark = self._mark()
            records = self._page()
            for record in records:
                if self._closed:
                    return
                self._after = record.position
                yield record
            if not records:
                self._wait(mark)

    def __enter__(self) -> LogSubscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def notify(self) -> None:
        """There may be something to read."""
        self._notified.set()

    def close(self) -> None:
        """End the iteration. May be called more than once."""
        self._closed = True
        self._listeners.remove(self)
        self._notified.set()
        if self._foreign is not None:
            self._foreign.close()

    def _page(self) -> Sequence[StoredRecord]:
        try:
            return self._read(self._after, PAGE)
        except StoreClosed:
            if self._closed:
                return ()
            raise

    def _mark(self) -> object:
        return self._foreign.mark() if self._foreign is not None else None

    def _wait(self, mark: object) -> None:
        pause = None if self._foreign is None else POLL_SECONDS
        while not self._closed and not self._notified.wait(pause):
            if self._mark() != mark:
                return
