"""How decisions fold: a question holds its call, and an answer lets it go."""

from __future__ import annotations

from msgspec.structs import replace

from ..events.frozen import frozen
from ..events.messages import ToolCall
from ..events.session import ApprovalRequested, ApprovalResolved, ApprovalWithdrawn
from .folding import Folding
from .open_turn import Approved, Gated, InDoubt, OpenCall, Requested, Running, Stage
from .state import Decided


def requested(folding: Folding, event: ApprovalRequested) -> None:
    """The call waits from here on."""
    if (turn := folding.turn) is None:
        return
    calls = [
        each.at(_gated(each.stage, event)) if each.call.id == event.call_id else each
        for each in turn.calls
    ]
    turn = replace(turn, calls=tuple(calls))
    folding.turn = turn.at_rest(event.at) if turn.is_paused else turn


def resolved(folding: Folding, event: ApprovalResolved) -> None:
    """Approved, the call may run, with the edited arguments if there are any."""
    stage: Stage
    match _let_go(folding, event.approval_id, Decided(event.decision, event.by, event.note)):
        case None:
            return
        case call, Gated(attempts=attempts, asked=asked) if asked or event.decision == "approved":
            stage = Approved(attempts)
        case call, _:
            stage = Requested()
    edited = call
    if event.arguments is not None:
        edited = ToolCall(call.id, call.name, frozen(event.arguments))
        folding.edit_call(edited)
    if edited != call and folding.turn is not None:
        folding.turn = folding.turn.without_numbered(call.id)
    _put(folding, call, edited, stage)


def withdrawn(folding: Folding, event: ApprovalWithdrawn) -> None:
    """The call is as it was before the question."""
    match _let_go(folding, event.approval_id, Decided(event.reason)):
        case call, Gated(attempts=attempts, asked=()):
            _put(folding, call, call, InDoubt(attempts) if attempts else Requested())
        case call, Gated(attempts=attempts):  # its sub-agent's session goes on, or is stopped
            _put(folding, call, call, Approved(attempts))
        case None:
            pass


def _gated(stage: Stage, event: ApprovalRequested) -> Gated:
    attempts = stage.attempt if isinstance(stage, (InDoubt, Running)) else 0
    return Gated(
        event.approval_id,
        attempts,
        event.at,
        event.expires_at,
        event.on_expiry,
        event.path,
        event.within,
        tuple([replace(each, arguments=frozen(each.arguments)) for each in event.asked]),
    )


def _let_go(folding: Folding, approval_id: str, decided: Decided) -> tuple[ToolCall, Gated] | None:
    folding.own_decisions()[approval_id] = decided
    gated = [] if folding.turn is None else folding.turn.gated
    return next((each for each in gated if each[1].approval_id == approval_id), None)


def _put(folding: Folding, call: ToolCall, edited: ToolCall, stage: Stage) -> None:
    if (turn := folding.turn) is None:
        return
    calls = [
        OpenCall(edited, stage, each.child) if each.call is call else each for each in turn.calls
    ]
    folding.turn = replace(turn, calls=tuple(calls))
