"""One client for each event loop: a connection belongs to the loop it was opened on."""

from __future__ import annotations

from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import AsyncGenerator, Awaitable, Callable
from threading import Lock
from typing import Generic, TypeVar

Client = TypeVar("Client")


class ClientPerLoop(Generic[Client]):
    """Makes a client for each loop that asks for one, and closes it on that very loop: when the
    loop shuts down, or when this object is collected. Safe to share between threads."""

    def __init__(
        self, make: Callable[[], Client], close: Callable[[Client], Awaitable[None]]
    ) -> None:
        self._make, self._close = make, close
        self._lock = Lock()
        self._kept: dict[AbstractEventLoop, tuple[Client, AsyncGenerator[None, None]]] = {}

    async def get(self) -> Client:
        """The client of the running loop. Raises what making one raises."""
        loop = get_running_loop()
        with self._lock:
            for closed in [each for each in self._kept if each.is_closed()]:
                del self._kept[closed]
            kept = self._kept.get(loop)
        if kept is not None:
            return kept[0]
        client = self._make()
        keeping = _keep(client, self._close)
        await anext(keeping)
        with self._lock:
            self._kept[loop] = client, keeping
        return client


async def _keep(
    client: Client, close: Callable[[Client], Awaitable[None]]
) -> AsyncGenerator[None, None]:
    """A loop knows the generators that were begun on it: it closes them when it shuts down, and
    when nothing refers to them any more."""
    try:
        yield
    finally:
        await close(client)
