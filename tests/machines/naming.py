"""Runs, told as plainly as can be: what each run id names, by the events alone."""

from __future__ import annotations

from msgspec import Struct
from streams import Recorded

from turnstream.events import (
    AnyEvent,
    Content,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)


class Run(Struct):
    """The run that an id names: the input it begins with, its turn ("": not begun), and how that
    ended ("": not yet)."""

    input_id: str
    content: Content
    turn_id: str = ""
    ended: str = ""


class Names:
    """What the ids name, event by event."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}

    def take(self, event: AnyEvent) -> None:
        match event:
            case InputQueued(run_id=run_id) if run_id:
                assert run_id not in self.live, f"a second run {run_id!r} beside a live one"
                self.runs[run_id] = Run(event.input_id, event.content)
            case InputApplied(input_id=input_id):
                assert input_id not in self._inputs, "a run joined a turn"
            case InputWithdrawn(input_id=input_id):
                self._free(self._inputs.get(input_id, ""))
            case TurnStarted(run_id=run_id, input_ids=(first, *_)):
                assert run_id == self._inputs.get(first, ""), "a turn under another name"
                if run_id:
                    assert not self.runs[run_id].turn_id, "a run with a second turn"
                    self.runs[run_id].turn_id = event.turn_id
            case TurnFinished(turn_id=turn_id, finish_reason=reason):
                self._end(turn_id, reason)
            case TurnAborted(turn_id=turn_id, kept=False):
                self._end(turn_id, "aborted")
            case TurnFailed(turn_id=turn_id, kept=False):
                self._free(self._turns.get(turn_id, ""))

    @property
    def live(self) -> set[str]:
        """The ids of runs that have not ended."""
        return {run_id for run_id, run in self.runs.items() if not run.ended}

    @property
    def _inputs(self) -> dict[str, str]:
        return {run.input_id: run_id for run_id, run in self.runs.items()}

    @property
    def _turns(self) -> dict[str, str]:
        return {run.turn_id: run_id for run_id, run in self.runs.items() if run.turn_id}

    def _end(self, turn_id: str, how: str) -> None:
        if (run_id := self._turns.get(turn_id)) is not None:
            self.runs[run_id].ended = how

    def _free(self, run_id: str) -> None:
        self.runs.pop(run_id, None)


def named(recorded: Recorded) -> dict[str, Run]:
    """What each run id names in the end. Of a name there is one live run at any time, it has one
    turn, which is no other run's, and it joins none."""
    names = Names()
    for event in recorded:
        names.take(event)
    return names.runs
