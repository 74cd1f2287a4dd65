"""What the tests of a turn's stream share: readers of either form, and what they read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any

from turnstream.actors import Turn


def read(turn: Turn) -> list[Any]:
    return list(turn.stream())


def read_async(turn: Turn) -> list[Any]:
    async def main() -> list[Any]:
        return [item async for item in turn.stream()]

    return asyncio.run(main())


FORMS = (read, read_async)


def aside(fn: Callable[..., Any], *args: Any) -> Future[Any]:
    """Call ``fn`` on a thread that keeps nobody from ending."""
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(fn(*args))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=work, daemon=True).start()
    return future


def readers(turn: Turn) -> list[Future[Any]]:
    return [aside(form, turn) for form in FORMS]


def kinds(items: Sequence[Any]) -> list[str]:
    return [item.type for item in items]


def ends_once(items: Sequence[Any]) -> bool:
    return [item.type == "turn.done" for item in items] == [False] * (len(items) - 1) + [True]
