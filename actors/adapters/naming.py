"""Models by name: ``"openai:NAME"`` instead of an object.

What a prefix stands for is written down here. Nothing is looked up by a name that came from
elsewhere, so no text can have code imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from ...events.errors import InvalidAgent
from ..models import Model
from .anthropic_messages import AnthropicMessages
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses

_ADAPTERS: Mapping[str, Callable[[str], Model]] = {
    each.prefix: each for each in (AnthropicMessages, OpenAIChat, OpenAIResponses)
}


@lru_cache(maxsize=64)
def named_model(name: str) -> Model:
    """The model of that name, ``PREFIX:NAME``: the same one each time, so that an agent that is
    chosen anew for each turn keeps its connections.

    Raises ``InvalidAgent`` for a prefix that no adapter has, and where the provider's client is
    not installed.
    """
    prefix, colon, model = name.partition(":")
    adapter = _ADAPTERS.get(prefix)
    if adapter is None or not colon or not model:
        known = ", ".join(f'"{each}:NAME"' for each in _ADAPTERS)
        raise InvalidAgent(f"no model is named {name!r}: give one of {known}, or a model object")
    return adapter(model)
