"""Hooks made of functions, and a model that makes one call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from turnstream.actors import (
    Hooks,
    ModelRequest,
)
from turnstream.actors.testing import call
from turnstream.events import (
    ModelTurn,
    Usage,
    UserMessage,
)

WAIT = 20


def asks(request: ModelRequest) -> ModelTurn:
    """Pay for what the user said, then repeat the result."""
    last = request.messages[-1]
    if isinstance(last, UserMessage):
        return ModelTurn(tool_calls=(call("pay", amount=int(str(last.content))),))
    return ModelTurn(f"the tool said: {last.content}", usage=Usage(3, 4))


async def asks_async(request: ModelRequest) -> ModelTurn:
    return asks(request)


def made(is_async: bool, **methods: Callable[..., Any]) -> Hooks:
    """A hook with these methods; async ones that suspend, if so."""

    def awaited(method: Callable[..., Any]) -> Callable[..., Any]:
        async def later(*args: Any) -> Any:
            await asyncio.sleep(0)
            return method(*args)

        return later

    chosen = {
        name: staticmethod(awaited(method) if is_async else method)
        for name, method in methods.items()
    }
    return type("Made", (Hooks,), chosen)()


def raising(error: BaseException) -> Callable[..., Any]:
    def hook(*args: Any) -> Any:
        raise error

    return hook
