"""OpenAI's Responses API, without anything being stored at the provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ..models import ModelRequest
from .hosted import HostedModel
from .openai_endpoint import OpenAIEndpoint, read_out
from .openai_output import asked_output
from .openai_responses_answer import ResponsesAnswer
from .openai_responses_input import responses_input


class OpenAIResponses(HostedModel[ResponsesAnswer]):
    """A model behind the Responses API, at OpenAI or at any server that is compatible.

    Every request holds the whole conversation, and asks the provider to store nothing; reasoning
    comes back encrypted and goes along with the next request. Everything else is as for
    ``OpenAIChat``.
    """

    prefix = "openai-responses"
    path = "/responses"
    _endpoint_type = OpenAIEndpoint

    def _answer(self) -> ResponsesAnswer:
        return ResponsesAnswer(self.id)

    async def _taken(self, answer: ResponsesAnswer, events: AsyncIterator[object]) -> None:
        if answer.error is not None:
            raise self._endpoint.refused(answer.error)
        if answer.is_whole:
            await read_out(events)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        tools = [
            {
                "type": "function",
                "name": each.name,
                "description": each.description,
                "parameters": each.schema,
                "strict": False,
            }
            for each in request.tools
        ]
        instructions, output = asked_output(request)
        return {
            "model": self._name,
            "instructions": instructions or None,
            "input": responses_input(request.messages, self.id),
            "tools": tools or None,
            "text": output and {"format": {"type": "json_schema", **output}},
            "include": ["reasoning.encrypted_content"],
            "store": False,
            "stream": True,
        }
