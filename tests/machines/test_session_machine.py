"""Whatever is sent, steered, stopped, lost and resumed, and in whatever order: the guarantees
hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from places import on_stores
from stating import StatingMachine

Check = Callable[[Any, settings], None]
QUICK = settings(max_examples=15, stateful_step_count=30, deadline=None)
LONG = settings(max_examples=25, stateful_step_count=50, deadline=None)


@pytest.mark.timeout(300)
def test_the_guarantees_hold_whatever_is_done_to_a_session(check: Check) -> None:
    check(StatingMachine, QUICK)


@pytest.mark.slow
@pytest.mark.timeout(900)
@on_stores("memory", "sqlite")
def test_the_guarantees_hold_however_much_is_done_to_a_session(check: Check) -> None:
    check(StatingMachine, LONG)
