"""Servers that speak OpenAI's formats, for both of the adapters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

from ...events.errors import ModelFailed
from .endpoint import Endpoint
from .faults import refusal

_MOMENT = 0.1


class OpenAIEndpoint(Endpoint):
    """A server that speaks OpenAI's formats."""

    extra = "openai"
    key = "OPENAI_API_KEY"

    @staticmethod
    def imported() -> tuple[Any, Callable[..., Any], type[Exception]]:
        import openai

        return openai, openai.AsyncOpenAI, openai.OpenAIError

    def refused(
        self,
        body: object,
        status: int | None = None,
        after: float | None = None,
        message: object = "",
    ) -> ModelFailed:
        """The error for an error object of OpenAI's format."""
        fields: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
        code = fields.get("code")
        if type(code) is int and 400 <= code < 600:
            status = status or code
        word = code if isinstance(code, str) else fields.get("type")
        text = f"{message} {fields.get('message') or ''}"
        return refusal(self._model, status, word, text, after)


async def read_out(events: AsyncIterator[object]) -> None:
    """Read what comes after the end of an answer, for a moment: a connection that was read to
    its end can be used again."""
    with suppress(Exception):
        async with asyncio.timeout(_MOMENT):
            async for _ in events:
                pass
