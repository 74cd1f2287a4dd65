"""The machines, on every store; what they share lies beside them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from places import NewAddress

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite(
    "decisions", "guarantees", "naming", "sessions", "spending", "storing", "travels", "witnessed"
)

Machine: TypeAlias = Callable[[str], RuleBasedStateMachine]
Check: TypeAlias = Callable[[Machine, settings], None]


@pytest.fixture
def check(new_address: NewAddress) -> Check:
    """Let a machine run, each example on an empty store of its own."""

    def run(machine: Machine, agreed: settings) -> None:
        def begun() -> RuleBasedStateMachine:
            return machine(new_address())

        run_state_machine_as_test(begun, settings=agreed)  # type: ignore[arg-type]

    return run
