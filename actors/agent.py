"""An agent: a model, its instructions and its tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256

import msgspec

from ..events.errors import InvalidAgent
from ..events.messages import ToolCall, ToolSpec
from ..events.session import AgentConfigured, Budget
from .commands import OnCrash, Rules
from .models import AnyModel, Ask, asking, model_id
from .tools import Tool

_NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, eq=False)
class Agent:
    """What runs in a session. Immutable: any number of sessions may share one.

    ``max_steps`` bounds the model calls of a turn, ``token_budget`` its tokens (None: no
    bound); both count on over crashes and end the turn with every call answered.
    ``model_timeout`` bounds a model call, in seconds; a turn whose model takes longer fails.
    ``tool_concurrency`` is how many calls of one model turn run at once; with 1 they run
    strictly in order. Raises ``InvalidAgent`` where these can't work.
    """

    name: str
    model: AnyModel = field(kw_only=True)
    instructions: str = field(default="", kw_only=True)
    tools: Iterable[Tool] = field(default=(), kw_only=True)
    max_steps: int = field(default=32, kw_only=True)
    tool_concurrency: int = field(default=8, kw_only=True)
    token_budget: int | None = field(default=None, kw_only=True)
    model_timeout: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))
        if not isinstance(self.name, str) or not self.name:
            raise InvalidAgent("an agent needs a name")
        if not isinstance(self.instructions, str):
            raise InvalidAgent(f"agent {self.name!r}: instructions must be a str")
        for limit in ("max_steps", "tool_concurrency", "token_budget"):
            value = getattr(self, limit)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InvalidAgent(f"agent {self.name!r}: {limit} must be 1 or more, not {value!r}")
        if self.model_timeout is not None and not self.model_timeout > 0:
            raise InvalidAgent(
                f"agent {self.name!r}: model_timeout must be more than 0 seconds, not "
                f"{self.model_timeout!r}"
            )
        model_id(self.model)
        self._check_tools()

    def _check_tools(self) -> None:
        names: set[str] = set()
        for each in self.tools:
            if not isinstance(each, Tool):
                raise InvalidAgent(
                    f"agent {self.name!r}: {getattr(each, '__name__', each)!r} is no tool; "
                    "decorate the function with @tool"
                )
            if each.name in names:
                raise InvalidAgent(f"agent {self.name!r}: two tools are named {each.name!r}")
            names.add(each.name)


class ReadyAgent:
    """An agent made ready to run: its tools by name, and the rules the decider follows."""

    def __init__(self, agent: Agent, *, keep_failed: bool) -> None:
        self.agent: Agent = agent
        self.ask: Ask
        self.model_is_async: bool
        self.ask, self.model_is_async = asking(agent.model)
        self.tools: Mapping[str, Tool] = {each.name: each for each in agent.tools}
        specs = tuple(each.spec for each in agent.tools)
        self.configured: AgentConfigured = AgentConfigured(
            at=_NEVER,
            name=agent.name,
            model=model_id(agent.model),
            instructions=agent.instructions,
            tools=specs,
            fingerprint=fingerprint(model_id(agent.model), agent.instructions, specs),
        )
        on_crash: dict[str, OnCrash] = {each.name: each.on_crash for each in agent.tools}
        self.rules: Rules = Rules(
            self.configured,
            Budget(max_steps=agent.max_steps, tokens=agent.token_budget or 0),
            agent.tool_concurrency,
            on_crash,
            self._refusal,
            keep_failed,
        )

    def _refusal(self, call: ToolCall) -> str | None:
        known = self.tools.get(call.name)
        if known is None:
            return (
                f"There is no tool named {call.name!r}. "
                f"The tools are: {', '.join(self.tools) or 'none'}."
            )
        return known.refusal(call)


def fingerprint(model: str, instructions: str, tools: tuple[ToolSpec, ...]) -> str:
    """A digest that changes when the model, the instructions or a tool's schema changes, and
    with nothing else: not with the order of tools or of keys, nor with the code's place."""
    parts = [model, instructions, sorted(tools, key=lambda spec: spec.name)]
    canonical = json.dumps(msgspec.to_builtins(parts), sort_keys=True)
    return sha256(canonical.encode()).hexdigest()[:16]
