"""Agents as tools of other agents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypedDict, Unpack

from msgspec import Struct

from ..events.approvals import Approval, OnExpiry
from ..events.errors import NotSupported, TurnstreamError
from ..events.messages import ToolCall, ToolSpec
from ..events.values import plain
from .outcomes import ToolDone
from .signatures import converter, parameters_of, schema_of
from .tools import NeedsApproval, Tool, ToolOptions

if TYPE_CHECKING:
    from .agent import Agent


class SubAgentOptions(TypedDict, total=False):
    """What ``Agent.as_tool`` takes beside name and description; see there."""

    needs_approval: NeedsApproval
    approval_timeout: float | None
    on_expiry: OnExpiry


class SubAgent(Tool):
    """An agent as a tool. Its calls run in sessions of their own."""

    def __init__(
        self,
        agent: Agent,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[SubAgentOptions],
    ) -> None:
        named = re.sub(r"\W", "_", agent.name) if name is None else name
        parameters = parameters_of(_ask, named)
        told = f"Have the agent {agent.name!r} do something, and read what it answers."
        super().__init__(
            _ask,
            ToolSpec(
                named,
                told if description is None else description,
                schema_of(parameters, named),
            ),
            converter(parameters),
            takes_context=False,
            options=ToolOptions(**options),
        )
        self.agent: Agent = agent
        self.agents: tuple[Agent, ...] = (agent,)

    def input_of(self, call: ToolCall) -> str:
        """What the agent is to be asked."""
        return str(self._convert(plain(call.arguments))["input"])


async def _ask(input: str) -> NoReturn:
    raise NotSupported("an agent that is a tool runs in a session: put it into an agent's tools")


class SubAgentWaits(Struct, frozen=True):
    """It waits for decisions."""

    asked: tuple[Approval, ...]


class SubAgentGone(Struct, frozen=True):
    """Nobody knows how it ends, for this reason; it can be resumed."""

    error: TurnstreamError


SubAgentOutcome: TypeAlias = ToolDone | SubAgentWaits | SubAgentGone
