"""A provider's client, as its adapters use it: a request, and the events that come back.

The clients of the providers that are spoken to here are made by one generator: their classes and
errors have the same names.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, ClassVar

from ...events.errors import InvalidAgent, ModelFailed, ModelRefused
from .clients import ClientPerLoop
from .faults import cut_off, seconds_to_wait, unreachable

_NO_EVENT = "holds something that is no event"


class Endpoint(ABC):
    """A server of a provider, or one that is compatible. Raises ``InvalidAgent`` where the
    provider's client is not installed."""

    extra: ClassVar[str]
    """What to install for the provider's client."""

    key: ClassVar[str]
    """Where the client looks for a key."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None,
        api_key: str | None,
        timeout: float | None,
        headers: Mapping[str, str] | None,
        client: Callable[[], Any] | None,
    ) -> None:
        self._model = model
        _, made_by, _ = self._installed()

        def make() -> Any:
            made = (
                client()
                if client is not None
                else made_by(
                    base_url=base_url,
                    api_key=api_key,
                    default_headers=headers,
                    **({} if timeout is None else {"timeout": timeout}),
                )
            )
            return made.with_options(max_retries=0)

        self._clients: ClientPerLoop[Any] = ClientPerLoop(make, _close)

    @staticmethod
    @abstractmethod
    def imported() -> tuple[Any, Callable[..., Any], type[Exception]]:
        """The provider's package, what makes its client, and the root of its errors. Raises
        ``ImportError``."""

    @abstractmethod
    def refused(
        self,
        body: object,
        status: int | None = None,
        after: float | None = None,
        message: object = "",
    ) -> ModelFailed:
        """The error for what the server answers in place of an answer: its ``body``, the
        ``status`` of HTTP, None within a stream, how long it asks to wait, in seconds, and the
        client's ``message``."""

    async def events(self, path: str, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """What the server streams back, event by event, as it came.

        Raises ``ModelUnavailable``, ``ModelRefused``, ``ContextTooLong``, and
        ``ModelStreamEnded`` where the stream breaks off.
        """
        sdk, _, root = self._installed()
        begun = False
        try:
            client = await self._client()
            stream = await client.post(
                path, body=body, cast_to=object, stream=True, stream_cls=sdk.AsyncStream[object]
            )
            begun = True
            async with stream:
                async for event in stream:
                    yield self._object(event)
        except sdk.APITimeoutError:
            raise unreachable(self._model, timed_out=True) from None
        except sdk.APIConnectionError:
            if begun:
                raise cut_off(self._model) from None
            raise unreachable(self._model, timed_out=False) from None
        except sdk.APIError as error:
            raise self._refusal(error, begun=begun) from None
        except root:
            raise self._without_key() from None
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise cut_off(self._model, _NO_EVENT) from None
        except Exception as error:
            # A client may let through what its transport raises in the middle of an answer.
            if isinstance(error, ModelFailed) or not begun:
                raise
            if _is_time_out(error):
                raise unreachable(self._model, timed_out=True) from None
            raise cut_off(self._model) from None

    async def _client(self) -> Any:
        """The client of the running loop. One without a key raises here, or the root error."""
        return await self._clients.get()

    def _without_key(self) -> ModelRefused:
        return ModelRefused(f"there is no key for {self._model}: set {self.key}, or give api_key=")

    def _installed(self) -> tuple[Any, Callable[..., Any], type[Exception]]:
        try:
            return self.imported()
        except ImportError:
            raise InvalidAgent(
                f"the client of {self.extra} is not installed: "
                f"pip install 'turnstream[{self.extra}]'"
            ) from None

    def _object(self, event: object) -> dict[str, Any]:
        if not isinstance(event, dict):
            raise cut_off(self._model, _NO_EVENT)
        return event

    def _refusal(self, error: Any, *, begun: bool) -> ModelFailed:
        response = None if begun else getattr(error, "response", None)
        if response is None:
            return self.refused(error.body, message=error.message)
        after = seconds_to_wait(response.headers)
        return self.refused(error.body, error.status_code, after, error.message)


async def _close(client: Any) -> None:
    await client.close()


def _is_time_out(error: Exception) -> bool:
    """Whether the transport waited too long. Which one that is, is the client's choice."""
    return any(each.__name__ == "TimeoutException" for each in type(error).__mro__)
