"""What a sub-agent's session has from the call that it serves. Pure.

Its id is made of the call's: whoever runs the call again finds the session that began to do its
work, and a fork, whose calls are its own, begins another one.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from ..events.terms import Budget, ParentCall
from ..projections import OpenTurn, SessionState, Settled
from .idempotency import idempotency_key

MAX_DEPTH = 8
PREFIX = "sub-"


def child_id(session_id: str, turn_id: str, call_id: str) -> str:
    """The id of the session that does a call's work."""
    return f"{PREFIX}{idempotency_key(session_id, turn_id, call_id)}"


def key_of(parent: ParentCall) -> str:
    """The name of the input that a call gives the session which serves it."""
    return idempotency_key(parent.session_id, parent.turn_id, parent.call_id)


def served(state: SessionState) -> ParentCall | None:
    """The call that the open turn, or the input that waits, serves; None where somebody else
    asked."""
    parent = state.parent
    if parent is None:
        return None
    inputs = state.queued if state.turn is None else state.turn.inputs
    return parent if any(each.key == key_of(parent) for each in inputs) else None


def wants(state: SessionState, parent: ParentCall) -> bool:
    """Whether a session goes on with what that call comes to."""
    turn = state.turn
    if turn is None or turn.halt is not None or turn.turn_id != parent.turn_id:
        return False
    return any(
        each.call.id == parent.call_id and not isinstance(each.stage, Settled)
        for each in turn.calls
    )


def path_of(state: SessionState) -> tuple[str, ...]:
    """The calls that lead to those of the open turn, the outermost first."""
    parent = served(state)
    return () if parent is None else parent.path


def within(state: SessionState) -> tuple[str, ...]:
    """The sessions whose calls those are."""
    parent = served(state)
    return () if parent is None else parent.within


def parent_call(session_id: str, state: SessionState, call_id: str, at: datetime) -> ParentCall:
    """A call of the open turn, as the session that is to serve it knows it."""
    turn = state.turn
    assert turn is not None
    return ParentCall(
        session_id,
        turn.turn_id,
        call_id,
        (*path_of(state), call_id),
        (*within(state), session_id),
        _left(turn, state, at),
    )


def is_used_up(budget: Budget | None) -> bool:
    """Whether nothing is left for a sub-agent."""
    return budget is not None and (budget.tokens < 0 or budget.seconds < 0)


def budget_of(state: SessionState, own: Budget) -> Budget:
    """What a session's turn may use: what its agent says, and, where it serves a call, no more
    than its parent had left."""
    parent = served(state)
    if parent is None or parent.budget is None or state.turns:
        return own
    left = parent.budget
    return replace(
        own, tokens=_less(own.tokens, left.tokens), seconds=_less(own.seconds, left.seconds)
    )


def _left(turn: OpenTurn, state: SessionState, at: datetime) -> Budget | None:
    """What the turn has left of its tokens and seconds (0: no limit; below 0: nothing)."""
    budget = turn.budget
    tokens = _less(
        _rest(budget.tokens, turn.usage.total_tokens),
        _rest(budget.session_tokens, state.usage.total_tokens),
    )
    seconds = _rest(budget.seconds, turn.active_at(at))
    if not tokens and not seconds:
        return None
    return Budget(max_steps=0, tokens=int(tokens), seconds=seconds)


def _rest(limit: float, used: float) -> float:
    if not limit:
        return 0
    return limit - used if used < limit else -1


def _less(one: float, other: float) -> float:
    """The smaller of two limits, of which 0 is none."""
    return min(one, other) if one and other else one or other
