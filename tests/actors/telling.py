"""What the tests of runs share: what a result says, and how one is refused or fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Session, Turn, TurnResult
from turnstream.events import (
    ModelFailed,
    UserMessage,
)

WAIT = 20
EMPTY: list[Any] = [(), "", [], UserMessage("")]
Run = Callable[..., ActorSystem]


def told(result: TurnResult) -> tuple[Any, ...]:
    """All that a result says."""
    fields = (result.turn_id, result.run_id, result.text, result.finish_reason, result.steps)
    return (*fields, result.output, result.usage, list(result.messages), list(result.new_messages))


def refused(kind: type[Exception], ask: Callable[[], Turn]) -> Any:
    """The error with which ``accepted`` and ``result`` refuse; it is the only thing told."""
    turn = ask()
    for wait in (turn.accepted().result, turn.result):
        with pytest.raises(kind) as failure:
            wait(WAIT)
    assert [item.type for item in turn.stream()] == ["error", "turn.done"]
    return failure.value


def failed(session: Session, led: Any, text: str, **options: Any) -> Turn:
    turn = session.send(text, **options)
    led.asked().fail(ConnectionError("down"))
    with pytest.raises(ModelFailed):
        turn.result(WAIT)
    return turn
