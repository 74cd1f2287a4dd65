"""Waiting for a server that may never answer.

A server that is stopped or frozen keeps its sockets open, and the kernel beneath it acknowledges
what is sent, so TCP finds nothing wrong. Whoever has heard nothing for as long as a store waits
asks on another connection: a server that works at a long statement answers there, and is waited
for; one that is silent there too is given up.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from time import monotonic
from typing import Any, TypeVar

import psycopg

from .address import Place

R = TypeVar("R")


class Silence(psycopg.OperationalError):
    """Nothing was heard for as long as a store waits."""


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that waits no longer than its place allows, from when it is ``watched``."""

    _place: Place | None = None
    _asks = True

    def watch(self, place: Place, *, asks: bool = True) -> None:
        """Give up a server that is silent; where this connection does not ask on another, one
        that is silent on this."""
        self._place, self._asks = place, asks

    def wait(self, gen: Generator[Any, Any, R], *args: Any, **options: Any) -> R:
        """What comes of a step of the client's protocol. Raises ``Silence``, and the connection is
        closed, where the server is silent."""
        if self._place is not None:
            gen = self._watched(gen, self._place)
        return super().wait(gen, *args, **options)

    def _watched(self, gen: Generator[Any, Any, R], place: Place) -> Generator[Any, Any, R]:
        heard = monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = monotonic()
                elif monotonic() - heard >= place.timeout:
                    if not self._asks or is_silent(place):
                        self._give_up(place)
                    heard = monotonic()
                wanted = gen.send(ready)
        except StopIteration as end:
            result: R = end.value
            return result

    def _give_up(self, place: Place) -> None:
        # What was sent may be done yet, when the server goes on. The answer has nobody to go to.
        self.pgconn.finish()
        raise Silence(f"it was silent for {place.timeout:g} seconds")


def is_silent(place: Place) -> bool:
    """Whether a new connection waits in vain. One that is refused has heard something."""
    begun, patience = monotonic(), place.connect_seconds
    try:
        options = {**place.parameters, "connect_timeout": patience}
        with closing(WatchedConnection.connect(**options, autocommit=True)) as connection:
            connection.watch(place, asks=False)
            connection.execute("SELECT 1")
    except Silence:
        return True
    except psycopg.Error:
        return monotonic() - begun >= patience
    return False
