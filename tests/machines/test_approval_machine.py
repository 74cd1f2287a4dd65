"""Whoever decides on a session's calls, when, how often and about what, whatever happens beside
it, and whichever agent goes on: the guarantees hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from audience import Caller
from choices import (
    DECIDING_BURSTS,
    DECIDING_ERRORS,
    DECIDING_SETTINGS,
    DECISIONS,
    DOORS,
    ENDS,
    GATED_CALLS,
    HOWS,
    NO_IDS,
    OUTFITS,
    POLICIES,
    QUESTIONS,
    WHICH,
    WRITING,
    Calls,
)
from decisions import drifts_are_noted, gated_calls_run_when_approved
from hypothesis import Phase as Stage
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from lives import SESSION, USED, Life, Settings
from msgspec import Struct
from outfits import ASKS, GATED, PLAIN, WHOLE, Outfit
from places import on_stores
from puppets import Answer
from sessions import SessionMachine
from witnessed import Asked

from turnstream.actors import Turn
from turnstream.actors.commands import Resolve
from turnstream.events import (
    AgentConfigured,
    Approval,
    ApprovalResolved,
    ModelTurn,
    Policy,
    ToolCall,
    TurnstreamError,
)
from turnstream.projections import Phase

Check = Callable[[Any, settings], None]
AWAITING = "session-awaiting-approval"


class Decided(Struct):
    """A decision that somebody tried to take: the caller who waits, or what came of it at once."""

    decision: Resolve
    caller: Caller | None = None
    error: TurnstreamError | None = None

    @property
    def code(self) -> str:
        """Why it was not taken; "" where it was."""
        if self.caller is None:
            return self.error.code if self.error is not None else ""
        return "" if self.caller.input_id is not None else self.caller.code


class ApprovalMachine(SessionMachine):
    """A session whose calls need decisions. An agent may differ from the one before it."""

    errors = DECIDING_ERRORS

    @initialize(agreed=DECIDING_SETTINGS)
    def begin(self, agreed: Settings) -> None:
        self.modes: dict[int, str] = {}
        self.decided = 0
        self.outfit = WHOLE
        super().begin(agreed)

    def be_born(self) -> Life:
        life = super().be_born()
        self.modes[life.store.generation] = self.outfit.on_drift
        return life

    @invariant()
    def nothing_runs_undecided(self) -> None:
        self.life.settle()
        recorded = self.recorded
        gated_calls_run_when_approved(recorded, GATED, ASKS)
        drifts_are_noted(recorded, self.modes)
        waits = self.life.system.approvals()
        assert {each.id for each in waits} == {each.id for each in self.open_questions()}

    def open_questions(self) -> list[Approval]:
        return list(self.state.approvals(SESSION))

    def refusals(self) -> set[str]:
        state = self.state
        if state.turn is None:
            return {""}
        goes_on = {"agent-drifted"} if self.is_refused_for_drift() else {""}
        if state.phase is not Phase.PAUSED:
            return goes_on
        return {AWAITING} | goes_on if self.ticks() else {AWAITING}

    def is_refused_for_drift(self) -> bool:
        """Whether the agent is not one to go on with the open turn."""
        turn, outfit = self.state.turn, self.life.outfit
        if turn is None or outfit.on_drift != "error":
            return False
        began = [e for e in self.recorded if isinstance(e, AgentConfigured)][-1]
        assert began.fingerprint == turn.fingerprint
        return outfit.lacks(began.instructions, {each.name for each in began.tools})

    # Decisions

    def resolution(self, approval_id: str, how: str) -> Resolve:
        """A decision that can be told from every other one."""
        self.decided += 1
        decision = "rejected" if how == "reject" else "approved"
        edited = {"edit": {"text": f"edited {self.decided}"}, "misfit": {"text": [1]}}.get(how)
        return Resolve(approval_id, decision, f"somebody {self.decided}", how, edited)

    def decide(self, approval_id: str, how: str, door: str) -> Decided:
        """Take a decision through one of the doors there are to it."""
        decision = self.resolution(approval_id, how)
        if door == "elsewhere":
            return Decided(decision, error=self.life.decide_elsewhere(decision))
        told = self.life.session if door == "session" else self.life.system
        by, note = decision.by, decision.note

        def ask() -> Turn:
            if how == "reject":
                return told.reject(approval_id, by=by, note=note)
            return told.approve(approval_id, by=by, note=note, arguments=decision.arguments)

        return Decided(decision, self.life.attend(ask, goes_on=False))

    @rule(which=WHICH, how=HOWS, door=DOORS)
    def decide_on_one(self, which: int, how: str, door: str) -> None:
        self.life.settle()
        if questions := self.open_questions():
            self.decide_at_once(questions[which % len(questions)], [(how, door)])

    @rule(which=WHICH, ways=DECISIONS)
    def decide_twice(self, which: int, ways: list[tuple[str, str]]) -> None:
        self.life.settle()
        if questions := self.open_questions():
            self.decide_at_once(questions[which % len(questions)], ways)

    def decide_at_once(self, question: Approval, ways: list[tuple[str, str]]) -> None:
        """Of those who may decide one does, and what is recorded is what it said."""
        ticks, refused = self.ticks(), self.is_refused_for_drift()
        before = len(self.recorded)
        tried = [self.decide(question.id, how, door) for how, door in ways]
        self.life.settle()
        taken = [
            each
            for each in self.recorded[before:]
            if isinstance(each, ApprovalResolved) and each.approval_id == question.id
        ]
        won = [each for each in tried if each.code == ""]
        assert [_said(each) for each in taken] == [_said(each.decision) for each in won]
        assert len(won) <= 1
        for each in tried:
            assert each.code in self.codes(each, won, question, refused=refused, ticks=ticks)

    def codes(
        self, tried: Decided, won: list[Decided], question: Approval, *, refused: bool, ticks: bool
    ) -> set[str]:
        """What may have come of a decision: "" where it was taken."""
        codes = {""} if tried in won else {"approval-decided"} if won or ticks else set()
        if tried.caller is not None:
            is_known = question.tool in self.life.outfit.tools
            arguments = tried.decision.arguments
            if arguments is not None and not (is_known and isinstance(arguments["text"], str)):
                codes = codes - {""} | {"arguments-refused"}
            if refused:
                codes |= {"agent-drifted"}
        return codes

    @rule(approval_id=NO_IDS, how=st.sampled_from(["approve", "reject"]), door=DOORS)
    def decide_on_nothing(self, approval_id: str, how: str, door: str) -> None:
        self.decides_nothing(approval_id, how, door, "approval-not-found")

    @rule(which=WHICH, how=HOWS, door=DOORS)
    def decide_again(self, which: int, how: str, door: str) -> None:
        """On a question that has its end."""
        self.life.settle()
        ended = [*self.state.decided]
        if ended:
            self.decides_nothing(ended[which % len(ended)], how, door, "approval-decided")

    def decides_nothing(self, approval_id: str, how: str, door: str, code: str) -> None:
        self.life.settle()
        before, stands_still = self.recorded, not self.ticks()
        door = "session" if "/" not in approval_id and door == "system" else door
        tried = self.decide(approval_id, how, door)
        self.life.settle()
        assert tried.code == code
        if stands_still:
            assert self.recorded == before
        assert len(self.kept.sessions()) == bool(before)

    # Work

    @rule(calls=GATED_CALLS)
    def model_asks_for_gated_calls(self, calls: Calls) -> None:
        self.life.pull(Asked, 0, asking(calls))

    @rule(work=QUESTIONS)
    def work_with_questions_goes_on(self, work: list[tuple[Calls, str, str, int]]) -> None:
        """Calls are asked about, decided on, and run."""
        self.life.settle()
        if self.state.turn is None:
            self.send("wait")
        for calls, how, door, which in work:
            self.tool_ends(which, fails=False)
            self.life.settle()
            self.model_asks_for_gated_calls(calls)
            self.decide_on_one(which, how, door)

    @rule(work=QUESTIONS)
    def more_work_with_questions_goes_on(self, work: list[tuple[Calls, str, str, int]]) -> None:
        """The same: it is what this is about."""
        self.work_with_questions_goes_on(work)

    @rule(calls=GATED_CALLS, ways=DECISIONS, which=WHICH)
    def questions_decided_more_than_once(
        self, calls: Calls, ways: list[tuple[str, str]], which: int
    ) -> None:
        self.work_with_questions_goes_on([(calls, "approve", "session", which)])
        self.decide_twice(which, ways)

    @rule(name=st.sampled_from(["gate", "guarded", "overdue"]), policy=POLICIES, how=HOWS)
    def nothing_is_accepted_at_a_pause(self, name: str, policy: Policy, how: str) -> None:
        self.work_with_questions_goes_on([([(name, "a")], "approve", "session", 0)])
        self.model_asks_for_gated_calls([(name, "b"), (name, "c")])
        self.send(policy)
        self.decide_on_one(1, how, "session")
        self.execute("")
        self.resume()

    @rule(name=st.sampled_from(["gate", "guarded", "overdue"]), how=HOWS, door=DOORS)
    def a_stopped_turn_asks_again(self, name: str, how: str, door: str) -> None:
        self.life.settle()
        if self.state.turn is None:
            self.send("wait")
            self.life.settle()
        self.model_asks_for_gated_calls([(name, "b"), (name, "c")])
        self.stop_and_keep_the_turn()
        self.resume()
        self.decide_on_one(1, how, door)

    def stop_and_keep_the_turn(self) -> None:
        self.life.settle()
        turn = self.state.turn
        inputs = {each.input_id for each in turn.inputs} if turn is not None else set()
        for which in range(6):
            caller = self.caller(which)
            if caller is not None and caller.id in inputs:
                self.stop(which, "keep")
                return

    @rule(calls=GATED_CALLS, how=HOWS, door=DOORS, outfit=OUTFITS, lost=st.booleans())
    def calls_lost_and_gone_on_with(
        self, calls: Calls, how: str, door: str, outfit: Outfit, lost: bool
    ) -> None:
        """Their process dies, and a changed agent finds them waiting, or in doubt."""
        self.work_with_questions_goes_on([(calls, "approve", "session", 0)])
        self.outfit = outfit
        self.another_process("dies", lost)
        self.decide_on_one(0, how, door)
        self.resume()
        self.life.settle()
        self.decide_on_one(0, how, "session")

    @rule(burst=DECIDING_BURSTS, writing=WRITING)
    def much_is_decided_at_once(self, burst: list[tuple[str, int]], writing: str) -> None:
        self.much_at_once(burst, writing)

    def do(self, what: str, which: int) -> None:
        match what:
            case "approve" | "reject" | "edit":
                self.decide(self.some_id(which), what, "session")
            case "elsewhere":
                self.decide(self.some_id(which), "approve" if which % 2 else "reject", what)
            case "ask":
                self.life.pull(Asked, 0, asking([("gate", "c"), ("timed", "d"), ("risky", "e")]))
            case _:
                super().do(what, which)

    def some_id(self, which: int) -> str:
        """That of an open question, or of one that the model's next answer may lead to."""
        state = self.state
        step = state.turn.steps + 1 if state.turn is not None else 1
        coming = f"{SESSION}/turn-{max(state.turns, 1)}.{step}.1"
        ids = [*(each.id for each in self.open_questions()), coming]
        return ids[which % len(ids)]

    # Processes

    @rule(end=ENDS, lost=st.booleans(), outfit=OUTFITS)
    def another_agent(self, end: str, lost: bool, outfit: Outfit) -> None:
        self.outfit = outfit
        self.another_process(end, lost)

    @rule(outfit=OUTFITS, how=HOWS, door=DOORS)
    def another_agent_goes_on_at_a_pause(self, outfit: Outfit, how: str, door: str) -> None:
        self.outfit = outfit
        self.another_process("dies", lost=True)
        self.decide_on_one(0, how, door)

    def come_to_the_end(self) -> None:
        if self.life.outfit.on_drift == "error":
            self.outfit = WHOLE
            self.another_process("is drained", lost=False)
        super().come_to_the_end()


