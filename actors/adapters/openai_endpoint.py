"""OpenAI's client, as both of its adapters use it: a request, and the events that come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...events.errors import ModelRefused
from .clients import ClientPerLoop, not_installed
from .faults import cut_off, refusal, seconds_to_wait, unreachable

if TYPE_CHECKING:
    from openai import APIError, AsyncOpenAI

_MOMENT = 0.1
_NO_EVENT = "holds something that is no event"


class OpenAIEndpoint:
    """A server that speaks OpenAI's formats. Raises ``InvalidAgent`` where OpenAI's client is not
    installed."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None,
        api_key: str | None,
        timeout: float | None,
        headers: Mapping[str, str] | None,
        client: Callable[[], AsyncOpenAI] | None,
    ) -> None:
        openai = _sdk()
        self._model = model

        def make() -> AsyncOpenAI:
            made = (
                client()
                if client is not None
                else openai.AsyncOpenAI(
                    base_url=base_url,
                    api_key=api_key,
                    default_headers=headers,
                    **({} if timeout is None else {"timeout": timeout}),
                )
            )
            return made.with_options(max_retries=0)

        self._clients: ClientPerLoop[AsyncOpenAI] = ClientPerLoop(make, _close)

    async def events(self, path: str, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """What the server streams back, event by event, as it came.

        Raises ``ModelUnavailable``, ``ModelRefused``, ``ContextTooLong``, and
        ``ModelStreamEnded`` where the stream breaks off.
        """
        openai = _sdk()
        begun = False
        try:
            client = await self._client()
            stream = await client.post(
                path,
                body=body,
                cast_to=object,
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
            begun = True
            async with stream:
                async for event in stream:
                    if not isinstance(event, dict):
                        raise cut_off(self._model, _NO_EVENT)
                    yield event
        except openai.APITimeoutError:
            raise unreachable(self._model, timed_out=True) from None
        except openai.APIConnectionError:
            if begun:
                raise cut_off(self._model) from None
            raise unreachable(self._model, timed_out=False) from None
        except openai.APIStatusError as error:
            after = seconds_to_wait(error.response.headers)
            raise self._refusal(error, error.status_code, after) from None
        except openai.APIError as error:
            raise self._refusal(error, None, None) from None
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise cut_off(self._model, _NO_EVENT) from None

    async def _client(self) -> AsyncOpenAI:
        openai = _sdk()
        try:
            return await self._clients.get()
        except openai.OpenAIError:
            raise ModelRefused(
                f"there is no key for {self._model}: set OPENAI_API_KEY, or give api_key="
            ) from None

    def _refusal(self, error: APIError, status: int | None, after: float | None) -> Exception:
        return self.refused(error.body, status, after, error.message)

    def refused(
        self,
        error: object,
        status: int | None = None,
        after: float | None = None,
        message: object = "",
    ) -> Exception:
        """The error for an error object of OpenAI's format."""
        fields: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
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


async def _close(client: AsyncOpenAI) -> None:
    await client.close()


def _sdk() -> Any:
    try:
        import openai
    except ImportError:
        raise not_installed("openai") from None
    return openai
