"""What holds for decisions: that nothing runs without the one that it needs.

The judge here keeps a docket of its own, from the rules for decisions alone: it knows neither the
fold nor the table of phases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from streams import Recorded

from turnstream.events import (
    AgentConfigured,
    AgentDriftDetected,
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    InputQueued,
    InputWithdrawn,
    ModelTurnRecorded,
    StateChanged,
    ToolCall,
    ToolCallStarted,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
)
from turnstream.projections import fold

Stage: TypeAlias = Literal["requested", "asked", "approved", "rejected", "running", "doubted"]
SESSION = "s"


class Question(Struct):
    """What was asked about a call; ``ended`` says how, once it did."""

    asked: ApprovalRequested
    ended: str = ""

    def is_over(self, at: datetime) -> bool:
        """Whether it is no longer waited for at that time."""
        expires_at = self.asked.expires_at
        return self.asked.on_expiry == "reject" and expires_at is not None and expires_at <= at


class Docket:
    """The calls that lack results, and every question there ever was. ``owed`` are calls that
    were asked about and may not run before a decision."""

    def __init__(self) -> None:
        self.turn_id, self.step = "", 0
        self.calls: dict[str, ToolCall] = {}
        self.stages: dict[str, Stage] = {}
        self.owed: set[str] = set()
        self.questions: dict[str, Question] = {}
        self.at = datetime.min.replace(tzinfo=UTC)

    @property
    def open(self) -> list[Question]:
        """The questions that wait for decisions, in call order."""
        waiting = [each for each in self.questions.values() if not each.ended]
        return sorted(waiting, key=lambda each: list(self.calls).index(each.asked.call_id))

    def is_paused(self, at: datetime) -> bool:
        """Whether nothing goes on before a decision. In the middle of an append calls may still
        be about to start: an event of the same time is part of it."""
        stages = set(self.stages.values())
        return stages == {"asked"} or (stages == {"asked", "requested"} and at > self.at)

    def take(self, event: AnyEvent) -> None:
        self._follow(event)
        self.at = event.at

    def _follow(self, event: AnyEvent) -> None:
        match event:
            case ModelTurnRecorded(tool_calls=calls):
                self.turn_id, self.step = event.turn_id, event.step
                self.calls = {call.id: call for call in calls}
                self.stages = dict.fromkeys(self.calls, "requested")
            case ApprovalRequested():
                self._asked(event)
            case ApprovalResolved(decision=decision):
                self._ended(event.approval_id, decision, decision)
            case ApprovalWithdrawn(reason="expired"):
                question = self._ended(event.approval_id, "expired", "rejected")
                assert question.is_over(event.at), "it expired before its time"
            case ApprovalWithdrawn(reason=reason):
                question = self._ended(event.approval_id, reason, "requested")
                if question.asked.reason == "in-doubt":
                    self.stages[question.asked.call_id] = "doubted"
            case ToolCallStarted(call_id=call_id):
                stage = self.stages.get(call_id)
                assert stage in ("requested", "approved", "doubted"), f"begun when {stage}"
                assert call_id not in self.owed, "begun without the decision it needs"
                self.stages[call_id] = "running"
            case ToolResultRecorded(call_id=call_id):
                self._settled(call_id, event.outcome)
            case TurnResumed():
                for call_id, stage in self.stages.items():
                    self.stages[call_id] = "doubted" if stage == "running" else stage
            case TurnFinished() | TurnFailed() | TurnAborted():
                assert not self.open, "a question outlived the turn that it was asked in"

    def _asked(self, event: ApprovalRequested) -> None:
        call_id, approval_id = event.call_id, event.approval_id
        stage = self.stages.get(call_id)
        assert stage == ("requested" if event.reason == "gated" else "doubted"), f"in {stage}"
        assert approval_id not in self.questions, "an id for two questions"
        slot = list(self.calls).index(call_id) + 1
        place = f"/{self.turn_id}.{self.step}.{slot}"
        times = sum(each.asked.call_id == call_id for each in self._of_this_step())
        assert approval_id.endswith(f"{place}.{times + 1}" if times else place), approval_id
        self.questions[approval_id] = Question(event)
        self.stages[call_id] = "asked"
        self.owed.add(call_id)

    def _of_this_step(self) -> list[Question]:
        place = f"/{self.turn_id}.{self.step}."
        return [each for approval_id, each in self.questions.items() if place in approval_id]

    def _ended(self, approval_id: str, ended: str, stage: Stage) -> Question:
        question = self.questions.get(approval_id)
        assert question is not None, "a decision on what was not asked"
        assert not question.ended, f"{ended}, but it was {question.ended} before"
        question.ended = ended
        self.stages[question.asked.call_id] = stage
        if stage == "approved":
            self.owed.discard(question.asked.call_id)
        return question

    def _settled(self, call_id: str, outcome: str) -> None:
        stage = self.stages.pop(call_id, None)
        assert stage != "asked", "a call has its result while it waits for a decision"
        assert (outcome == "rejected") == (stage == "rejected"), f"{outcome} after {stage}"
        self.owed.discard(call_id)


def decisions_are_taken_once_and_obeyed(recorded: Recorded) -> None:
    """A question has one end at most, after it was asked. A call that was asked about starts once
    it was approved, once for each approval unless its process was lost; a rejected one, and one
    whose time is over, has its result with the decision, and never starts."""
    docket, rejected = Docket(), ""
    for event in recorded:
        if rejected:
            assert isinstance(event, ToolResultRecorded) and event.call_id == rejected
        docket.take(event)
        rejected = next((i for i, stage in docket.stages.items() if stage == "rejected"), "")
    assert not rejected, "a rejected call lacks its result"


AT_A_PAUSE = (
    ApprovalResolved,
    ApprovalWithdrawn,
    TurnResumed,
    TurnAborted,
    AgentDriftDetected,
    AgentConfigured,
    InputWithdrawn,
    StateChanged,
)


def nothing_happens_at_a_pause(recorded: Recorded) -> None:
    """Where only calls are left that wait for decisions nothing of the turn happens but decisions,
    the ends of questions, and what leads to these; nor is an input accepted, but for one that
    comes when a question is no longer waited for."""
    docket, resumed = Docket(), False
    for event in recorded:
        if resumed:
            assert isinstance(event, ApprovalResolved | ApprovalWithdrawn), "resumed for nothing"
        paused = docket.is_paused(event.at)
        if paused and isinstance(event, InputQueued):
            assert any(each.is_over(event.at) for each in docket.open), "accepted at a pause"
        elif paused:
            assert isinstance(event, AT_A_PAUSE), f"{event} at a pause"
        resumed = paused and isinstance(event, TurnResumed)
        docket.take(event)
    assert not resumed, "resumed for nothing"


def the_inbox_is_what_was_asked(recorded: Recorded) -> None:
    """The fold's approvals are the questions that have no end, with what is to run."""
    docket, arguments = Docket(), arguments_by_call(recorded)
    for event in recorded:
        docket.take(event)
    asked = [
        (each.approval_id, call.id, call.name, arguments[each.turn_id, call.id], each.reason)
        for each in [question.asked for question in docket.open]
        for call in [docket.calls[each.call_id]]
    ]
    shown = [
        (each.id, each.call_id, each.tool, each.arguments, each.reason)
        for each in fold(recorded).approvals(SESSION)
    ]
    assert shown == asked


