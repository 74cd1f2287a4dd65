"""The rules of the Agent Trajectory Interchange Format, version 1.7, as assertions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

TRAJECTORY = {"schema_version", "session_id", "trajectory_id", "agent", "steps", "notes"} | {
    "final_metrics",
    "continued_trajectory_ref",
    "extra",
    "subagent_trajectories",
}
AGENT = {"name", "version", "model_name", "tool_definitions", "extra"}
AGENTS_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
STEP = AGENTS_ONLY | {"step_id", "timestamp", "source", "message", "observation", "extra"}
STEP |= {"is_copied_context", "llm_call_count"}
CALL = {"tool_call_id", "function_name", "arguments", "extra"}
RESULT = {"source_call_id", "content", "subagent_trajectory_ref", "extra"}
METRICS = {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra"}
FINAL = {f"total_{name}" for name in METRICS - {"extra"}} | {"total_steps", "extra"}
IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}


def check(document: dict[str, Any]) -> None:
    """Fail where a document breaks a rule."""
    _fields(document, TRAJECTORY, "schema_version", "agent", "steps")
    assert document["schema_version"] == "ATIF-v1.7"
    agent = document["agent"]
    _fields(agent, AGENT, "name", "version")
    assert all(type(agent[name]) is str for name in ("name", "version"))
    steps = document["steps"]
    assert steps and [each["step_id"] for each in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        _step(step)
    final = document["final_metrics"]
    _fields(final, FINAL)
    assert final["total_steps"] == len(steps)
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        counted = sum((each.get("metrics") or {}).get(name, 0) for each in steps)
        assert final[f"total_{name}"] == counted


def _step(step: dict[str, Any]) -> None:
    _fields(step, STEP, "step_id", "source", "message")
    assert step["source"] in ("system", "user", "agent")
    if "timestamp" in step:
        datetime.fromisoformat(step["timestamp"])
    if step["source"] != "agent":
        assert not AGENTS_ONLY & step.keys()
    _content(step["message"])
    ids = []
    for call in step.get("tool_calls", ()):
        _fields(call, CALL, "tool_call_id", "function_name", "arguments")
        assert type(call["arguments"]) is dict
        ids.append(call["tool_call_id"])
    assert len(set(ids)) == len(ids)
    for result in step.get("observation", {}).get("results", ()):
        _fields(result, RESULT)
        assert result["source_call_id"] in ids
        _content(result["content"])
    _fields(step.get("metrics", {}), METRICS)


def _content(content: Any) -> None:
    if isinstance(content, str):
        return
    assert type(content) is list
    for part in content:
        if part["type"] == "text":
            assert part.keys() == {"type", "text"} and type(part["text"]) is str
        else:
            assert part.keys() == {"type", "source"} and part["type"] == "image"
            assert part["source"].keys() == {"media_type", "path"}
            assert part["source"]["media_type"] in IMAGES


def _fields(found: dict[str, Any], allowed: set[str], *required: str) -> None:
    assert found.keys() <= allowed and set(required) <= found.keys()
    assert isinstance(found.get("extra", {}), dict)
