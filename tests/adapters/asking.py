"""A model asked outside of any system."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from turnstream.actors import Model, ModelRequest
from turnstream.events import Message, ModelTurn, UserMessage


def request(messages: Sequence[Message] = (UserMessage("hi"),), **fields: Any) -> ModelRequest:
    """One that holds these messages, and little else."""
    given = {"messages": tuple(messages), "instructions": "", "tools": ()}
    ids = {"session_id": "s", "turn_id": "turn-1", "step": 1}
    return ModelRequest(**{**given, **ids, **fields})


def asked(model: Model, *messages: Message, **fields: Any) -> list[Any]:
    """All that a model streams."""

    async def ask() -> list[Any]:
        asked = request(messages, **fields) if messages else request(**fields)
        return [each async for each in model.stream(asked)]

    return asyncio.run(ask())


def answered(model: Model, *messages: Message, **fields: Any) -> ModelTurn:
    """The turn that a model's stream ends with."""
    turn = asked(model, *messages, **fields)[-1]
    assert isinstance(turn, ModelTurn)
    return turn
