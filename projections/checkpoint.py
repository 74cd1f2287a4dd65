"""A session's state at a step, as users know it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from ..events.envelope import RecordedEvent
from ..events.messages import Message, Usage
from ..events.session import (
    ModelTurnRecorded,
    Status,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
)
from .session import evolve
from .state import INITIAL, SessionState

_SAVING = (
    TurnStarted,
    ModelTurnRecorded,
    ToolResultRecorded,
    TurnFinished,
    TurnFailed,
    TurnAborted,
)


class Checkpoint(Struct, frozen=True, eq=False):
    """The session right after the event at ``version``. ``step`` counts the model turns recorded
    up to there, over all turns."""

    step: int
    version: int
    saved_at: datetime
    status: Status
    messages: Sequence[Message]
    state: Any
    usage: Usage


def checkpoints(records: Iterable[RecordedEvent]) -> Iterator[Checkpoint]:
    """A checkpoint for each event that moved the conversation on, oldest first."""
    state, step = INITIAL, 0
    for record in records:
        state = evolve(state, record.event)
        step += isinstance(record.event, ModelTurnRecorded)
        if isinstance(record.event, _SAVING):
            yield _checkpoint(state, step, record)


def _checkpoint(state: SessionState, step: int, record: RecordedEvent) -> Checkpoint:
    assert not isinstance(record.event, UnknownEvent)
    return Checkpoint(
        step,
        record.version,
        record.event.at,
        state.status,
        state.transcript,
        state.application,
        state.usage,
    )
