"""The application's own state, changed: pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import UNSET

from ..events.errors import StateRefused, TurnTakenOver
from ..events.session import StateChanged, ToolCallStarted
from ..projections import INITIAL, Running
from ..projections.comparing import same_value
from .commands import ChangeState
from .draft import Decision, Draft, begin


class Stated(NamedTuple):
    """What became of a call's change: whether it was made, and the value there is now."""

    changed: bool
    value: Any


def change_state(draft: Draft, command: ChangeState) -> None:
    """Record the value, unless another one than the expected is there by now. It begins a session
    that is new.

    Raises ``TurnTakenOver`` where another node has the call's turn by now, and ``StateRefused``
    where the call does not run any more.
    """
    call = command.call
    if call is not None:
        _check_runs(draft, call)
    elif draft.state == INITIAL:
        begin(draft)
    if command.expected is not UNSET and not same_value(draft.state.application, command.expected):
        return
    draft.record(
        StateChanged(
            at=draft.stamp.at,
            value=command.value,
            by=command.by,
            turn_id=call.turn_id if call is not None else "",
            call_id=call.call_id if call is not None else "",
        )
    )


def stated(decision: Decision, command: ChangeState) -> bool | Stated:
    """The answer to who asked for the change."""
    changed = any(isinstance(each, StateChanged) for each in decision.events)
    return changed if command.call is None else Stated(changed, decision.state.application)


def _check_runs(draft: Draft, call: ToolCallStarted) -> None:
    turn = draft.state.turn
    if turn is not None and turn.turn_id == call.turn_id:
        if turn.owner.node != draft.stamp.owner.node:
            raise TurnTakenOver(
                f"call {call.call_id!r} may change the state no more: {call.turn_id} goes on at "
                "another node, which runs the call itself",
                turn_id=call.turn_id,
                call_id=call.call_id,
            )
        stages = [each.stage for each in turn.calls if each.call.id == call.call_id]
        if draft.owned and stages == [Running(call.attempt)]:
            return
    raise StateRefused(
        f"call {call.call_id!r} may change the state no more: its attempt {call.attempt} has ended "
        "or is no longer wanted; leave the tool",
        turn_id=call.turn_id,
        call_id=call.call_id,
    )
