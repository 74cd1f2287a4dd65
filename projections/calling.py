"""How calls fold: they run, take durable steps, and get their results."""

from __future__ import annotations

from msgspec.structs import replace

from ..events.frozen import frozen
from ..events.messages import ToolMessage
from ..events.rendering import render
from ..events.session import StepRecorded, ToolCallStarted, ToolResultRecorded
from .calls import OpenCall, Running, Settled, Stage, TakenStep
from .folding import Folding


def started(folding: Folding, event: ToolCallStarted) -> None:
    """The call runs."""
    if (turn := folding.turn) is not None:
        calls = _staged(turn.calls, event.call_id, Running(event.attempt))
        folding.turn = replace(turn, calls=calls).at_work(event.at)


def step_taken(folding: Folding, event: StepRecorded) -> None:
    """The step is not taken again."""
    if (turn := folding.turn) is not None:
        step = TakenStep(
            event.call_id,
            event.name,
            event.arguments_digest,
            frozen(event.value),
            event.position,
            event.key,
            event.scope,
        )
        folding.turn = replace(turn, taken=(*turn.taken, step), recoveries=0).ticked(event.at)


def settled(folding: Folding, event: ToolResultRecorded) -> None:
    """The call has its result; the conversation gets it with the last one, in call order."""
    if (turn := folding.turn) is None:
        return
    calls, call_id, name = turn.calls, event.call_id, ""
    if turn.taken:
        turn = turn.without_taken(call_id)
    for each in calls:
        if each.call.id == call_id:
            name = each.call.name
    message = ToolMessage(call_id, name, render(event.content), event.outcome)
    if len(calls) == 1 and calls[0].call.id == call_id:  # as mostly
        folding.said.append(message)
        folding.turn = replace(turn, calls=(), recoveries=0).ticked(event.at)
        return
    calls = _staged(calls, call_id, Settled(message))
    results = [each.stage.message for each in calls if isinstance(each.stage, Settled)]
    if len(results) == len(calls):
        folding.said += results
        calls = ()
    turn = replace(turn, calls=calls, recoveries=0)
    folding.turn = turn.at_rest(event.at) if turn.is_paused else turn.ticked(event.at)


def _staged(calls: tuple[OpenCall, ...], call_id: str, stage: Stage) -> tuple[OpenCall, ...]:
    return tuple(
        [OpenCall(each.call, stage) if each.call.id == call_id else each for each in calls]
    )
