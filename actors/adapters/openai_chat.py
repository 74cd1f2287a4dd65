"""OpenAI's Chat Completions, and every server that speaks the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ...events.messages import ModelTurn, Usage
from ..models import Delta, ModelRequest
from .carrying import with_settings
from .faults import cut_off
from .openai_chat_answer import ChatAnswer
from .openai_chat_messages import chat_messages
from .openai_endpoint import OpenAIEndpoint
from .openai_output import asked_output

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIChat:
    """A model behind Chat Completions, at OpenAI or at any server that is compatible.

    ``base_url`` and ``api_key`` are the client's own, which reads ``OPENAI_BASE_URL`` and
    ``OPENAI_API_KEY`` where they are None; ``timeout`` bounds each wait for the server, in
    seconds (None: the client's 10 minutes); ``headers`` go with each request. ``client`` is a
    function that makes an ``AsyncOpenAI`` in place of all these; it is called once for each
    event loop. The client's own retries are switched off: the agent's ``model_retries`` rules.
    ``settings`` are fields of the request, such as ``temperature``; None leaves a field out.

    It may be shared by agents, systems and threads. Raises ``InvalidAgent`` where OpenAI's client
    is not installed.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        client: Callable[[], AsyncOpenAI] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._name, self._settings = name, dict(settings or {})
        self._endpoint = OpenAIEndpoint(
            self.id,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            headers=headers,
            client=client,
        )

    @property
    def id(self) -> str:
        """The model's name in the stream: ``openai:NAME``."""
        return f"openai:{self._name}"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Usage | ModelTurn]:
        """The answer as it comes, and then as a turn.

        Raises ``ModelUnavailable``, ``ModelRefused``, ``ContextTooLong``, and
        ``ModelStreamEnded`` where the answer is not whole.
        """
        answer = ChatAnswer(self.id)
        body = self._body(request)
        async with aclosing(self._endpoint.events("/chat/completions", body)) as events:
            async for event in events:
                for shown in answer.take(event):
                    yield shown
        if not answer.is_whole:
            raise cut_off(self.id)
        yield answer.turn()

    def _body(self, request: ModelRequest) -> Any:
        tools = [
            {
                "type": "function",
                "function": {
                    "name": each.name,
                    "description": each.description,
                    "parameters": each.schema,
                },
            }
            for each in request.tools
        ]
        instructions, output = asked_output(request)
        body = {
            "model": self._name,
            "messages": chat_messages(instructions, request.messages, self.id),
            "tools": tools or None,
            "response_format": output and {"type": "json_schema", "json_schema": output},
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return with_settings(body, self._settings, request.settings)
