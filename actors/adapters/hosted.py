"""A model at a provider: where it is, what goes to it, and how its answer comes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ...events.errors import InvalidAgent
from ...events.messages import ModelTurn, Usage
from ..models import Delta, ModelRequest
from ..tools import is_seconds
from .carrying import with_settings
from .endpoint import Endpoint
from .faults import cut_off


class Answer(Protocol):
    """An answer in the making."""

    @property
    def is_whole(self) -> bool:
        """Whether the server said that it ended."""
        ...

    def take(self, event: Mapping[str, Any], /) -> Iterator[Delta | Usage]:
        """Add an event; what of it is to be shown."""
        ...

    def turn(self) -> ModelTurn:
        """The whole answer."""
        ...


AnswerT = TypeVar("AnswerT", bound=Answer)


class HostedModel(ABC, Generic[AnswerT]):
    """A model behind a provider's interface, at the provider or at a server that is compatible.

    It may be shared by agents, systems and threads. Raises ``InvalidAgent`` where the provider's
    client is not installed.
    """

    prefix: ClassVar[str]
    """What its ``id`` begins with."""

    path: ClassVar[str]
    """What requests are posted to."""

    _endpoint_type: ClassVar[type[Endpoint]]
    """What carries them."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        client: Callable[[], Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidAgent(f"a model has the name that its provider knows it by, not {name!r}")
        if timeout is not None and not is_seconds(timeout):
            raise InvalidAgent(f"model {name!r}: timeout must be some seconds, not {timeout!r}")
        for field, given in (("headers", headers), ("settings", settings)):
            if not isinstance(given, Mapping | None):
                raise InvalidAgent(f"model {name!r}: {field} must be a dict")
        self._name, self._settings = name, dict(settings or {})
        self._endpoint: Endpoint = self._endpoint_type(
            self.id,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            headers=headers,
            client=client,
        )

    @property
    def id(self) -> str:
        """The model's name in the stream: the adapter's prefix, and the name at the provider."""
        return f"{self.prefix}:{self._name}"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Usage | ModelTurn]:
        """The answer as it comes, and then as a turn.

        Raises ``ModelUnavailable``, ``ModelRefused``, ``ContextTooLong``, and
        ``ModelStreamEnded`` where the answer is not whole.
        """
        answer = self._answer()
        body = with_settings(self._body(request), self._settings, request.settings)
        async with aclosing(self._endpoint.events(self.path, body)) as events:
            async for event in events:
                for shown in answer.take(event):
                    yield shown
                await self._taken(answer, events)
        if not answer.is_whole:
            raise cut_off(self.id)
        yield answer.turn()

    @abstractmethod
    def _answer(self) -> AnswerT:
        """An answer of which nothing came yet."""

    @abstractmethod
    def _body(self, request: ModelRequest) -> dict[str, Any]:
        """The fields of the request, without settings; those that are None are left out."""

    async def _taken(self, answer: AnswerT, events: AsyncIterator[object]) -> None:
        """Look at the answer after an event. Raises the error that the answer is."""
