"""What is recorded of a durable step: pure."""

from __future__ import annotations

from datetime import datetime

from ..events.errors import StepRefused, TurnTakenOver
from ..events.session import StepRecorded
from ..projections import Running, TakenStep
from .commands import RecordStep
from .draft import Draft


def record_step(draft: Draft, command: RecordStep) -> None:
    """Record a step of a call that runs. Raises ``TurnTakenOver`` where another node has the turn
    by now, and ``StepRefused`` where the call does not run any more."""
    turn, step = draft.state.turn, command.step
    if turn is not None and turn.turn_id == command.turn_id:
        if turn.owner.node != draft.stamp.owner.node:
            raise _taken_over(command)
        stages = [each.stage for each in turn.calls if each.call.id == step.call_id]
        if draft.owned and stages == [Running(command.attempt)]:
            draft.record(recorded(draft.stamp.at, command.turn_id, step))
            return
    raise _ended(command)


def recorded(at: datetime, turn_id: str, step: TakenStep) -> StepRecorded:
    """The event that says that a step was taken."""
    return StepRecorded(
        at=at,
        turn_id=turn_id,
        call_id=step.call_id,
        name=step.name,
        arguments_digest=step.arguments_digest,
        value=step.value,
        position=step.position,
        key=step.key,
        scope=step.scope,
    )


def _taken_over(command: RecordStep) -> TurnTakenOver:
    return TurnTakenOver(
        f"a step of call {command.step.call_id!r} was taken, and not recorded: {command.turn_id} "
        "goes on at another node, which takes the step itself",
        turn_id=command.turn_id,
        call_id=command.step.call_id,
    )


def _ended(command: RecordStep) -> StepRefused:
    return StepRefused(
        f"a step of call {command.step.call_id!r} was taken, and not recorded: attempt "
        f"{command.attempt} of the call has ended or is no longer wanted; leave the tool",
        turn_id=command.turn_id,
        call_id=command.step.call_id,
    )
