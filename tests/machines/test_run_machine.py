"""Whoever sends with a run id, which words, how often, and whatever is lost meanwhile: one run of
a name is live, one that has ended is told and not done again, and no input is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

import pytest
from audience import Caller
from choices import ENDS, ERRORS, WHICH, WRITING, Calls
from hypothesis import Phase as Stage
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from naming import Run, named
from sessions import SessionMachine
from witnessed import Asked

from turnstream.actors import Turn, TurnResult
from turnstream.actors.commands import IfRunExists
from turnstream.events import (
    AnyEvent,
    Budget,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    Owner,
    TurnAborted,
    TurnFinished,
    TurnStarted,
)

Check: TypeAlias = Callable[[Any, settings], None]
Send: TypeAlias = tuple[str, str, IfRunExists]

HOWS: st.SearchStrategy[IfRunExists] = st.sampled_from(
    ["resume", "resume", "resume", "restart", "fail", "resume_only"]
)
SENDS: st.SearchStrategy[Send] = st.tuples(
    st.sampled_from("qr"), st.sampled_from(["one", "one", "one", "another", ""]), HOWS
)
RUN_BURSTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("resume a run", "resume a run", "restart a run", "restart a run", "fail a run"),
                *("wait", "queue", "go on", "go on", "go on", "withdraw", "abort", "stop"),
            ]
        ),
        WHICH,
    ),
    min_size=2,
    max_size=6,
)


class RunMachine(SessionMachine):
    """A session of which runs are asked for, among everything else."""

    errors = ERRORS | {"run-exists", "run-not-found"}

    @invariant()
    def a_name_is_one_runs(self) -> None:
        self.life.settle()
        recorded, state = self.recorded, self.state
        for run_id, run in named(recorded).items():
            known = state.run(run_id)
            assert known is not None and known.input_id == run.input_id
            assert (known.ended.finish_reason if known.ended else "") == run.ended

    @rule(send=SENDS)
    def send_for_a_run(self, send: Send) -> None:
        self.sent_for(send)

    @rule(sends=st.lists(SENDS, min_size=2, max_size=4), calls=st.lists(st.just(("work", "a"))))
    def runs_are_asked_for_again_and_again(self, sends: list[Send], calls: Calls) -> None:
        """And the model answers in between."""
        for each in sends:
            self.sent_for(each)
            self.model_answers(calls)
            self.tool_ends(0, fails=False)
            self.life.settle()

    @rule(send=SENDS, end=ENDS, written=st.sampled_from(["at once", "unseen", "never"]))
    def a_run_is_asked_for_in_another_process(self, send: Send, end: str, written: str) -> None:
        """After the one that it was asked for in has ended, or died before it saw it written."""
        self.life.settle()
        if written != "at once":
            self.life.store.hold()
        self.life.attend(partial(self.ask, *send))
        if written == "at once":
            self.another_process(end, lost=False)
        else:
            self.another_process("dies", lost=written == "never")
        self.sent_for(send)

    @rule(burst=RUN_BURSTS, writing=WRITING)
    def runs_among_much_at_once(self, burst: list[tuple[str, int]], writing: str) -> None:
        self.much_at_once(burst, writing)

    def do(self, what: str, which: int) -> None:
        match what:
            case "resume a run" | "restart a run" | "fail a run":
                how: Any = what.partition(" ")[0]
                self.life.attend(partial(self.ask, "qr"[which % 2], "one", how))
            case _:
                super().do(what, which)

    def ask(self, run_id: str, words: str, how: IfRunExists) -> Turn:
        return self.life.session.send(words or (), run_id=run_id, if_run_exists=how)

    def sent_for(self, send: Send) -> None:
        """What came of it is what the table says of the run as it was."""
        run_id, words, _ = send
        self.life.settle()
        before, asked = self.recorded, self.asked
        run, expected = named(before).get(run_id), self.expected(*send)
        caller = self.life.attend(partial(self.ask, *send))
        assert caller is not None
        self.life.settle()
        new = self.recorded[len(before) :]
        queued = [each for each in new if isinstance(each, InputQueued)]
        match expected:
            case "begins":
                content = words or (run.content if run is not None else "")
                assert [(e.content, e.run_id, e.policy) for e in queued] == [
                    (content, run_id, "wait")
                ]
                assert caller.input_id == queued[0].input_id
                self.dropped(run, new)
            case "goes on":
                assert run is not None and caller.input_id == run.input_id and not queued
            case "is told":
                assert run is not None and caller.input_id == run.input_id
                assert not new and self.asked == asked
                tells(caller, run_id, run)
            case code:
                assert (caller.input_id, caller.code) == (None, code)
                assert not new and self.asked == asked

    def expected(self, run_id: str, words: str, how: IfRunExists) -> str:
        """What is to come of a send: the code of an error, or what becomes of the run."""
        run = named(self.recorded).get(run_id)
        if run is None:
            return "run-not-found" if how == "resume_only" or not words else "begins"
        match how:
            case "fail":
                return "run-exists"
            case "restart":
                return "run-exists" if self.is_running(run) else "begins"
            case _ if words and words != run.content:
                return "input-conflict"
            case _:
                return "is told" if run.ended else "goes on"

    def is_running(self, run: Run) -> bool:
        """Whether it goes on by itself."""
        turn = self.state.turn
        if turn is None or turn.turn_id != run.turn_id or turn.halt is not None:
            return False
        return turn.owner.generation == self.life.store.generation

    def dropped(self, run: Run | None, new: list[Any]) -> None:
        """What was unfinished of the run before is no more."""
        if run is None or run.ended:
            return
        if run.turn_id:
            drops = [e.turn_id for e in new if isinstance(e, TurnAborted) and not e.kept]
            assert drops[:1] == [run.turn_id]
        else:
            taken = [e.input_id for e in new if isinstance(e, InputWithdrawn)]
            assert taken == [run.input_id]

    @property
    def asked(self) -> int:
        """How often the model was asked."""
        return sum(isinstance(each, Asked) for each in self.seen)

    def come_to_the_end(self) -> None:
        """And whoever comes later, in another process, is told the same of every run."""
        super().come_to_the_end()
        self.another_process("is drained", lost=False)
        for run_id in named(self.recorded):
            assert self.expected(run_id, "", "resume_only") == "is told"
            self.sent_for((run_id, "", "resume_only"))


def tells(caller: Caller, run_id: str, run: Run) -> None:
    """That it tells how the turn ended, with its conversation, is judged like whatever is told."""
    told = caller.outcome
    assert isinstance(told, TurnResult)
    assert (told.run_id, told.turn_id, told.finish_reason) == (run_id, run.turn_id, run.ended)


AT = datetime(2026, 1, 1, tzinfo=UTC)


def begun(turn_id: str, input_id: str, run_id: str) -> AnyEvent:
    return TurnStarted(
        at=AT,
        turn_id=turn_id,
        input_ids=(input_id,),
        agent="agent",
        budget=Budget(8),
        owner=Owner(1, "n"),
        run_id=run_id,
    )


def queued(input_id: str, run_id: str) -> AnyEvent:
    return InputQueued(at=AT, input_id=input_id, content="one", run_id=run_id)


def over(turn_id: str) -> AnyEvent:
    return TurnFinished(at=AT, turn_id=turn_id, finish_reason="stop")


def test_a_name_that_is_given_again_after_the_end_is_the_later_runs() -> None:
    first = [queued("i", "r"), begun("t", "i", "r"), over("t")]
    assert named(first)["r"].ended == "stop"
    assert named([*first, queued("j", "r")])["r"] == Run("j", "one")


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([queued("i", "r"), queued("j", "r")], "beside a live one"),
        ([queued("i", "r"), begun("t", "i", "r"), queued("j", "r")], "beside a live one"),
        ([queued("i", "r"), begun("t", "i", "")], "another name"),
        ([queued("i", ""), begun("t", "i", "r")], "another name"),
        ([queued("i", "r"), begun("t", "i", "r"), begun("u", "i", "r")], "second turn"),
        ([queued("i", "r"), InputApplied(at=AT, turn_id="t", input_id="i")], "joined"),
    ],
)
def test_a_stream_with_two_runs_of_a_name_is_told_from_a_sound_one(
    events: list[AnyEvent], why: str
) -> None:
    with pytest.raises(AssertionError, match=why):
        named(events)


# A failure is told as it is found: to make it smaller may take longer than all the rest.
FOUND = (Stage.explicit, Stage.reuse, Stage.generate)
LONG = settings(max_examples=30, stateful_step_count=30, deadline=None, phases=FOUND)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_name_is_one_runs_whoever_sends_with_it_and_whatever_is_lost(check: Check) -> None:
    check(RunMachine, LONG)
