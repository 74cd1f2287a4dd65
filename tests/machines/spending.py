"""What a turn may use, and what becomes of it where that is used up."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from streams import Recorded

from turnstream.events import (
    AgentHandedOff,
    AnyEvent,
    ApprovalRequested,
    Budget,
    InputApplied,
    ModelTurnRecorded,
    ToolCallStarted,
    ToolResultRecorded,
    TurnFinished,
    TurnStarted,
    Usage,
)
from turnstream.projections import fold
from turnstream.projections.usage import fold_usage


def budgets_are_kept(recorded: Recorded) -> None:
    """G10. No turn has more steps than it may, nor begins one with its tokens, its session's
    tokens or its calls used up; at a limit nothing joins it; no call beyond the limit is asked
    about or run; and what was used is the sum over the stream."""
    spent = Spent()
    for event in recorded:
        spent.take(event)
    assert fold(recorded).usage == fold_usage(recorded).recorded == spent.total


class Spent:
    """What the open turn, and the session, used so far."""

    def __init__(self) -> None:
        self.budget, self.began = Budget(max_steps=0), datetime.min.replace(tzinfo=UTC)
        self.used, self.total = Usage(), Usage()
        self.steps = 0
        self.calls: list[str] = []

    def take(self, event: AnyEvent) -> None:
        match event:
            case TurnStarted():
                self.budget, self.began = event.budget, event.at
                self.used, self.steps, self.calls = Usage(), 0, []
            case AgentHandedOff(applied=True, budget=Budget() as budget):
                self.budget = budget
            case ModelTurnRecorded() | InputApplied():
                assert self.steps < self.budget.max_steps
                assert not self.is_used_up, "the model was asked beyond the budget"
            case ToolCallStarted(call_id=call_id) | ApprovalRequested(call_id=call_id):
                assert call_id not in self.too_many, "a call beyond the budget"
            case ToolResultRecorded(call_id=call_id) if call_id in self.too_many:
                assert event.outcome == "skipped", "a call beyond the budget"
            case TurnFinished(finish_reason="max-steps"):
                assert self.steps >= self.budget.max_steps
            case TurnFinished(finish_reason="budget"):
                seconds = timedelta(seconds=self.budget.seconds)
                assert self.is_used_up or (seconds and event.at - self.began >= seconds)
        if isinstance(event, ModelTurnRecorded):
            self.used, self.total = self.used + event.usage, self.total + event.usage
            self.steps = event.step
            self.calls += [call.id for call in event.tool_calls]

    @property
    def is_used_up(self) -> bool:
        """Whether a limit is reached that can be told from the stream to the event."""
        budget = self.budget
        return bool(self.too_many) or any_reached(
            (self.used.total_tokens, budget.tokens),
            (self.total.total_tokens, budget.session_tokens),
        )

    @property
    def too_many(self) -> list[str]:
        """The turn's calls that it may not make any more."""
        return self.calls[self.budget.tool_calls :] if self.budget.tool_calls else []


def any_reached(*amounts: Iterable[int]) -> bool:
    """Whether one of the amounts is at its limit; 0 is none."""
    return any(limit and amount >= limit for amount, limit in amounts)
