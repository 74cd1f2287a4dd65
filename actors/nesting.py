"""How a turn waits for its sub-agents' decisions, and goes on after them. Pure.

A decision is taken in the session of the sub-agent that asks for it, together with what acts on
it. The sessions above only note that their calls wait; when the question holds no more they run
the call again, which finds the sub-agent's session where it is by then.
"""

from __future__ import annotations

from ..events.session import ApprovalRequested, ApprovalResolved, ApprovalWithdrawn
from ..projections import Gated, Running
from .approving import new_id
from .commands import SubAgentPaused, ToolReturned
from .draft import Draft, resume
from .parentage import path_of, within


def runs(draft: Draft, command: ToolReturned | SubAgentPaused) -> bool:
    """Whether the attempt that came back is the one that is waited for."""
    turn = draft.state.turn
    if turn is None or turn.turn_id != command.turn_id or not draft.owned:
        return False
    current = Running(command.attempt)
    return any(each.call.id == command.call_id and each.stage == current for each in turn.calls)


def wait_for_sub_agent(draft: Draft, command: SubAgentPaused) -> None:
    """Let the call wait for the decisions that its sub-agent waits for."""
    call = next(each.call for each in draft.turn.calls if each.call.id == command.call_id)
    ends = [each.expires_at for each in command.asked if each.on_expiry == "reject"]
    draft.record(
        ApprovalRequested(
            at=draft.stamp.at,
            approval_id=new_id(draft, call),
            turn_id=command.turn_id,
            call_id=command.call_id,
            expires_at=min((each for each in ends if each is not None), default=None),
            path=path_of(draft.state),
            within=within(draft.state),
            asked=command.asked,
        )
    )


def take_answers(draft: Draft) -> None:
    """Let the calls go on whose sub-agents wait no more: a decision was taken, or is no longer
    waited for."""
    turn = draft.state.turn
    if turn is None or turn.halt is not None:
        return
    over = [gated for _, gated in turn.gated if gated.asked and _is_over(draft, gated)]
    if over:
        resume(draft)
    for gated in over:
        _let_go(draft, gated)


def _is_over(draft: Draft, gated: Gated) -> bool:
    return gated.approval_id in draft.stamp.answered or gated.is_over(draft.stamp.at)


def _let_go(draft: Draft, gated: Gated) -> None:
    at, approval_id = draft.stamp.at, gated.approval_id
    if approval_id in draft.stamp.answered:
        draft.record(ApprovalResolved(at=at, approval_id=approval_id, decision="approved"))
    else:
        draft.record(ApprovalWithdrawn(at=at, approval_id=approval_id, reason="expired"))


def go_on(draft: Draft) -> None:
    """Go on with the turn for a sub-agent's sake, unless it waits for other decisions."""
    turn = draft.state.turn
    if turn is not None and not turn.is_paused:
        resume(draft)
