"""What differs between two configurations of an agent, and of those it hands off to. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..events.messages import ToolSpec
from ..events.session import AgentConfigured
from ..events.terms import Teammate


class Change(NamedTuple):
    """Something that changed, named; ``is_breaking`` where a turn that was begun before may miss
    something. It can't miss a tool, or an agent, that it never knew."""

    name: str
    is_breaking: bool = True


def changes(
    recorded: AgentConfigured, current: AgentConfigured, renamed: Mapping[str, str] | None = None
) -> tuple[Change, ...]:
    """What changed from the recorded configuration to the current one. ``renamed`` are the names
    that agents have now, by those they had."""
    now = renamed or {}
    found = _in_itself(recorded, current)
    found += _in_tools(_tools(recorded), _tools(current))
    found += _in_handoffs(_targets(recorded, now), _targets(current, now))
    after = {each.name: each for each in current.team}
    for mate in recorded.team:
        name = now.get(mate.name, mate.name)
        if name in after:
            found += _in_mate(name, mate, after[name], now)
    return tuple(found)


def canonical(tool: ToolSpec) -> str:
    """What a tool is to a model, whatever the order in which its schema says so."""
    parts = [tool.name, tool.description, _unordered(tool.schema)]
    return json.dumps(parts, sort_keys=True)


def _unordered(schema: Any) -> Any:
    match schema:
        case dict():
            return {
                key: sorted(map(_unordered, value), key=repr)
                if key in _SETS and isinstance(value, list)
                else _unordered(value)
                for key, value in schema.items()
            }
        case list() | tuple():
            return [_unordered(each) for each in schema]
        case _:
            return schema


_SETS = frozenset({"required", "enum", "anyOf", "oneOf", "allOf", "type"})


def _in_itself(recorded: object, current: object) -> list[Change]:
    fields = ("model", "instructions", "output")
    return [Change(each) for each in fields if getattr(recorded, each) != getattr(current, each)]


def _tools(configured: AgentConfigured) -> dict[str, str]:
    """The tools that are no hand-offs."""
    tools = [each for each in configured.tools if each.name not in configured.handoffs]
    return {each.name: canonical(each) for each in tools}


def _targets(configured: AgentConfigured, now: Mapping[str, str]) -> dict[str, list[str]]:
    """How the model is told of each agent that it can hand off to."""
    found: dict[str, list[str]] = {}
    for tool in configured.tools:
        if (target := configured.handoffs.get(tool.name)) is not None:
            shown = "" if target in now else canonical(tool)
            found.setdefault(now.get(target, target), []).append(shown)
    return {name: sorted(each) for name, each in found.items()}


def _in_tools(before: Mapping[str, object], after: Mapping[str, object]) -> list[Change]:
    found = _come_and_gone("tool", before, after)
    both = sorted(before.keys() & after.keys())
    return found + [Change(f"tool changed: {name}") for name in both if before[name] != after[name]]


def _in_handoffs(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    found = _come_and_gone("handoff", before, after)
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name] and "" not in before[name]:
            found.append(Change(f"handoff changed: {name}"))
    return found


def _come_and_gone(
    what: str, before: Mapping[str, object], after: Mapping[str, object]
) -> list[Change]:
    gone, come = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    added = [Change(f"{what} added: {name}", is_breaking=False) for name in come]
    return [*(Change(f"{what} removed: {name}") for name in gone), *added]


def _in_mate(
    name: str, recorded: Teammate, current: Teammate, now: Mapping[str, str]
) -> Iterator[Change]:
    found = _in_itself(recorded, current)
    found += _in_tools(recorded.tools, current.tools)
    targets = [now.get(each, each) for each in recorded.handoffs]
    found += _in_handoffs(dict.fromkeys(targets, ""), dict.fromkeys(current.handoffs, ""))
    for each in found:
        yield Change(f"handoff {name!r}: {each.name}", each.is_breaking)
