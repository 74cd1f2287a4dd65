"""How a turn is stopped before its end: aborted on request, or failed. Pure."""

from __future__ import annotations

from ..events.session import TurnAborted, TurnFailed
from ..projections import Approved, InDoubt, Requested, Running
from .approving import withdraw_question
from .commands import Abort
from .draft import Draft
from .inputs import withdraw

STOPPED = "Stopped while it ran; it may have taken effect."
NEVER_RUN = "Not run: the turn was stopped."


def abort(draft: Draft, command: Abort) -> None:
    """Stop the turn that the input is part of; one that still waits is taken back. Nothing
    happens where the turn has ended, or does not go on anyway."""
    turn, input_id, keep = draft.state.turn, command.input_id, command.keep
    if not withdraw(draft, input_id) and turn is not None:
        goes_on = turn.halt is None or (command.halted and not keep)
        if goes_on and any(each.input_id == input_id for each in turn.inputs):
            _stop(draft, keep=keep)


def discard(draft: Draft) -> None:
    """Drop what is unfinished: the open turn, or, where none is open, the inputs that wait."""
    if draft.state.turn is not None:
        drop(draft)
        return
    for each in draft.state.queued:
        withdraw(draft, each.input_id)


def drop(draft: Draft) -> None:
    """Drop the open turn, if there is one."""
    if draft.state.turn is not None:
        _stop(draft, keep=False)


def _stop(draft: Draft, *, keep: bool) -> None:
    """Stop the open turn, and what is under way in it."""
    at, turn = draft.stamp.at, draft.turn
    if draft.asking:
        draft.discard_call("aborted")
    for _, gated in turn.gated:
        withdraw_question(draft, gated, "aborted")
    for each in draft.turn.calls:
        match each.stage:
            case InDoubt() if keep:
                pass
            case Running() if keep and each.child:
                pass  # the sub-agent is kept as well, and goes on with the turn
            case Running() | InDoubt():
                draft.settle(each.call.id, "cancelled", STOPPED)
            case Approved(attempts=attempts) if attempts and not keep:
                draft.settle(each.call.id, "cancelled", STOPPED)
            case Requested() | Approved() if not keep:
                draft.settle(each.call.id, "skipped", NEVER_RUN)
            case _:
                pass
    draft.record(TurnAborted(at=at, turn_id=turn.turn_id, kept=keep))


def fail(draft: Draft, code: str, error: str) -> None:
    """End the open turn with an error. Dropped, it takes along what would have joined it."""
    kept, joining = draft.rules.keep_failed, draft.state.joining
    draft.record(
        TurnFailed(at=draft.stamp.at, turn_id=draft.turn.turn_id, code=code, error=error, kept=kept)
    )
    if not kept:
        for each in joining:
            withdraw(draft, each.input_id)
