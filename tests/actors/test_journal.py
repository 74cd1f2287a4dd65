"""Journals: functions in durable steps, run by run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepping import AT, WAIT, place, recorded_run, steps

from turnstream import ActorSystem, Agent, Journal, JournalRun
from turnstream.actors import audit_store
from turnstream.actors.erasure import erase_content
from turnstream.actors.testing import ScriptedModel
from turnstream.events import (
    CODEC,
    EncodedEvent,
    ErasureRefused,
    InvalidAgent,
    InvalidSessionId,
    SessionExists,
    SessionStarted,
    StepConflict,
    StepRefused,
    StoredRecord,
    SystemClosed,
    UnknownAgent,
    Unstorable,
)
from turnstream.events.identifiers import JOURNAL
from turnstream.stores import Append, MemoryStore, RowChange, open_store


class Till:
    """Follows a plan of names and keys, and keeps what was really done. ``nested`` names of the
    plan are runs in which the rest is taken."""

    def __init__(self, *plan: str) -> None:
        self.plan = plan
        self.done: list[str] = []

    def act(self, name: str) -> str:
        self.done.append(name)
        return name.upper()

    def work(self, run: JournalRun) -> list[Any]:
        return self.walk(run, list(self.plan))

    def walk(self, run: JournalRun, plan: Sequence[str]) -> list[Any]:
        values: list[Any] = []
        for place_, name in enumerate(plan):
            if name == "(":
                return [*values, run.run("inner", self.walk, list(plan[place_ + 1 :]))]
            key = f"{name}{place_}" if name == "keyed" else None
            values.append(run.step(name, self.act, name, idempotency_key=key))
        return values


plans = st.lists(st.sampled_from(["hold", "charge", "keyed", "("]), max_size=6)


@settings(max_examples=40, deadline=None)
@given(plans)
def test_wherever_a_process_is_lost_what_was_recorded_is_not_done_again(plan: list[str]) -> None:
    till = Till(*plan)
    lived, result = recorded_run(till.work)
    whole = till.done[:]
    for length in range(2, len(lived)):
        till.done.clear()
        store = store_with(lived[:length])
        with Journal(store, lease=0) as journal:
            assert journal.run("r", till.work) == result
        acted = sum(each.topic == "step_recorded" for each in lived[:length])
        acted -= sum(each.name == "inner" for each in steps(lived[:length]))
        assert till.done == whole[acted:]
        assert steps(store.read("r")) == steps(lived)
        assert findings(store) == []


def store_with(records: Sequence[StoredRecord]) -> MemoryStore:
    store = MemoryStore()
    encoded = tuple(EncodedEvent(each.topic, each.payload) for each in records)
    status = "idle" if records[-1].topic == "turn_finished" else "running"
    began = CODEC.recorded(records[0]).event
    assert isinstance(began, SessionStarted)
    store.append(Append("r", 0, encoded, RowChange(status, JOURNAL, began.at)))
    return store


def findings(store: Any) -> list[Any]:
    return [finding for audited in audit_store(store) for finding in audited.findings]


def test_an_ended_run_is_replayed_by_resume_and_begun_anew_by_run(address: str) -> None:
    store, till = open_store(address), Till("hold", "charge")
    with Journal(store) as journal:
        assert journal.resume("r", till.work) == ["HOLD", "CHARGE"]
        assert journal.resume("r", till.work) == ["HOLD", "CHARGE"]
        assert till.done == ["hold", "charge"]
        assert journal.run("r", till.work) == ["HOLD", "CHARGE"]
    assert till.done == ["hold", "charge"] * 2
    with Journal(store) as journal:
        assert journal.resume("r", till.work) == ["HOLD", "CHARGE"]
        assert [(each.session_id, each.status) for each in journal.runs()] == [("r", "idle")]
    assert till.done == ["hold", "charge"] * 2
    assert findings(store) == []
    store.close()


def test_each_epoch_has_a_number_and_a_key_that_a_crash_does_not_change() -> None:
    seen: list[tuple[int, str]] = []

    def work(run: JournalRun, fails: list[bool]) -> None:
        seen.append((run.epoch, run.idempotency_key))
        run.run("inner", lambda inner: seen.append((inner.epoch, inner.idempotency_key)))
        if crashes.pop():
            raise ConnectionError

    crashes = [False, False, True]
    with Journal("memory://") as journal:
        with pytest.raises(ConnectionError):
            journal.run("r", work, [])
        journal.run("r", work, [])
        journal.run("r", work, [])
    assert [epoch for epoch, _ in seen] == [1, 1, 1, 2, 2]
    assert len({key for _, key in seen}) == 4 and seen[0] == seen[2]


def test_a_run_that_raised_stays_open_and_is_gone_on_with() -> None:
    till, fails = Till("hold", "charge"), [True]

    def work(run: JournalRun, amount: int) -> Any:
        values = till.work(run)
        if fails.pop():
            fails.append(False)
            raise ConnectionError("the bank, with its password")
        return [amount, *values]

    store = MemoryStore()
    with Journal(store) as journal:
        with pytest.raises(ConnectionError):
            journal.run("r", work, 7)
        assert [each.status for each in journal.runs("failed")] == ["failed"]
        assert b"password" not in b"".join(each.payload for each in store.read("r"))
        assert journal.run("r", work, 7) == [7, "HOLD", "CHARGE"]
    assert till.done == ["hold", "charge"]


def test_an_open_run_is_gone_on_with_by_the_same_arguments_or_abandoned() -> None:
    till = Till("hold")

    def work(run: JournalRun, amount: int, *, fails: bool = False) -> Any:
        till.work(run)
        if amount == 1:
            raise ConnectionError
        return amount

    store = MemoryStore()
    with Journal(store) as journal:
        with pytest.raises(ConnectionError):
            journal.run("r", work, 1)
        before = store.read("r")
        for other in (journal.run, journal.resume):
            with pytest.raises(StepConflict, match="other arguments") as caught:
                other("r", work, 2)
            assert caught.value.session_id == "r"
        assert store.read("r") == before and till.done == ["hold"]
        assert journal.abandon("r") and not journal.abandon("r") and not journal.abandon("new")
        assert journal.resume("r", work, 2) == 2
    assert till.done == ["hold", "hold"]
    assert findings(store) == []


def test_after_an_abandoned_epoch_the_result_of_an_older_one_is_not_replayed() -> None:
    def work(run: JournalRun, amount: int) -> int:
        if amount == 2:
            raise ConnectionError
        return amount

    with Journal("memory://") as journal:
        assert journal.run("r", work, 1) == 1
        with pytest.raises(ConnectionError):
            journal.run("r", work, 2)
        journal.abandon("r")
        assert journal.resume("r", work, 3) == 3


def test_steps_of_a_run_follow_the_rules_of_all_durable_steps() -> None:
    errors: list[Exception] = []

    def work(run: JournalRun) -> None:
        run.step("s", lambda: 1, idempotency_key="k")
        attempts: list[Callable[[], Any]] = [
            lambda: run.step("s", lambda x: x, 2, idempotency_key="k"),
            lambda: run.step("outer", lambda: run.step("inner", lambda: 1)),
            lambda: run.step("outer", lambda: run.run("inner", lambda inner: 1)),
            lambda: run.step("s", object),
            lambda: run.step("s", print, object()),
            lambda: run.run("inner", print, object()),
        ]
        for attempt in attempts:
            try:
                attempt()
            except Exception as error:
                errors.append(error)

    records, _ = recorded_run(work)
    kinds = [StepConflict, StepRefused, StepRefused, Unstorable, Unstorable, Unstorable]
    assert [type(each) for each in errors] == kinds
    assert [each.key for each in steps(records)] == ["k"]


def test_streams_are_recorded_when_they_end_and_replayed() -> None:
    made: list[int] = []
    crash = [False, True]

    def numbers(upto: int) -> Any:
        for each in range(upto):
            made.append(each)
            yield each

    def work(run: JournalRun) -> list[int]:
        found = [*run.step_stream("numbers", numbers, 3)]
        if crash.pop():
            raise ConnectionError
        return found

    with Journal("memory://") as journal:
        with pytest.raises(ConnectionError):
            journal.run("r", work)
        assert journal.run("r", work) == [0, 1, 2]
    assert made == [0, 1, 2]


def test_a_result_that_cant_be_stored_leaves_the_run_open_with_its_steps() -> None:
    till, results = Till("hold"), [(1, 2), object()]

    def work(run: JournalRun) -> Any:
        till.work(run)
        return results.pop()

    with Journal("memory://") as journal:
        with pytest.raises(Unstorable) as caught:
            journal.run("r", work)
        assert caught.value.path == "result"
        assert journal.run("r", work) == journal.resume("r", work) == [1, 2]
    assert till.done == ["hold"]


def test_what_cant_be_told_again_is_refused_before_anything_is_run() -> None:
    store, till = MemoryStore(), Till("hold")
    with Journal(store) as journal:
        with pytest.raises(Unstorable):
            journal.run("r", lambda run, x: till.work(run), object())
        with pytest.raises(InvalidSessionId):
            journal.run("", till.work)
    assert till.done == [] and not store.stream_ids()


def test_a_step_after_the_end_of_its_run_is_refused() -> None:
    kept: list[JournalRun] = []
    done: list[int] = []
    with Journal("memory://") as journal:
        journal.run("r", kept.append)
        with pytest.raises(StepRefused, match="it is over"):
            kept[0].step("late", done.append, 1)
    assert done == []


def test_runs_and_sessions_do_not_take_each_other_for_their_own() -> None:
    store, till = MemoryStore(), Till("hold")
    agent = Agent("agent", model=ScriptedModel(["hi"]))
    fails = [True]

    def work(run: JournalRun) -> Any:
        if fails.pop():
            raise ConnectionError
        return till.work(run)

    with ActorSystem(agent, store=store) as system, Journal(store) as journal:
        system.session("s").send("go").result(WAIT)
        with pytest.raises(SessionExists):
            journal.run("s", till.work)
        with pytest.raises(SessionExists):
            journal.abandon("s")
        with pytest.raises(ConnectionError):
            journal.run("r", work)
        with pytest.raises(UnknownAgent, match="journal"):
            system.session("r").send("go").result(WAIT)
        assert system.resume_all() == []
        assert till.done == []
    with pytest.raises(InvalidAgent):
        Agent(JOURNAL, model=ScriptedModel(["hi"]))


def test_what_an_open_run_needs_is_not_erased_and_an_older_epoch_can_be_meanwhile() -> None:
    store, till, refused = MemoryStore(), Till("hold"), list[int]()

    def work(run: JournalRun) -> Any:
        values = till.work(run)
        records = store.read("r")
        held = [each.version for each in records if each.topic == "step_recorded"]
        if len(held) > 1:
            with pytest.raises(ErasureRefused):
                erase_content(store, "r", [held[-1]], AT)
            erase_content(store, "r", [held[0]], AT)
            refused.append(held[-1])
        return [*values, run.step("after", till.act, "after")]

    with Journal(store) as journal:
        for _ in range(2):
            assert journal.run("r", work) == ["HOLD", "AFTER"]
    assert len(refused) == 1
    assert findings(store) == []


def test_after_close_nothing_is_run() -> None:
    till = Till("hold")
    journal = Journal(MemoryStore())
    journal.close()
    journal.close()
    with pytest.raises(SystemClosed):
        journal.run("r", till.work)
    assert till.done == []


@pytest.mark.parametrize("options", [{"wait": -1}, {"lease": "10"}, {"wait": None}])
def test_times_are_numbers_of_seconds(options: Any) -> None:
    with pytest.raises(ValueError, match="seconds"):
        Journal(MemoryStore(), **options)


def test_events_of_a_run_are_in_the_order_of_what_happened() -> None:
    records, _ = recorded_run(Till("hold", "charge").work)
    topics = [each.topic for each in records]
    assert topics[:2] == ["session_started", "turn_started"]
    assert topics[2:] == ["step_recorded", "step_recorded", "turn_finished"]
    assert all(a.version + 1 == b.version for a, b in pairwise(records))
    assert place(records, "turn_finished") == len(records)