def _said(decision: ApprovalResolved | Resolve) -> tuple[object, ...]:
    return decision.decision, decision.by, decision.note, decision.arguments


def asking(calls: Calls) -> Answer:
    """An answer with these calls, those of the tools that take a text with one."""
    called = tuple(
        ToolCall(call_id, name, {} if name in PLAIN.tools else {"text": f"proposed {slot}"})
        for slot, (name, call_id) in enumerate(calls)
    )
    return Answer(ModelTurn("", called, USED))


# A failure is told as it is found: to make it smaller takes longer than a quick test may.
FOUND = (Stage.explicit, Stage.reuse, Stage.generate)
QUICK = settings(max_examples=15, stateful_step_count=25, deadline=None, phases=FOUND)
LONG = settings(max_examples=25, stateful_step_count=50, deadline=None)


@pytest.mark.timeout(300)
def test_the_guarantees_hold_whoever_decides_and_when(check: Check, store_kind: str) -> None:
    check(ApprovalMachine, settings(QUICK, max_examples=50) if store_kind == "memory" else QUICK)


@pytest.mark.slow
@pytest.mark.timeout(900)
@on_stores("memory", "sqlite")
def test_the_guarantees_hold_however_much_is_decided(check: Check) -> None:
    check(ApprovalMachine, LONG)
