"""Long streams, written at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain, islice

from turnstream.actors.recording import Known, append_after
from turnstream.events import (
    Budget,
    InputQueued,
    ModelTurnRecorded,
    Owner,
    SessionEvent,
    SessionStarted,
    ToolCall,
    ToolCallStarted,
    ToolResultRecorded,
    TurnFinished,
    TurnStarted,
    Usage,
)
from turnstream.projections import fold
from turnstream.stores import EventStore

AT = datetime(2026, 1, 1, tzinfo=UTC)
EVENTS_OF_A_TURN = 7


def turn(number: int, at: datetime = AT) -> list[SessionEvent]:
    """A turn in which a tool is called once."""
    turn_id, call_id, input_id = f"turn-{number}", f"c{number}", f"i{number}"
    at += timedelta(seconds=number)
    call = ToolCall(call_id, "look", {"place": number})
    return [
        InputQueued(at=at, input_id=input_id, content=f"question {number}"),
        TurnStarted(
            at=at,
            turn_id=turn_id,
            input_ids=(input_id,),
            agent="agent",
            budget=Budget(32),
            owner=Owner(1, "n"),
        ),
        ModelTurnRecorded(at=at, turn_id=turn_id, step=1, tool_calls=(call,), usage=Usage(10, 2)),
        ToolCallStarted(at=at, turn_id=turn_id, call_id=call_id),
        ToolResultRecorded(at=at, turn_id=turn_id, call_id=call_id, content={"found": number}),
        ModelTurnRecorded(at=at, turn_id=turn_id, step=2, text=f"answer {number}"),
        TurnFinished(at=at, turn_id=turn_id),
    ]


def conversation(turns: int, at: datetime = AT) -> list[SessionEvent]:
    """A session of so many turns."""
    begun: SessionEvent = SessionStarted(at=at, agent="agent")
    return [begun, *chain.from_iterable(turn(number, at) for number in range(1, turns + 1))]


def put(store: EventStore, session_id: str, events: list[SessionEvent], page: int = 1000) -> None:
    """Write a session as an agent would, some events at a time."""
    known, rest = Known(), iter(events)
    while batch := list(islice(rest, page)):
        state = fold(batch, known.state)
        append, known = append_after(known, session_id, batch, state)
        store.append(append)
