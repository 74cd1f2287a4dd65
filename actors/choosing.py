"""Functions that choose what an agent is, turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeGuard

from msgspec import Struct

from ..events.messages import Message
from ..events.session import AgentConfigured
from .models import AnyModel
from .signatures import first_parameter
from .tools import Tool


class AgentContext(Struct, frozen=True):
    """What such a function can learn of the turn it chooses for. ``messages`` is the conversation
    before it, ``state`` the application's own; ``recorded`` is what was chosen when the turn
    began, where it goes on."""

    agent: str
    session_id: str
    turn_id: str
    tenant: str
    messages: Sequence[Message]
    state: Any
    recorded: AgentConfigured | None = None


ChoosesModel: TypeAlias = Callable[[AgentContext], AnyModel]
ChoosesInstructions: TypeAlias = Callable[[AgentContext], str]
ChoosesTools: TypeAlias = Callable[[AgentContext], Iterable[Tool]]


def chooses(model: Any) -> TypeGuard[ChoosesModel]:
    """Whether it is a function that chooses a model, and no model."""
    if not callable(model) or hasattr(model, "stream"):
        return False
    try:
        return first_parameter(model, AgentContext) is not None
    except (TypeError, ValueError):  # it does not tell
        return False
