"""How a turn ends that has its final answer. Pure."""

from __future__ import annotations

from typing import Any

from ..events.errors import InvalidOutput
from ..events.session import FinishReason, OutputRefused, TurnFinished
from .draft import Draft
from .outputs import Fits, Unfit
from .stopping import fail


def conclude(draft: Draft) -> None:
    """End the turn with its answer; where that does not fit the agent's output type, have the
    model answer again, or let the turn fail."""
    if draft.rules.output is None:
        finish(draft, "stop")
        return
    match draft.rules.output(draft.answer):
        case Fits(value=value):
            finish(draft, "stop", value)
        case Unfit(why=why) if draft.turn.refused < draft.rules.output_retries:
            draft.record(
                OutputRefused(
                    at=draft.stamp.at,
                    turn_id=draft.turn.turn_id,
                    text=f"This answer does not fit the output that is asked for: {why} "
                    "Answer again, with nothing but JSON that fits it.",
                )
            )
        case Unfit(why=why):
            fail(draft, InvalidOutput.code, f"the answer does not fit the output type: {why}")


def finish(draft: Draft, reason: FinishReason, output: Any = None) -> None:
    """End the turn."""
    draft.record(
        TurnFinished(
            at=draft.stamp.at,
            turn_id=draft.turn.turn_id,
            finish_reason=reason,
            output=output,
        )
    )
