"""Adapters: models of providers, each on the provider's own client.

An adapter is a ``Model``. Importing this package loads no provider's client; making an adapter
does, and raises ``InvalidAgent`` that names what to install where it is missing.
"""

from .anthropic_messages import AnthropicMessages
from .naming import named_model
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses

__all__ = ["AnthropicMessages", "OpenAIChat", "OpenAIResponses", "named_model"]
