"""A system on a scripted agent, on every store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, tool
from turnstream.actors.testing import ScriptedModel


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db"


@pytest.fixture
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def run(store: str) -> Iterator[Callable[..., ActorSystem]]:
    """Start a system on an agent with this script; it is closed with the test."""
    systems = []

    def start(script: list[Any], *, on: str = store, **options: Any) -> ActorSystem:
        limits = {k: options.pop(k) for k in ("max_steps", "tool_concurrency") if k in options}
        agent = Agent(
            "agent",
            model=options.pop("model", None) or ScriptedModel(script),
            tools=options.pop("tools", [add]),
            **limits,
        )
        systems.append(ActorSystem(agent, store=on, **options))
        return systems[-1]

    yield start
    for system in systems:
        system.close()
