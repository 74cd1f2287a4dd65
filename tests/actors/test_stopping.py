"""What a stopped turn says of each of its calls, decided without a thread or a store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from turnstream.actors import Agent, tool
from turnstream.actors.commands import Abort, Discard, Stamp
from turnstream.actors.decider import decide
from turnstream.actors.ready import ReadyAgent
from turnstream.events import (
    ApprovalRequested,
    ApprovalResolved,
    Budget,
    InputQueued,
    ModelTurnRecorded,
    Owner,
    SessionEvent,
    SessionStarted,
    ToolCall,
    ToolCallStarted,
    ToolResultRecorded,
    TurnResumed,
    TurnStarted,
)
from turnstream.projections import fold

AT = datetime(2026, 1, 1, tzinfo=UTC)
TURN: dict[str, Any] = {"at": AT, "turn_id": "turn-1"}
OLD, NEW = Owner(1, "old"), Owner(2, "new")
ASKED = ApprovalRequested(**TURN, approval_id="s/turn-1.1.1", call_id="c")
APPROVED = ApprovalResolved(at=AT, approval_id="s/turn-1.1.1", decision="approved")
BEGAN, RESUMED = ToolCallStarted(**TURN, call_id="c"), TurnResumed(**TURN, owner=NEW)
BEGINNING: list[SessionEvent] = [
    SessionStarted(at=AT, agent="agent"),
    InputQueued(at=AT, input_id="i", content="go"),
    TurnStarted(**TURN, input_ids=("i",), agent="agent", budget=Budget(max_steps=9), owner=OLD),
    ModelTurnRecorded(**TURN, step=1, tool_calls=(ToolCall("c", "work"),)),
]


@tool
def work() -> str:
    """Work."""
    return "done"


READY = ReadyAgent(Agent("agent", model=lambda request: "hi", tools=[work]), keep_failed=True)


@pytest.mark.parametrize("command", [Abort("i"), Discard()], ids=["aborted", "discarded"])
@pytest.mark.parametrize(
    ("happened", "outcome"),
    [
        ([], "skipped"),
        ([ASKED], "skipped"),
        ([ASKED, APPROVED], "skipped"),
        ([BEGAN], "cancelled"),
        ([BEGAN, RESUMED], "cancelled"),
        ([BEGAN, RESUMED, ASKED], "cancelled"),
        ([BEGAN, RESUMED, ASKED, APPROVED], "cancelled"),
    ],
    ids=["requested", "asked", "approved", "running", "in doubt", "doubt asked", "doubt approved"],
)
def test_a_call_that_may_have_run_is_cancelled_and_one_that_never_ran_is_skipped(
    command: Abort | Discard, happened: list[SessionEvent], outcome: str
) -> None:
    decision = decide(fold([*BEGINNING, *happened]), command, READY.rules, Stamp(AT, NEW, "s"))

    (result,) = [each for each in decision.events if isinstance(each, ToolResultRecorded)]
    assert result.outcome == outcome
    assert decision.state.turn is None and not decision.state.transcript
