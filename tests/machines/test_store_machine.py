"""Every store behaves as a dictionary of streams does, whatever is done to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from places import KINDS, on_stores
from storing import StoreMachine

Check = Callable[[Any, settings], None]
QUICK = settings(max_examples=25, stateful_step_count=30, deadline=None)
LONG = settings(max_examples=120, stateful_step_count=60, deadline=None)


@on_stores(quick=KINDS)
def test_a_store_is_a_dictionary_of_streams(check: Check) -> None:
    check(StoreMachine, QUICK)


@pytest.mark.slow
def test_sqlite_in_memory_is_a_dictionary_of_streams() -> None:
    run_state_machine_as_test(lambda: StoreMachine("sqlite://"), settings=QUICK)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.timeout(600)
@on_stores("memory", "sqlite", "jsonl")
def test_a_store_is_a_dictionary_of_streams_however_long_they_get(check: Check) -> None:
    check(StoreMachine, LONG)
