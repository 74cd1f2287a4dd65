"""A session's history: what it was at each of its steps.

A step is a model turn that was recorded, counted over all turns from 1; step 0 is where the first
turn began. A step lasts until the next one begins, or its turn ends: the calls' results are part
of it, and no input that joins the turn after them is. What is shown for a step is what a fork at
it begins with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from ..events.session import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    ModelTurnRecorded,
    Status,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
)
from .session import fold
from .state import (
    INITIAL,
)
from .usage import SessionUsage, fold_usage
from .view import View

_WITHIN_A_STEP = (
    ToolResultRecorded,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    TurnFinished,
)


class Checkpoint(Struct, frozen=True, eq=False):
    """What the session was when a step ended: right after the event at ``version``, which
    happened at ``saved_at`` (UTC)."""

    step: int
    version: int
    saved_at: datetime
    checkpoint: View

    @property
    def status(self) -> Status:
        """Idle, running, failed, aborted or awaiting approval, then."""
        return self.checkpoint.status


class Step(Struct, frozen=True, gc=False):
    """Where a step ends: at the event of ``version``."""

    step: int
    version: int
    at: datetime


def steps(events: Iterable[AnyEvent]) -> Iterator[Step]:
    """Where each step ends, oldest first, in a stream's events."""
    found: Step | None = None
    lasts = False
    for version, event in enumerate(events, 1):
        match event:
            case ModelTurnRecorded(at=at):
                if found is not None:
                    yield found
                found, lasts = Step(found.step + 1 if found is not None else 1, version, at), True
            case TurnStarted(at=at):
                found, lasts = found or Step(0, version, at), found is None
            case UnknownEvent():
                pass
            case _ if found is not None and lasts and _belongs(event):
                found = Step(found.step, version, event.at)
    if found is not None:
        yield found


def last_settled(events: Iterable[AnyEvent]) -> int:
    """The last version at which nothing was unfinished; 0 where there is none."""
    settled, is_open, queued = 0, False, set[str]()
    for version, event in enumerate(events, 1):
        match event:
            case InputQueued(input_id=input_id):
                queued.add(input_id)
            case TurnStarted(input_ids=input_ids):
                is_open = True
                queued.difference_update(input_ids)
            case InputApplied(input_id=input_id) | InputWithdrawn(input_id=input_id):
                queued.discard(input_id)
            case TurnFinished() | TurnFailed(kept=False) | TurnAborted(kept=False):
                is_open = False
            case _:
                pass
        if not (is_open or queued):
            settled = version
    return settled


def checkpoints(session_id: str, events: Iterable[AnyEvent]) -> Iterator[Checkpoint]:
    """A checkpoint for each step of a stream, oldest first."""
    stream = list(events)
    version, state, usage = 0, INITIAL, SessionUsage()
    for each in steps(stream):
        between, version = stream[version : each.version], each.version
        state, usage = fold(between, state), fold_usage(between, usage)
        yield Checkpoint(each.step, version, each.at, View(session_id, version, state, usage))


def _belongs(event: AnyEvent) -> bool:
    """Whether the event is part of the step before it. A turn that was dropped is not: nothing of
    the step would be left."""
    match event:
        case TurnFailed(kept=kept) | TurnAborted(kept=kept):
            return kept
        case _:
            return isinstance(event, _WITHIN_A_STEP)
