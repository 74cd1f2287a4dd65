"""Servers that speak Anthropic's format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...events.errors import ModelFailed
from .endpoint import Endpoint
from .faults import refusal

_KEYS = {"authorization", "x-api-key"}


class AnthropicEndpoint(Endpoint):
    """A server that speaks Anthropic's format."""

    extra = "anthropic"
    key = "ANTHROPIC_API_KEY"

    @staticmethod
    def imported() -> tuple[Any, Callable[..., Any], type[Exception]]:
        import anthropic

        return anthropic, anthropic.AsyncAnthropic, anthropic.AnthropicError

    def refused(
        self,
        body: object,
        status: int | None = None,
        after: float | None = None,
        message: object = "",
    ) -> ModelFailed:
        """The error for an error object of Anthropic's format. The client's message repeats it,
        and is not looked at."""
        fields = body.get("error") if isinstance(body, Mapping) else None
        fields = fields if isinstance(fields, Mapping) else {}
        text = str(fields.get("message") or "")
        return refusal(self._model, status, fields.get("type"), text, after)

    async def _client(self) -> Any:
        """The client tells of a missing key as of any other wrong type, so it is looked for."""
        client = await super()._client()
        sent = {name.lower() for name in client.default_headers}
        if client.api_key or client.auth_token or client.credentials or sent & _KEYS:
            return client
        raise self._without_key()
