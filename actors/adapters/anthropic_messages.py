"""Anthropic's Messages, and every server that speaks the same."""

from __future__ import annotations

from typing import Any

from ...events.messages import ToolSpec
from ..models import ModelRequest
from .anthropic_answer import MessagesAnswer
from .anthropic_endpoint import AnthropicEndpoint
from .anthropic_input import messages_input
from .anthropic_output import wanted_output
from .hosted import HostedModel


class AnthropicMessages(HostedModel[MessagesAnswer]):
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

    prefix = "anthropic"
    path = "/v1/messages"
    _endpoint_type = AnthropicEndpoint

    def _answer(self) -> MessagesAnswer:
        return MessagesAnswer(self.id)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        output, instructions = wanted_output(request)
        return {
            "model": self._name,
            "max_tokens": 8192,
            "system": instructions or None,
            "messages": messages_input(request.messages, self.id),
            "tools": [_tool(each) for each in request.tools] or None,
            "output_config": output,
            "stream": True,
        }


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
