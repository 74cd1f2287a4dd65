"""A hand-off as an agent declares it: to whom, and how the model sees it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from ..events.errors import InvalidAgent
from .tools import Tool

if TYPE_CHECKING:
    from .agent import Agent

PREFIX = "transfer_to_"
_LONGEST_NAME = 64
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, eq=False)
class Handoff:
    """That an agent may let another one go on with the conversation.

    ``agent`` is the other one, or its name, where the two know each other. The model sees a tool:
    ``name`` and ``description`` are what it is told of it, ``transfer_to_<agent>`` by default.
    With ``needs_approval`` somebody has to approve of it first. Raises ``InvalidAgent``.
    """

    agent: Agent | str
    name: str | None = field(default=None, kw_only=True)
    description: str | None = field(default=None, kw_only=True)
    needs_approval: bool = field(default=False, kw_only=True)
    tool: Tool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        target = getattr(self.agent, "name", self.agent)
        if not isinstance(target, str) or not target:
            raise InvalidAgent(f"a hand-off is to an Agent or to the name of one, not {target!r}")
        if type(self.needs_approval) is not bool:
            raise InvalidAgent(f"hand-off to {target!r}: needs_approval must be True or False")
        described = f"Let {target} go on with the conversation, in your place."
        transfer = Tool.from_schema(
            tool_name(target) if self.name is None else self.name,
            _never_run,
            {"type": "object", "properties": {}},
            description=described if self.description is None else self.description,
            needs_approval=self.needs_approval,
        )
        object.__setattr__(self, "tool", transfer)

    @property
    def target(self) -> str:
        """The name of the other agent."""
        return self.agent if isinstance(self.agent, str) else self.agent.name


def tool_name(target: str) -> str:
    """The tool that stands for a hand-off: its name has only what models take for a name."""
    return (PREFIX + _UNFIT.sub("_", target))[:_LONGEST_NAME]


def _never_run(**arguments: Any) -> NoReturn:
    raise AssertionError("a hand-off is decided, not run")
