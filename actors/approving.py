"""Decisions on calls: asked for, taken once, no longer waited for. Pure.

Nothing but a recorded decision lets a gated call run. That a message came, that the session was
resumed or that a question is old says nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from msgspec.structs import replace

from ..events.errors import (
    ApprovalDecided,
    ApprovalNotFound,
    ArgumentsRefused,
    SessionAwaitingApproval,
)
from ..events.messages import ToolCall
from ..events.session import ApprovalRequested, ApprovalResolved, ApprovalWithdrawn
from ..projections import Gated, SessionState
from ..projections.phases import Phase
from .commands import Gate, Resolve, Stamp
from .draft import Draft, resume
from .parentage import path_of, within


def refuse_while_paused(state: SessionState, stamp: Stamp) -> None:
    """Raise ``SessionAwaitingApproval`` where nothing may happen before a decision."""
    turn = state.turn
    if state.phase is not Phase.PAUSED or turn is None:
        return
    waiting = [gated for _, gated in turn.gated if not gated.is_over(stamp.at)]
    if waiting and not stamp.answered:
        awaited = tuple([name for gated in waiting for name in gated.awaited])
        raise SessionAwaitingApproval(stamp.session_id, awaited)


def ask(draft: Draft, call: ToolCall, gate: Gate) -> None:
    """Ask for a decision on a call."""
    at = draft.stamp.at
    draft.record(
        ApprovalRequested(
            at=at,
            approval_id=new_id(draft, call),
            turn_id=draft.turn.turn_id,
            call_id=call.id,
            reason=gate.reason,
            expires_at=None if gate.seconds is None else at + timedelta(seconds=gate.seconds),
            on_expiry=gate.on_expiry,
            path=path_of(draft.state),
            within=within(draft.state),
        )
    )


def resolve(draft: Draft, command: Resolve) -> None:
    """Take a decision. Raises ``ApprovalNotFound``, ``ApprovalDecided`` where it was taken
    before, and ``ArgumentsRefused`` where the edited arguments do not fit."""
    call, gated = _checked(draft, command)
    resume(draft)
    _record(draft, call, gated, command)


def take(draft: Draft, command: Resolve) -> None:
    """Take a decision for whoever goes on with the turn. Raises as ``resolve``."""
    call, gated = _checked(draft, command)
    _record(draft, call, gated, command)


def not_found(approval_id: str) -> ApprovalNotFound:
    """That there is no such approval."""
    return ApprovalNotFound(
        f"there is no approval {approval_id!r}: see what waits for a decision with approvals()"
    )


def _record(draft: Draft, call: ToolCall, gated: Gated, command: Resolve) -> None:
    draft.record(
        ApprovalResolved(
            at=draft.stamp.at,
            approval_id=command.approval_id,
            decision=command.decision,
            by=command.by,
            note=command.note,
            arguments=command.arguments,
        )
    )
    if command.decision == "rejected":
        draft.settle(call.id, "rejected", _rejection(gated, "rejected", command.note))


def expire(draft: Draft, call: ToolCall, gated: Gated) -> None:
    """Reject a call whose decision is no longer waited for, if it is so. Where its sub-agent
    asked, that does it."""
    if gated.is_over(draft.stamp.at) and not gated.asked:
        withdraw_question(draft, gated, "expired")
        draft.settle(call.id, "rejected", _rejection(gated, "expired", "no decision came in time"))


def look_at_the_clock(draft: Draft) -> None:
    """Go on with the turn where a decision is no longer waited for."""
    turn, at = draft.state.turn, draft.stamp.at
    if turn is not None and turn.is_paused and any(gated.is_over(at) for _, gated in turn.gated):
        resume(draft)


def withdraw_question(
    draft: Draft, gated: Gated, reason: Literal["aborted", "expired", "discarded"]
) -> None:
    """Record that a question no longer stands."""
    draft.record(ApprovalWithdrawn(at=draft.stamp.at, approval_id=gated.approval_id, reason=reason))


def _checked(draft: Draft, command: Resolve) -> tuple[ToolCall, Gated]:
    """The call that a decision is about, if it can be taken."""
    call, gated = _asked(draft, command.approval_id)
    _check_arguments(draft, call, command)
    return call, gated


def _asked(draft: Draft, approval_id: str) -> tuple[ToolCall, Gated]:
    turn, known = draft.state.turn, draft.state.decided.get(approval_id)
    for call, gated in turn.gated if turn is not None else ():
        if gated.approval_id == approval_id and not gated.asked:
            if gated.is_over(draft.stamp.at):
                raise ApprovalDecided(approval_id, "expired")
            return call, gated
    if known is not None:
        raise ApprovalDecided(approval_id, known.decision, known.by)
    raise not_found(approval_id)


def _check_arguments(draft: Draft, call: ToolCall, command: Resolve) -> None:
    if command.arguments is None:
        return
    if command.decision == "rejected":
        raise ArgumentsRefused("a rejection takes no arguments: approve, or leave them out")
    given: object = command.arguments
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise ArgumentsRefused("the edited arguments are no dict of arguments by their names")
    edited = replace(call, arguments=command.arguments, malformed="")
    if refusal := draft.rules.refusal(edited):
        raise ArgumentsRefused(f"the edited arguments can't be used. {refusal}")


def _rejection(gated: Gated, error: str, note: str) -> dict[str, Any]:
    content: dict[str, Any] = {"error": error}
    if note:
        content["note"] = note
    if gated.attempts:
        content["may_have_run"] = True
    return content


def new_id(draft: Draft, call: ToolCall) -> str:
    """The session's id and the call's place in it: nobody has to look up whose it is."""
    turn = draft.turn
    slot = next(n for n, each in enumerate(turn.calls, 1) if each.call.id == call.id)
    place = f"{draft.stamp.session_id}/{turn.turn_id}.{turn.steps}.{slot}"
    asked, approval_id = 1, place
    while approval_id in draft.state.decided:
        asked += 1
        approval_id = f"{place}.{asked}"
    return approval_id
