"""OpenAI's Chat Completions, and every server that speaks the same."""

from __future__ import annotations

from typing import Any

from ..models import ModelRequest
from .hosted import HostedModel
from .openai_chat_answer import ChatAnswer
from .openai_chat_messages import chat_messages
from .openai_endpoint import OpenAIEndpoint
from .openai_output import asked_output


class OpenAIChat(HostedModel[ChatAnswer]):
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

    prefix = "openai"
    path = "/chat/completions"
    _endpoint_type = OpenAIEndpoint

    def _answer(self) -> ChatAnswer:
        return ChatAnswer(self.id)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
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
        return {
            "model": self._name,
            "messages": chat_messages(instructions, request.messages, self.id),
            "tools": tools or None,
            "response_format": output and {"type": "json_schema", "json_schema": output},
            "stream": True,
            "stream_options": {"include_usage": True},
        }
