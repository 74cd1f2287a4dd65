"""An agent as the runtime uses it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any, NoReturn, cast

from msgspec.structs import replace

from ..events.messages import ToolCall, ToolSpec
from ..events.session import AgentConfigured, Budget
from ..projections import Carried, OpenTurn, SessionState
from .agent import Agent
from .choosing import AgentContext
from .commands import Gate, OnCrash, OnDrift, Rules
from .context import Shrinking
from .drift import canonical
from .idempotency import idempotency_key
from .models import AnyModel, Ask, ModelRequest, asking, model_id
from .outputs import Output
from .sub_agents import SubAgent
from .tool_context import ToolContext
from .tools import Tool

_NEVER = datetime.fromtimestamp(0, UTC)


class ReadyAgent:
    """An agent made ready to run: its tools by name, and the rules the decider follows. One that
    ``is_dynamic`` runs nothing itself, but the ones that are ``chosen``."""

    def __init__(self, template: Agent, *, keep_failed: bool, on_drift: OnDrift = "warn") -> None:
        self._template, self._keep_failed = template, keep_failed
        self._on_drift: OnDrift = on_drift
        self.is_dynamic: bool = template.is_dynamic
        agent = template
        if self.is_dynamic:
            agent = dataclasses.replace(template, model=_unchosen, instructions="", tools=())
        self.agent: Agent = agent
        self.ask: Ask
        self.model_is_async: bool
        model, tools = cast(AnyModel, agent.model), cast(Sequence[Tool], agent.tools)
        self.ask, self.model_is_async = asking(model)
        self._shrinking: Shrinking | None = None
        if agent.context_policy is not None:
            self._shrinking = Shrinking(
                agent.context_policy, self.ask, model_is_async=self.model_is_async
            )
            self.model_is_async = self._shrinking.is_async
        self.tools: Mapping[str, Tool] = {each.name: each for each in tools}
        self.output: Output | None = (
            None if agent.output_type is None else Output(agent.name, agent.output_type)
        )
        schema = None if self.output is None else self.output.schema
        instructions, specs = str(agent.instructions), tuple(each.spec for each in tools)
        self.configured: AgentConfigured = AgentConfigured(
            at=_NEVER,
            name=agent.name,
            model=model_id(model),
            instructions=instructions,
            tools=specs,
            fingerprint=fingerprint(model_id(model), instructions, specs, schema),
            output=schema,
        )
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
            output=None if self.output is None else self.output.check,
            output_retries=agent.output_retries,
            model_retries=agent.model_retries,
            sub_agents=frozenset(each.name for each in tools if isinstance(each, SubAgent)),
        )

    def asking(
        self,
        request: ModelRequest,
        turns: Sequence[int],
        carried: Carried | None,
        show: Callable[[Any], None],
    ) -> Callable[[], Any]:
        """What asks the model. ``turns`` are the places at which turns begin, and ``carried`` what
        its context policy carried over."""
        if self._shrinking is None:
            return partial(self.ask, request, show)
        return partial(self._shrinking.ask, turns, carried, request, show)

    def typed(self, output: Any) -> Any:
        """A recorded output as the agent's type."""
        return output if self.output is None else self.output.typed(output)

    def chosen(self, context: AgentContext) -> ReadyAgent:
        """What it is in one turn."""
        agent = self._template.chosen(context)
        return ReadyAgent(agent, keep_failed=self._keep_failed, on_drift=self._on_drift)

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
        context = ToolContext(session_id, turn.turn_id, call.id, key, 1, state.application)
        return tool.gate if tool.needs_approval(call, context) else None


def _budget(agent: Agent) -> Budget:
    return Budget(
        max_steps=agent.max_steps,
        tokens=agent.token_budget or 0,
        tool_calls=agent.tool_call_budget or 0,
        seconds=agent.time_budget or 0,
        session_tokens=agent.session_token_budget or 0,
    )


def fingerprint(
    model: str,
    instructions: str,
    tools: tuple[ToolSpec, ...],
    output: dict[str, Any] | None = None,
) -> str:
    """A digest that changes when the model, the instructions, a tool's schema or that of the
    output changes, and with nothing else: not with the order of tools or of keys, nor with the
    code's place."""
    parts: list[Any] = [model, instructions, sorted(map(canonical, tools))]
    parts += [] if output is None else [output]
    text = json.dumps(parts, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def _unchosen(request: ModelRequest) -> NoReturn:
    raise AssertionError("the agent is chosen when the turn begins")


class Cast:
    """Who plays the agent of one session, turn by turn."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._turn_id = ""
        self._chosen: ReadyAgent | None = None

    def ready(self, agent: ReadyAgent, turn: OpenTurn | None) -> ReadyAgent:
        """The one that plays in the open turn."""
        if not agent.is_dynamic or turn is None or turn.turn_id != self._turn_id:
            return agent
        return self._chosen or agent

    def rules(self, agent: ReadyAgent, turn: OpenTurn | None) -> Rules:
        """The rules of the open turn, with those of turns that begin or go on yet to be chosen."""
        rules = self.ready(agent, turn).rules
        if not agent.is_dynamic:
            return rules
        return replace(rules, for_turn=lambda state, turn_id: self._choose(agent, state, turn_id))

    def _choose(self, agent: ReadyAgent, state: SessionState, turn_id: str) -> Rules:
        goes_on = state.turn is not None
        context = AgentContext(
            agent.configured.name,
            self._session_id,
            turn_id,
            state.tenant,
            state.conversation,
            state.application,
            state.configured if goes_on else None,
        )
        self._chosen, self._turn_id = agent.chosen(context), turn_id
        return self._chosen.rules
