"""Anthropic's Messages, and every server that speaks the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ...events.messages import ModelTurn, ToolSpec, Usage
from ..models import Delta, ModelRequest
from .anthropic_answer import MessagesAnswer
from .anthropic_endpoint import AnthropicEndpoint
from .anthropic_input import messages_input
from .anthropic_output import wanted_output
from .carrying import with_settings
from .faults import cut_off

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


class AnthropicMessages:
    """A model behind Messages, at Anthropic or at any server that is compatible.

    ``base_url`` and ``api_key`` are the client's own, which reads ``ANTHROPIC_BASE_URL`` and
    ``ANTHROPIC_API_KEY`` where they are None; ``timeout`` bounds each wait for the server, in
    seconds (None: the client's 10 minutes); ``headers`` go with each request. ``client`` is a
    function that makes an ``AsyncAnthropic`` in place of all these; it is called once for each
    event loop. The client's own retries are switched off: the agent's ``model_retries`` rules.
    ``settings`` are fields of the request, such as ``thinking``; None leaves a field out. Without
    ``max_tokens`` among them an answer has 8,192 tokens at most.

    It may be shared by agents, systems and threads. Raises ``InvalidAgent`` where Anthropic's
    client is not installed.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        client: Callable[[], AsyncAnthropic] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._name, self._settings = name, dict(settings or {})
        self._endpoint = AnthropicEndpoint(
            self.id,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            headers=headers,
            client=client,
        )

    @property
    def id(self) -> str:
        """The model's name in the stream: ``anthropic:NAME``."""
        return f"anthropic:{self._name}"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Usage | ModelTurn]:
        """The answer as it comes, and then as a turn.

        Raises ``ModelUnavailable``, ``ModelRefused``, ``ContextTooLong``, and
        ``ModelStreamEnded`` where the answer is not whole.
        """
        answer = MessagesAnswer(self.id)
        async with aclosing(self._endpoint.events(self._body(request))) as events:
            async for event in events:
                for shown in answer.take(event):
                    yield shown
        if not answer.is_whole:
            raise cut_off(self.id)
        yield answer.turn()

    def _body(self, request: ModelRequest) -> Any:
        output, instructions = wanted_output(request)
        body = {
            "model": self._name,
            "max_tokens": 8192,
            "system": instructions or None,
            "messages": messages_input(request.messages, self.id),
            "tools": [_tool(each) for each in request.tools] or None,
            "output_config": output,
            "stream": True,
        }
        return with_settings(body, self._settings, request.settings)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
