"""Warnings where a store in memory is asked to keep what is to outlast the process."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, tool
from turnstream.actors.testing import ScriptedModel
from turnstream.stores import MemoryStore


def look(path: str) -> str:
    """Look."""
    return path


def system(store: Any, **options: Any) -> ActorSystem:
    tools = [tool(**options)(look)]
    return ActorSystem(Agent("agent", model=ScriptedModel([]), tools=tools), store=store)


GATES: dict[str, dict[str, Any]] = {
    "gated": {"needs_approval": True},
    "sometimes gated": {"needs_approval": lambda context, arguments: False},
    "asks after a crash": {"on_crash": "ask"},
}


@pytest.mark.parametrize("store", ["memory://", "sqlite://"])
@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_a_system_whose_questions_are_kept_in_memory_says_so(
    caplog: pytest.LogCaptureFixture, store: str, gate: dict[str, Any]
) -> None:
    with system(store, **gate):
        pass
    (record,) = caplog.records
    assert record.levelname == "WARNING" and "lost with the process" in record.message
    assert "'look' of 'agent'" in record.message


def test_resuming_all_of_a_store_in_memory_says_that_nothing_was_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with system("memory://") as forgetful:
        assert caplog.records == []
        assert list(forgetful.resume_all()) == []
    assert [each.levelname for each in caplog.records] == ["WARNING"]


def test_a_store_that_lasts_or_is_shared_is_no_reason_for_a_warning(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with closing(MemoryStore()) as shared:
        for store in (f"sqlite:///{tmp_path}/s.db", f"jsonl:///{tmp_path}/streams", shared):
            with system(store, needs_approval=True) as lasting:
                assert list(lasting.resume_all()) == []
    assert caplog.records == []
