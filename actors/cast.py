"""Who plays the agents of a session."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NoReturn

from msgspec.structs import replace

from ..events.errors import UnknownAgent
from ..events.session import AgentConfigured
from ..events.terms import Budget
from ..projections import SessionState
from .choosing import AgentContext
from .commands import Rules
from .ready import NEVER, ReadyAgent

log: logging.Logger = logging.getLogger("turnstream.session")

GONE = "session %r goes on without agents that took part in it, and that are no more: %s"


class Cast:
    """Who plays the agents of one session, turn by turn. ``agents`` gives one by its name, or
    raises ``UnknownAgent``."""

    def __init__(self, session_id: str, agents: Callable[[str], ReadyAgent]) -> None:
        self._session_id, self._agents = session_id, agents
        self._turn_id = ""
        self._chosen: dict[str, ReadyAgent] = {}
        self._missed = False
        self._last: tuple[Rules, Rules] | None = None

    def active(self, state: SessionState, asked: str) -> ReadyAgent:
        """The one that goes on with the session, which begins with the agent that was ``asked``
        for. Raises ``UnknownAgent``."""
        name = state.active or asked
        agent, turn = self._agents(name), state.turn
        if not agent.is_dynamic or turn is None or turn.turn_id != self._turn_id:
            return agent
        return self._chosen.get(name, agent)

    def ready(self, state: SessionState, asked: str) -> ReadyAgent | None:
        """The same; None where it is missing."""
        try:
            return self.active(state, asked)
        except UnknownAgent:
            return None

    def rules(self, state: SessionState, asked: str) -> Rules:
        """The rules of the open turn, with those of turns that begin or go on, and of agents that
        go on with them, yet to be chosen. Where the agent is missing, nothing but that can be
        done which needs none."""
        try:
            rules = self.active(state, asked).rules
        except UnknownAgent as error:
            return replace(_missing(state.active or asked, error), find=self._agents)
        self._miss(state)
        return self._choosing(rules)

    def typed(self, agent: str, output: Any) -> Any:
        """An output that was recorded of an agent, as that agent's type; as it is where the agent
        is missing."""
        try:
            return self._agents(agent).typed(output)
        except UnknownAgent:
            return output

    def _choosing(self, rules: Rules) -> Rules:
        if self._last is None or self._last[0] is not rules:
            self._last = rules, replace(rules, for_turn=self._choose, find=self._agents)
        return self._last[1]

    def _choose(self, state: SessionState, turn_id: str, name: str) -> Rules:
        agent = self._agents(name)
        if agent.is_dynamic:
            agent = agent.chosen(self._context(agent.configured.name, state, turn_id, name))
            if turn_id != self._turn_id:
                self._turn_id, self._chosen = turn_id, {}
            self._chosen[name] = agent
        return self._choosing(agent.rules)

    def _context(self, agent: str, state: SessionState, turn_id: str, name: str) -> AgentContext:
        goes_on = state.turn is not None and state.turn.agent == name
        return AgentContext(
            agent,
            self._session_id,
            turn_id,
            state.tenant,
            state.conversation,
            state.application,
            state.configured if goes_on else None,
        )

    def _miss(self, state: SessionState) -> None:
        """Say once who took part in the conversation and is there no more."""
        if self._missed or not state.switches:
            return
        self._missed = True
        names = dict.fromkeys([state.agent, *(each.agent for each in state.switches)])
        if gone := [name for name in names if not self._knows(name)]:
            log.warning(GONE, self._session_id, ", ".join(map(repr, gone)))

    def _knows(self, name: str) -> bool:
        try:
            return bool(self._agents(name))
        except UnknownAgent:
            return False


def _missing(name: str, error: UnknownAgent) -> Rules:
    """The rules of an agent that is not there: it can run nothing, and begin nothing."""

    def refuse(*_: object) -> NoReturn:
        raise error

    return Rules(
        AgentConfigured(at=NEVER, name=name, model=""),
        Budget(max_steps=1),
        1,
        {},
        refuse,
        refuse,
        {},
        for_turn=refuse,
    )
