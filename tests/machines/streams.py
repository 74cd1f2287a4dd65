"""How a stream is read: event by event, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from turnstream.events import (
    AnyEvent,
    InvalidTranscript,
    Message,
    TurnAborted,
    TurnFailed,
    TurnFinished,
)
from turnstream.projections import INITIAL, SessionState, check_transcript, evolve

Recorded: TypeAlias = Sequence[AnyEvent]
OTHER = "other"
"""The agent that the first one shares its conversations with."""


def history(recorded: Recorded) -> Iterator[tuple[SessionState, AnyEvent, SessionState]]:
    """Each event, with the state before it and the state after it."""
    before = INITIAL
    for event in recorded:
        after = evolve(before, event)
        yield before, event, after
        before = after


def ends(event: AnyEvent) -> bool:
    """Whether no turn is open after ``event``."""
    match event:
        case TurnFinished():
            return True
        case TurnFailed(kept=kept) | TurnAborted(kept=kept):
            return not kept
        case _:
            return False


def turns(recorded: Recorded) -> dict[str, list[AnyEvent]]:
    """The events of each turn, by its id."""
    found: dict[str, list[AnyEvent]] = {}
    for event in recorded:
        if turn_id := getattr(event, "turn_id", ""):
            found.setdefault(turn_id, []).append(event)
    return found


def flaw(messages: Sequence[Message]) -> str:
    """Why no provider would accept these messages; "" if one would."""
    try:
        check_transcript(messages)
    except InvalidTranscript as error:
        return str(error)
    return ""
