"""The agents that a system can run, by name."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..events.errors import InvalidAgent, UnknownAgent
from ..events.identifiers import JOURNAL
from .agent import Agent


class Roster:
    """The agents given to a system, and all that these reach: those they hand off to, and those
    that their tools bring along. The first one given is the ``default``.

    A name stands for one agent in all of it, and so does an alias. Agents may hand off to each
    other in a circle. Raises ``InvalidAgent`` where a name is taken twice, or stands for nobody.
    """

    def __init__(self, agents: Agent | Iterable[Agent]) -> None:
        given = [agents] if isinstance(agents, Agent) else list(agents)
        if not given or not all(isinstance(each, Agent) for each in given):
            raise InvalidAgent("an ActorSystem takes an Agent, or several")
        self._named: dict[str, Agent] = {}
        self._places: dict[str, str] = {}
        self._walk(given)
        for agent in self.agents:
            self._check_names(agent)
        self.default: str = given[0].name

    @property
    def agents(self) -> Sequence[Agent]:
        """Each agent once: those that were given come first."""
        return [agent for name, agent in self._named.items() if name == agent.name]

    @property
    def names(self) -> Sequence[str]:
        """The names of the agents, without aliases, in the same order."""
        return [agent.name for agent in self.agents]

    @property
    def renamed(self) -> Mapping[str, str]:
        """The names that agents have, by their aliases."""
        return {alias: agent.name for alias, agent in self._named.items() if alias != agent.name}

    def find(self, name: str) -> Agent | None:
        """The agent of that name or alias; None where there is none."""
        return self._named.get(name)

    def agent(self, name: str) -> Agent:
        """The agent of that name or alias. Raises ``UnknownAgent``, which names those there are."""
        if name == JOURNAL:
            raise UnknownAgent(
                "this is the stream of a journal's run and not a session: go on with it by Journal"
            )
        if (found := self._named.get(name)) is None:
            raise UnknownAgent(
                f"this system has no agent {name!r} (it has {', '.join(map(repr, self.names))}): "
                "add it, or name it among the aliases of the agent that took its place; a turn "
                "that it left unfinished can also be dropped, with discard_pending()"
            )
        return found

    def _walk(self, given: Iterable[Agent]) -> None:
        waiting = deque((each, "given to the system") for each in given)
        seen = set[int]()
        while waiting:
            agent, place = waiting.popleft()
            if id(agent) not in seen:
                seen.add(id(agent))
                self._take(agent, place)
                waiting.extend(reached(agent))

    def _take(self, agent: Agent, place: str) -> None:
        for name in (agent.name, *agent.aliases):
            if name in self._named:
                raise InvalidAgent(
                    f"two agents go by the name {name!r}, one {self._places[name]}, and one "
                    f"{place}: give each a name of its own"
                )
            self._named[name], self._places[name] = agent, place

    def _check_names(self, agent: Agent) -> None:
        for handoff in agent.targets:
            target = self._named.get(handoff.target)
            if target is None or target.name != handoff.target:
                raise InvalidAgent(
                    f"agent {agent.name!r} hands off to {handoff.target!r}, and there is no agent "
                    f"of that name (there are {', '.join(map(repr, self.names))})"
                )


def team(agent: Agent) -> Mapping[str, Agent]:
    """An agent and those that it brings along, each by its name and its aliases."""
    found: dict[str, Agent] = {}
    waiting = [agent]
    while waiting:
        each = waiting.pop()
        if each not in found.values():
            found |= dict.fromkeys((each.name, *each.aliases), each)
            waiting += [other for other, _ in reached(each)]
    return found


def reached(agent: Agent) -> Iterator[tuple[Agent, str]]:
    """The agents that one brings along, and in what place each is found."""
    for handoff in agent.targets:
        if isinstance(handoff.agent, Agent):
            yield handoff.agent, f"a hand-off of {agent.name!r}"
    for tool in () if callable(agent.tools) else agent.tools:
        for each in tool.agents:
            yield each, f"brought by tool {tool.name!r} of {agent.name!r}"
