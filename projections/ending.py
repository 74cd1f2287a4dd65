"""How the end of a turn folds."""

from __future__ import annotations

from msgspec.structs import replace

from ..events.session import TurnAborted, TurnFailed, TurnFinished
from .folding import Folding
from .open_turn import ABORTED, Halt, OpenTurn
from .state import EndedTurn


def finished(folding: Folding, event: TurnFinished) -> bool:
    """Its messages are the conversation's. False where calls are open, which can't be."""
    if (turn := folding.turn) is None:
        return True
    if turn.calls:
        return False
    folding.turn = None
    folding.ended = EndedTurn(
        turn.turn_id,
        event.finish_reason,
        turn.base,
        folding.length,
        turn.steps,
        turn.usage,
        event.output,
        turn.run_id,
        turn.agent,
    )
    if turn.agent != folding.active:  # an edit took out the place at which it took over
        folding.switch(turn.agent)
    folding.rekey(turn.inputs, folding.ended)
    folding.end_run(turn, folding.ended)
    return True


def failed(folding: Folding, event: TurnFailed) -> None:
    """It is halted where it is kept, and taken out otherwise."""
    if (turn := folding.turn) is None:
        return
    if event.kept:
        folding.turn = replace(turn.at_rest(event.at), halt=Halt(event.code, event.error))
    else:
        _drop(folding, turn)
        folding.rekey(turn.inputs, None)


def aborted(folding: Folding, event: TurnAborted) -> None:
    """It is halted where it is kept, and taken out otherwise."""
    if (turn := folding.turn) is None:
        return
    if event.kept:
        stopped = Halt(ABORTED, "the turn was stopped")
        folding.turn = replace(turn.at_rest(event.at), halt=stopped)
        return
    _drop(folding, turn)
    length = folding.length
    ended = EndedTurn(
        turn.turn_id, "aborted", length, length, turn.steps, turn.usage, run_id=turn.run_id
    )
    folding.rekey(turn.inputs, ended)
    folding.end_run(turn, ended)


def _drop(folding: Folding, turn: OpenTurn) -> None:
    folding.turn = None
    if folding.reaches(turn.base):
        folding.edit(turn.base)
