"""An agent as the runtime uses it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn, cast

from msgspec.structs import replace

from ..events.messages import ToolCall
from ..events.session import AgentConfigured
from ..events.terms import Budget, Teammate
from ..projections import Carried, SessionState
from .agent import Agent
from .call_state import CallState
from .choosing import AgentContext
from .commands import Gate, OnCrash, OnDrift, Rules
from .context import Shrinking
from .hooking import Hooking
from .hooks import Hooks
from .idempotency import idempotency_key
from .models import AnyModel, Ask, ModelRequest, asking, model_id
from .outputs import Output
from .roster import Roster
from .sub_agents import SubAgent
from .team import fingerprint, output_of, team_of
from .tool_context import ToolContext
from .tools import Tool

NEVER: datetime = datetime.fromtimestamp(0, UTC)


class ReadyAgent:
    """An agent made ready to run: its tools by name, and the rules the decider follows. One that
    ``is_dynamic`` runs nothing itself, but the ones that are ``chosen``."""

    def __init__(
        self,
        template: Agent,
        *,
        keep_failed: bool,
        on_drift: OnDrift = "warn",
        roster: Roster | None = None,
    ) -> None:
        self._template = template
        self._made = partial(ReadyAgent, keep_failed=keep_failed, on_drift=on_drift, roster=roster)
        self.is_dynamic: bool = template.is_dynamic
        agent = template
        if self.is_dynamic:
            agent = dataclasses.replace(template, model=_unchosen, instructions="", tools=())
        self.agent: Agent = agent
        hooks = cast(Sequence[Hooks], agent.hooks)
        self.hooking: Hooking | None = Hooking(hooks) if hooks else None
        self.ask: Ask
        self.model_is_async: bool
        model, tools = cast(AnyModel, agent.model), cast(Sequence[Tool], agent.tools)
        self.ask, self.model_is_async = asking(model)
        self.model_itself_is_async: bool = self.model_is_async
        self._shrinking: Shrinking | None = None
        if agent.context_policy is not None:
            self._shrinking = Shrinking(agent.context_policy, model_is_async=self.model_is_async)
            self.model_is_async = self._shrinking.is_async
        tools = [*tools, *(each.tool for each in agent.targets)]
        self.tools: Mapping[str, Tool] = {each.name: each for each in tools}
        self.output: Output | None = output_of(agent)
        team = team_of(template, _nobody if roster is None else roster.find)
        schema = None if self.output is None else self.output.schema
        self.configured: AgentConfigured = _configured(agent, tools, schema, team)
        on_crash: dict[str, OnCrash] = {each.name: each.options.on_crash for each in tools}
        gates = {each.name: replace(each.gate, reason="in-doubt") for each in tools}
        self.rules: Rules = Rules(
            self.configured,
            _budget(agent),
            agent.tool_concurrency,
            on_crash,
            self._refusal,
            self._gate,
            gates,
            on_drift,
            keep_failed,
            renamed={} if roster is None else roster.renamed,
            output=None if self.output is None else self.output.check,
            output_retries=agent.output_retries,
            model_retries=agent.model_retries,
            sub_agents=frozenset(each.name for each in tools if isinstance(each, SubAgent)),
        )

    def asking(
        self,
        ask: Ask,
        request: ModelRequest,
        turns: Sequence[int],
        carried: Carried | None,
        show: Callable[[Any], None],
    ) -> Callable[[], Any]:
        """What asks the model, by ``ask``. ``turns`` are the places at which turns begin, and
        ``carried`` what its context policy carried over."""
        if self._shrinking is None:
            return partial(ask, request, show)
        return partial(self._shrinking.ask, ask, turns, carried, request, show)

    def typed(self, output: Any) -> Any:
        """A recorded output as the agent's type."""
        return output if self.output is None else self.output.typed(output)

    def chosen(self, context: AgentContext) -> ReadyAgent:
        """What it is in one turn."""
        return self._made(self._template.chosen(context))

    def _refusal(self, call: ToolCall) -> str | None:
        known = self.tools.get(call.name)
        if known is None:
            return (
                f"There is no tool named {call.name!r}. "
                f"The tools are: {', '.join(self.tools) or 'none'}."
            )
        return known.refusal(call)

    def _gate(self, call: ToolCall, session_id: str, state: SessionState) -> Gate | None:
        tool, turn = self.tools[call.name], state.turn
        if turn is None or tool.options.needs_approval is False:
            return None
        key = idempotency_key(session_id, turn.turn_id, call.id)
        context = ToolContext(
            session_id, turn.turn_id, call.id, key, 1, CallState(state.application)
        )
        return tool.gate if tool.needs_approval(call, context) else None


def _configured(
    agent: Agent,
    tools: Sequence[Tool],
    output: dict[str, Any] | None,
    team: tuple[Teammate, ...],
) -> AgentConfigured:
    """What is recorded of an agent that is ready."""
    model, instructions = model_id(cast(AnyModel, agent.model)), str(agent.instructions)
    specs = tuple([each.spec for each in tools])
    handoffs = {each.tool.name: each.target for each in agent.targets}
    return AgentConfigured(
        at=NEVER,
        name=agent.name,
        model=model,
        instructions=instructions,
        tools=specs,
        fingerprint=fingerprint(
            model, instructions, specs, output, handoffs=handoffs.values(), team=team
        ),
        output=output,
        handoffs=handoffs,
        team=team,
    )


def _budget(agent: Agent) -> Budget:
    return Budget(
        max_steps=agent.max_steps,
        tokens=agent.token_budget or 0,
        tool_calls=agent.tool_call_budget or 0,
        seconds=agent.time_budget or 0,
        session_tokens=agent.session_token_budget or 0,
    )


def _nobody(name: str) -> None:
    return None


def _unchosen(request: ModelRequest) -> NoReturn:
    raise AssertionError("the agent is chosen when the turn begins")
