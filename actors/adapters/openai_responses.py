"""OpenAI's Responses API, without anything being stored at the provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ...events.messages import ModelTurn, Usage
from ..models import Delta, ModelRequest
from .carrying import with_settings
from .faults import cut_off
from .openai_endpoint import OpenAIEndpoint, read_out
from .openai_output import asked_output
from .openai_responses_answer import ResponsesAnswer
from .openai_responses_input import responses_input

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIResponses:
    """A model behind the Responses API, at OpenAI or at any server that is compatible.

    Every request holds the whole conversation, and asks the provider to store nothing; reasoning
    comes back encrypted and goes along with the next request. Everything else is as for
    ``OpenAIChat``.
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
        """The model's name in the stream: ``openai-responses:NAME``."""
        return f"openai-responses:{self._name}"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Usage | ModelTurn]:
        """The answer as it comes, and then as a turn.

        Raises ``ModelUnavailable``, ``ModelRefused``, ``ContextTooLong``, and
        ``ModelStreamEnded`` where the answer is not whole.
        """
        answer = ResponsesAnswer(self.id)
        body = self._body(request)
        async with aclosing(self._endpoint.events("/responses", body)) as events:
            async for event in events:
                for shown in answer.take(event):
                    yield shown
                if answer.error is not None:
                    raise self._endpoint.refused(answer.error)
                if answer.is_whole:
                    await read_out(events)
        if not answer.is_whole:
            raise cut_off(self.id)
        yield answer.turn()

    def _body(self, request: ModelRequest) -> Any:
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
        body = {
            "model": self._name,
            "instructions": instructions or None,
            "input": responses_input(request.messages, self.id),
            "tools": tools or None,
            "text": output and {"format": {"type": "json_schema", **output}},
            "include": ["reasoning.encrypted_content"],
            "store": False,
            "stream": True,
        }
        return with_settings(body, self._settings, request.settings)
