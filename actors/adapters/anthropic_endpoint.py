"""Anthropic's client: a request, and the events that come back."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...events.errors import ModelFailed, ModelRefused
from .clients import ClientPerLoop, not_installed
from .faults import cut_off, refusal, seconds_to_wait, unreachable

if TYPE_CHECKING:
    from anthropic import APIStatusError, AsyncAnthropic

_KEYS = {"authorization", "x-api-key"}
_NO_EVENT = "holds something that is no event"


class AnthropicEndpoint:
    """A server that speaks Anthropic's format. Raises ``InvalidAgent`` where Anthropic's client is
    not installed."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None,
        api_key: str | None,
        timeout: float | None,
        headers: Mapping[str, str] | None,
        client: Callable[[], AsyncAnthropic] | None,
    ) -> None:
        anthropic = _sdk()
        self._model = model

        def make() -> AsyncAnthropic:
            made = (
                client()
                if client is not None
                else anthropic.AsyncAnthropic(
                    base_url=base_url,
                    api_key=api_key,
                    default_headers=headers,
                    **({} if timeout is None else {"timeout": timeout}),
                )
            )
            return made.with_options(max_retries=0)

        self._clients: ClientPerLoop[AsyncAnthropic] = ClientPerLoop(make, _close)

    async def events(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """What the server streams back, event by event, as it came.

        Raises ``ModelUnavailable``, ``ModelRefused``, ``ContextTooLong``, and
        ``ModelStreamEnded`` where the stream breaks off.
        """
        anthropic = _sdk()
        begun = False
        try:
            client = await self._client()
            stream = await client.post(
                "/v1/messages",
                body=body,
                cast_to=object,
                stream=True,
                stream_cls=anthropic.AsyncStream[object],
            )
            begun = True
            async with stream:
                async for event in stream:
                    yield self._object(event)
        except anthropic.APITimeoutError:
            raise unreachable(self._model, timed_out=True) from None
        except anthropic.APIConnectionError:
            if begun:
                raise cut_off(self._model) from None
            raise unreachable(self._model, timed_out=False) from None
        except anthropic.APIStatusError as error:
            raise self._refusal(error, begun=begun) from None
        except anthropic.AnthropicError:
            raise self._without_key() from None
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise cut_off(self._model, _NO_EVENT) from None
        except Exception as error:
            # The client lets through what its transport raises in the middle of an answer.
            if isinstance(error, ModelFailed) or not begun:
                raise
            if _is_time_out(error):
                raise unreachable(self._model, timed_out=True) from None
            raise cut_off(self._model) from None

    def _object(self, event: object) -> dict[str, Any]:
        if not isinstance(event, dict):
            raise cut_off(self._model, _NO_EVENT)
        return event

    async def _client(self) -> AsyncAnthropic:
        """The client, if it has a key: it tells of a missing one as of any other wrong type."""
        client = await self._clients.get()
        sent = {name.lower() for name in client.default_headers}
        if client.api_key or client.auth_token or client.credentials or sent & _KEYS:
            return client
        raise self._without_key()

    def _without_key(self) -> ModelRefused:
        return ModelRefused(
            f"there is no key for {self._model}: set ANTHROPIC_API_KEY, or give api_key="
        )

    def _refusal(self, error: APIStatusError, *, begun: bool) -> Exception:
        body = error.body if isinstance(error.body, Mapping) else {}
        fields = body.get("error")
        fields = fields if isinstance(fields, Mapping) else {}
        return refusal(
            self._model,
            None if begun else error.status_code,
            fields.get("type"),
            str(fields.get("message") or ""),
            None if begun else seconds_to_wait(error.response.headers),
        )


def _is_time_out(error: Exception) -> bool:
    """Whether the transport waited too long. Which one that is, is the client's choice."""
    return any(each.__name__ == "TimeoutException" for each in type(error).__mro__)


async def _close(client: AsyncAnthropic) -> None:
    await client.close()


def _sdk() -> Any:
    try:
        import anthropic
    except ImportError:
        raise not_installed("anthropic") from None
    return anthropic
