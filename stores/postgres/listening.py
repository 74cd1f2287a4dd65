"""Hearing of what other processes append, for those in this one who follow the log.

One thread and one connection serve all subscriptions of a store, as long as there are any. They
are a shortcut, no more: a notification says that there may be something to read. Once a second it
is said in any case, so that nobody waits for ever behind a connection that died without a word.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from threading import Event, Lock, Thread

import psycopg

from .address import Place
from .connections import Connection, connect
from .functions import AUDIENCE, LOG

POLL_SECONDS = 1.0
JOIN_SECONDS = 5.0

# Whoever appends notifies only if this lock is taken. It is granted when the appends that saw
# nobody listening have been committed; what they wrote is read then.
JOIN = f"SELECT pg_advisory_lock_shared({LOG}, {AUDIENCE})"


class Audience:
    """Calls ``notify`` when there may be something new in the log, from when it is ``joined`` for
    as long as it is ``wanted``."""

    def __init__(
        self, place: Place, notify: Callable[[], None], wanted: Callable[[], bool]
    ) -> None:
        self._place = place
        self._notify, self._wanted = notify, wanted
        self._lock = Lock()
        self._over = Event()
        self._thread: Thread | None = None
        self._listens = False
        self._wake: socket.socket | None = None

    def join(self) -> None:
        """Begin to listen, if nobody does."""
        with self._lock:
            if not self._listens and not self._over.is_set():
                self._listens = True
                woken, self._wake = socket.socketpair()
                self._thread = Thread(
                    target=self._run, args=(woken,), name="turnstream-listener", daemon=True
                )
                self._thread.start()

    def leave(self) -> None:
        """Listen no more, soon."""
        with self._lock:
            self._over.set()
            if self._wake is not None:
                self._wake.close()

    def close(self) -> None:
        """Listen no more. May be called more than once."""
        self.leave()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def _run(self, woken: socket.socket) -> None:
        with woken:
            while self._goes_on():
                with suppress(psycopg.Error, OSError), closing(connect(self._place)) as connection:
                    connection.execute(f'LISTEN "{self._place.channel}"'.encode())
                    connection.execute(JOIN.encode())
                    self._listen(connection, woken)
                self._notify()
                if self._wanted():
                    self._over.wait(POLL_SECONDS)

    def _goes_on(self) -> bool:
        with self._lock:
            self._listens = self._wanted() and not self._over.is_set()
            if not self._listens and self._wake is not None:
                self._wake.close()
            return self._listens

    def _listen(self, connection: Connection, woken: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while self._wanted() and not self._over.is_set():
                self._notify()
                selector.select(POLL_SECONDS)
                for _ in connection.notifies(timeout=0):
                    pass