def gated_calls_run_when_approved(
    recorded: Recorded, gated: Collection[str], asks: Collection[str]
) -> None:
    """The first run of a call of one of the ``gated`` tools follows its approval, and a further
    run of one of those that ask when in doubt follows one for that."""
    names: dict[tuple[str, str], str] = {}
    approved: Counter[tuple[str, str, str]] = Counter()
    questions: dict[str, ApprovalRequested] = {}
    doubts: Counter[tuple[str, str]] = Counter()
    for event in recorded:
        match event:
            case ModelTurnRecorded(turn_id=turn_id):
                names |= {(turn_id, call.id): call.name for call in event.tool_calls}
            case ApprovalRequested():
                questions[event.approval_id] = event
            case ApprovalResolved(decision="approved", approval_id=approval_id):
                asked = questions[approval_id]
                approved[asked.turn_id, asked.call_id, asked.reason] += 1
            case ToolCallStarted(turn_id=turn_id, call_id=call_id, attempt=1):
                if names[turn_id, call_id] in gated:
                    assert approved[turn_id, call_id, "gated"] == 1, f"{event} without approval"
            case ToolCallStarted(turn_id=turn_id, call_id=call_id):
                if names[turn_id, call_id] in asks:
                    doubts[turn_id, call_id] += 1
                    assert approved[turn_id, call_id, "in-doubt"] == doubts[turn_id, call_id]


def arguments_by_call(recorded: Recorded) -> dict[tuple[str, str], dict[str, Any]]:
    """What each call (turn and id) runs with: the edited arguments, where they were edited."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    asked: dict[str, tuple[str, str]] = {}
    for event in recorded:
        match event:
            case ModelTurnRecorded(turn_id=turn_id):
                found |= {(turn_id, call.id): call.arguments for call in event.tool_calls}
            case ApprovalRequested():
                asked[event.approval_id] = event.turn_id, event.call_id
            case ApprovalResolved(arguments=dict() as edited, approval_id=approval_id):
                found[asked[approval_id]] = edited
    return found


def drifts_are_noted(recorded: Recorded, modes: Mapping[int, str]) -> None:
    """A turn that goes on with another agent is marked, unless that is ignored; where it is an
    error only tools were added. ``modes`` is what the nodes do, by generation."""
    fingerprint, noted = "", None
    for event in recorded:
        match event:
            case AgentDriftDetected():
                noted = event
            case TurnResumed():
                _check_drift(event, fingerprint, noted, modes[event.owner.generation])
                noted = None
            case AgentConfigured():
                continue
            case _:
                assert noted is None, "a drift was noted, and nobody went on"
        fingerprint = getattr(event, "fingerprint", fingerprint)
    assert noted is None


def _check_drift(
    event: TurnResumed, before: str, noted: AgentDriftDetected | None, mode: str
) -> None:
    drifted = before != event.fingerprint and mode != "ignore"
    assert drifted == (noted is not None), f"{mode}: {noted}"
    if noted is not None:
        assert (noted.recorded, noted.current) == (before, event.fingerprint)
        assert noted.changes
        if mode == "error":
            assert all(each.startswith("tool added: ") for each in noted.changes)
