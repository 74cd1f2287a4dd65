"""What an agent is recorded as: itself, and in digests all that it reaches by hand-offs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any, cast

from ..events.messages import ToolSpec
from ..events.terms import Teammate
from .agent import Agent
from .choosing import chooses
from .drift import canonical
from .models import AnyModel, model_id
from .outputs import Output
from .tools import Tool

Find = Callable[[str], Agent | None]


def fingerprint(
    model: str,
    instructions: str,
    tools: tuple[ToolSpec, ...],
    output: dict[str, Any] | None = None,
    *,
    handoffs: Iterable[str] = (),
    team: Iterable[Teammate] = (),
) -> str:
    """A digest that changes when the model, the instructions, a tool's schema or that of the
    output changes, of the agent or of one that it reaches by hand-offs, or who these are, and with
    nothing else: not with the order of tools, hand-offs or keys, nor with the code's place."""
    parts: list[object] = [model, instructions, sorted(map(canonical, tools))]
    parts += [] if output is None else [output]
    if targets := sorted(set(handoffs)):
        parts += [targets, sorted(map(_canonical_mate, team))]
    return digest(json.dumps(parts, sort_keys=True))


def output_of(agent: Agent) -> Output | None:
    """The type of its final answers; None where they are text."""
    return None if agent.output_type is None else Output(agent.name, agent.output_type)


def digest(text: str) -> str:
    """Sixteen hexadecimal characters that stand for a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def team_of(agent: Agent, find: Find) -> tuple[Teammate, ...]:
    """All that an agent reaches by hand-offs, but for itself, each as it is declared."""
    found: dict[str, Teammate] = {}
    waiting = list(_targets(agent, find))
    while waiting:
        other = waiting.pop()
        if other.name != agent.name and other.name not in found:
            found[other.name] = _teammate(other)
            waiting.extend(_targets(other, find))
    return tuple([found[name] for name in sorted(found)])


def _targets(agent: Agent, find: Find) -> Iterator[Agent]:
    for each in agent.targets:
        target = find(each.agent) if isinstance(each.agent, str) else each.agent
        if target is not None:
            yield target


def _teammate(agent: Agent) -> Teammate:
    model, instructions, tools = agent.model, agent.instructions, agent.tools
    output = output_of(agent)
    return Teammate(
        agent.name,
        "" if chooses(model) else model_id(cast(AnyModel, model)),
        "" if callable(instructions) else digest(instructions),
        {} if callable(tools) else {each.name: _tool_digest(each) for each in tools},
        tuple(sorted({each.target for each in agent.targets})),
        "" if output is None else digest(json.dumps(output.schema, sort_keys=True)),
    )


def _tool_digest(tool: Tool) -> str:
    return digest(canonical(tool.spec))


def _canonical_mate(mate: Teammate) -> str:
    tools = sorted(mate.tools.items())
    return json.dumps([mate.name, mate.model, mate.instructions, tools, mate.handoffs, mate.output])
