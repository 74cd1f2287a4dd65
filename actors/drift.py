"""What differs between two configurations of an agent. Pure."""

from __future__ import annotations

import json
from typing import Any

from ..events.messages import ToolSpec
from ..events.session import AgentConfigured

ADDED = "tool added: "


def changes(recorded: AgentConfigured, current: AgentConfigured) -> tuple[str, ...]:
    """What changed from the recorded configuration to the current one, each named."""
    found = [
        each for each in ("model", "instructions", "output") if _differs(recorded, current, each)
    ]
    before = {each.name: each for each in recorded.tools}
    after = {each.name: each for each in current.tools}
    found += [f"tool removed: {name}" for name in sorted(before.keys() - after.keys())]
    found += [f"{ADDED}{name}" for name in sorted(after.keys() - before.keys())]
    both = sorted(before.keys() & after.keys())
    for name in both:
        if canonical(before[name]) != canonical(after[name]):
            found.append(f"tool changed: {name}")
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


def is_breaking(change: str) -> bool:
    """Whether a turn that was begun before the change may miss something. It can't miss a tool
    that it never knew."""
    return not change.startswith(ADDED)


def _differs(recorded: AgentConfigured, current: AgentConfigured, field: str) -> bool:
    return bool(getattr(recorded, field) != getattr(current, field))
