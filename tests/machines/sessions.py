"""A session to which anything may happen, in whatever order, and judges who look on.

Model and tools are puppets. A rule pulls one string, or makes one request, and then everything
is left to come to rest before the guarantees are judged. No rule depends on what the session
came to; where a rule finds nothing to do it does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Condition
from typing import Any

from audience import Audience, Caller
from choices import (
    BURSTS,
    CALLS,
    ENDS,
    ERRORS,
    KEYS,
    POLICIES,
    SETTINGS,
    WHICH,
    WORK,
    WRITING,
    Calls,
    Work,
)
from guarantees import every_split_folds_alike, judge_stream, keyed
from guarantees import results_are_in_order_of_completion as results_are_in_order
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from lives import (
    SESSION,
    WAIT,
    Life,
    Settings,
    answer,
    events_of,
    one_object,
    version_of,
)
from outfits import PLAIN
from puppets import Answer, Break
from witnessed import Asked, Ran, Returned, Seen, judge_witnesses

from turnstream.actors import Turn, audit_session
from turnstream.events import InputQueued, Policy
from turnstream.projections import SessionState, fold
from turnstream.stores import open_store


class SessionMachine(RuleBasedStateMachine):
    """A session, lived by one process after the other. ``errors`` are the codes that callers of a
    live process may be told."""

    errors = ERRORS
    outfit = PLAIN

    def __init__(self, address: str) -> None:
        super().__init__()
        self.kept = open_store(address)
        self.moved = Condition()
        self.seen: list[Seen] = []
        self.sent = 0
        self.audience = Audience(self.moved, self.seen.append, lambda: version_of(self.kept))
        self.gone: list[Caller] = []

    @initialize(agreed=SETTINGS)
    def begin(self, agreed: Settings) -> None:
        self.settings = agreed
        self.life = self.be_born()

    def be_born(self) -> Life:
        witness = self.seen.append
        return Life(
            self.kept, self.settings, self.audience, self.moved, witness, outfit=self.outfit
        )

    @property
    def recorded(self) -> list[Any]:
        return events_of(self.kept)

    @property
    def state(self) -> SessionState:
        return fold(self.recorded)

    def new_text(self) -> str:
        self.sent += 1
        return f"input {self.sent}"

    def caller(self, which: int) -> Caller | None:
        callers = [each for each in self.life.callers if each.turn.session_id == SESSION]
        return callers[-1 - which % len(callers)] if callers else None

    @invariant()
    def the_guarantees_hold(self) -> None:
        self.life.settle()
        seen, recorded = list(self.seen), self.recorded
        judge_stream(recorded)
        judge_witnesses(recorded, seen)
        one_object(self.life.callers, recorded)
        assert {each.code for each in self.life.callers} <= self.errors
        if recorded:
            self.view_is_the_fold(recorded)

    def view_is_the_fold(self, recorded: list[Any]) -> None:
        state, session = fold(recorded), self.life.session
        assert session.messages == state.conversation
        assert (session.status, session.version) == (state.status, len(recorded))
        (row,) = self.life.system.sessions()
        assert (row.status, row.version) == (state.status, len(recorded))
        pending = session.pending()
        assert row.approvals == (pending.approvals if pending is not None else ())
        assert row.approvals == state.approvals(SESSION)

    # Callers

    @rule(policy=POLICIES)
    def send(self, policy: Policy) -> None:
        text = self.new_text()
        self.asked_with(text, "", lambda: self.life.session.send(text, policy=policy))

    @rule(policy=POLICIES, key=st.sampled_from("kl"), differs=st.integers(0, 3))
    def send_with_a_key(self, policy: Policy, key: str, differs: int) -> None:
        text = f"keyed {key}" if differs else f"another {key}"
        self.asked_with(text, key, lambda: self.life.session.send(text, policy=policy, key=key))

    @rule(key=KEYS)
    def execute(self, key: str) -> None:
        text = f"keyed {key}" if key else self.new_text()
        self.asked_with(text, key, lambda: self.life.session.execute(text, key=key or None))

    def asked_with(self, text: str, key: str, ask: Callable[[], Turn]) -> None:
        """An input is accepted once, under its key once, and with another key's text never; and
        never where it is refused."""
        self.life.settle()
        before = self.recorded
        known, refusals = keyed(before).get(key), self.refusals()
        caller = self.life.attend(ask)
        assert caller is not None
        self.life.settle()
        new = [e for e in self.recorded[len(before) :] if isinstance(e, InputQueued)]
        if caller.code in refusals - {""}:
            assert not new
        elif known is not None and known.content != text:
            assert not new and caller.code == "input-conflict"
        else:
            assert "" in refusals, f"accepted, and not refused with one of {refusals}"
            self.accepted(caller, new, known, text, key)

    def accepted(
        self, caller: Caller, new: list[InputQueued], known: InputQueued | None, *asked: str
    ) -> None:
        """The input is there once, whether it was before or not."""
        if known is None:
            assert [(each.content, each.key) for each in new] == [asked]
            assert caller.input_id == new[0].input_id
        else:
            assert not new and caller.input_id == known.input_id

    def refusals(self) -> set[str]:
        """The codes with which an input may be refused now; "" where it may be accepted."""
        return {""}

    @rule(which=WHICH, steers=st.booleans())
    def join(self, which: int, steers: bool) -> None:
        if (caller := self.caller(which)) is not None:
            send = caller.turn.steer if steers else caller.turn.enqueue
            text = self.new_text()
            self.asked_with(text, "", lambda: send(text))

    @rule()
    def send_what_the_turn_began_with(self) -> None:
        self.life.settle()
        if (turn := self.state.turn) is not None:
            content = turn.inputs[0].content
            self.life.attend(lambda: self.life.session.send(content))

    @rule()
    def resume(self) -> None:
        self.life.settle()
        nothing = self.state.turn is None and not self.state.queued
        assert (self.life.attend(self.life.session.resume) is None) == nothing

    @rule()
    def resume_all(self) -> None:
        self.life.settle()
        stands = self.state.status == "aborted" or self.refusals() == {"session-awaiting-approval"}
        turns = self.life.system.resume_all()
        assert not (stands and turns)
        for turn in turns:
            self.life.attend(lambda turn=turn: turn)

    @rule(which=WHICH)
    def withdraw(self, which: int) -> None:
        if (caller := self.caller(which)) is not None:
            self.answered(lambda: self.life.ask(caller.turn.withdraw(), "withdraw", caller))

    @rule(which=WHICH, how=st.sampled_from(["drop", "keep", "discard"]))
    def stop(self, which: int, how: str) -> None:
        if how == "discard":
            self.answered(lambda: self.life.ask(self.life.session.discard_pending(), "discard"))
        elif (caller := self.caller(which)) is not None:
            abort = caller.turn.abort
            self.answered(lambda: self.life.ask(abort(keep=how == "keep"), "abort", caller))

    def answered(self, ask: Callable[[], list[Any]]) -> None:
        """Where the answer is no, nothing happened."""
        self.life.settle()
        before, stands_still = self.recorded, not self.ticks()
        answer = ask()
        self.life.settle()
        if answer != [True] and stands_still:
            assert self.recorded == before, answer

    def ticks(self) -> bool:
        """Whether something is about to happen if somebody looks: a question is no longer waited
        for, or was decided on elsewhere."""
        turn = self.state.turn
        if self.life.elsewhere:
            return True
        return turn is not None and turn.next_expiry is not None

    # Model and tools

    @rule()
    def model_shows_something(self) -> None:
        if (puppet := self.life.puppet(Asked)) is not None:
            assert self.life.stage.show(puppet).wait(WAIT)

    @rule(calls=CALLS)
    def model_answers(self, calls: Calls) -> None:
        self.life.pull(Asked, 0, answer(calls))

    @rule(breaks_off=st.booleans(), behind=st.lists(POLICIES, max_size=2))
    def model_fails(self, breaks_off: bool, behind: list[Policy]) -> None:
        """When it has shown something, and there are inputs that wait for its answer."""
        if behind:
            self.model_shows_something()
        for policy in behind:
            self.send(policy)
        self.life.pull(Asked, 0, Break(None if breaks_off else ConnectionError("reset")))

    @rule(which=WHICH, fails=st.booleans())
    def tool_ends(self, which: int, fails: bool) -> None:
        if (puppet := self.life.puppet(Ran, which)) is not None:
            assert isinstance(puppet.call, Ran)
            self.seen.append(Returned(puppet.call.turn_id, puppet.call.call_id))
            order = Break(ValueError("no")) if fails else Answer("done")
            self.life.stage.let_go(puppet, order)

    @rule(work=WORK)
    def work_goes_on(self, work: Work) -> None:
        """Tools return, and the model is asked what comes next."""
        self.life.settle()
        if self.state.turn is None:
            self.send("wait")
            self.life.settle()
        for which, calls in work:
            self.tool_ends(which, fails=False)
            self.life.settle()
            self.model_answers(calls)
            self.life.settle()

    @rule(work=WORK)
    def more_work_goes_on(self, work: Work) -> None:
        """The same: it is most of what a session does."""
        self.work_goes_on(work)

    @rule()
    def calls_nobody_wants_any_more_end(self) -> None:
        for each in self.life.unwanted():
            self.life.stage.let_go(each, Answer("too late"))

    # Many things at once, and the process

    @rule(burst=BURSTS, writing=WRITING)
    def much_at_once(self, burst: list[tuple[str, int]], writing: str) -> None:
        """Nobody waits for anything in between, and what happens may not be written."""
        self.life.settle()
        if writing != "goes on":
            self.life.store.hold()
        for what, which in burst:
            self.do(what, which)
        if writing in ("is lost", "is done unseen"):
            self.another_process("dies", lost=writing == "is lost")
        elif writing == "is held up":
            self.audience.settle()
            judge_witnesses(self.recorded, list(self.seen))
            self.life.store.release()

    def do(self, what: str, which: int) -> None:
        life, caller = self.life, self.caller(which)
        match what:
            case "wait" | "queue" | "steer":
                text = self.new_text()
                life.attend(lambda: life.session.send(text, policy=what))
            case "change":
                life.ask(life.session.set_state(which), "change")
            case "withdraw" if caller is not None:
                life.ask(caller.turn.withdraw(), "withdraw", caller)
            case "abort" | "stop" if caller is not None:
                life.ask(caller.turn.abort(keep=what == "stop"), "abort", caller)
            case "discard":
                life.ask(life.session.discard_pending(), "discard")
            case "resume":
                life.attend(life.session.resume)
            case "go on":
                self.life.pull(Asked, 0, answer([("work", "c")]))
                self.life.pull(Ran, which, Answer("done"))

    @rule(end=ENDS, lost=st.booleans())
    def another_process(self, end: str, lost: bool) -> None:
        """The process ends in one of several ways, and another one comes."""
        life = self.life
        match end:
            case "dies":
                life.store.cut(lost=lost)
                life.end(0)
            case "is drained":
                assert life.end(WAIT), "not clean"
            case "is closed at once":
                life.wake_what_can_not_be_stopped()
                life.system.close(0)
        self.life = self.be_born()
        if end == "is taken over":
            self.life.attend(self.life.session.resume)
            self.life.settle()
            before, lost_it = self.recorded, self.is_taken_over()
            life.end(WAIT)
            assert self.recorded == before or not lost_it, "written by a node that lost the turn"
        self.bury(life)

    def is_taken_over(self) -> bool:
        """Whether nothing goes on but in the process that lives."""
        turn = self.state.turn
        if turn is None or turn.is_paused or turn.halt is not None:
            return True
        return turn.owner.generation == self.life.store.generation

    def bury(self, life: Life) -> None:
        """Everybody who waited for the process was told something."""
        with self.moved:
            told = lambda: all(each.outcome is not None for each in life.callers)  # noqa: E731
            assert self.moved.wait_for(told, WAIT), "somebody waits for a dead process"
            assert self.moved.wait_for(lambda: all(life.answers), WAIT), "a request hangs"
        self.gone += life.callers

    # The end

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None and hasattr(self, "life"):
                self.come_to_the_end()
        finally:
            if hasattr(self, "life"):
                self.life.store.cut(lost=True)
                self.life.end(0)
            self.audience.close()
            self.kept.close()

    def come_to_the_end(self) -> None:
        """Answer everything: then nothing is unfinished, and everybody was told."""
        self.life.come_to_the_end()
        self.the_guarantees_hold()
        recorded = self.recorded
        assert all(each.outcome is not None for each in self.life.callers)
        returned = [(e.turn_id, e.call_id) for e in self.seen if isinstance(e, Returned)]
        results_are_in_order(recorded, returned)
        every_split_folds_alike(recorded)
        assert audit_session(self.kept, SESSION).findings == []
        for each in [*self.gone, *self.life.callers]:
            assert [item.type for item in each.items].count("turn.done") == 1
            assert each.items[-1].type == "turn.done"
