"""Whatever is forked, rewound, trimmed and cleared, and in whatever order: a conversation is what
a list would be, and no other session is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from places import on_stores
from travels import TravelMachine

Check = Callable[[Any, settings], None]
QUICK = settings(max_examples=12, stateful_step_count=30, deadline=None)
LONG = settings(max_examples=40, stateful_step_count=60, deadline=None)


@pytest.mark.timeout(300)
def test_a_conversation_is_what_a_list_would_be(check: Check, store_kind: str) -> None:
    check(TravelMachine, settings(QUICK, max_examples=30) if store_kind == "memory" else QUICK)


@pytest.mark.slow
@pytest.mark.timeout(900)
@on_stores("memory", "sqlite")
def test_a_long_conversation_is_what_a_list_would_be(check: Check, store_kind: str) -> None:
    check(TravelMachine, settings(LONG, max_examples=100) if store_kind == "memory" else LONG)
