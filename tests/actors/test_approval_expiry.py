"""Questions that are not waited for for ever."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from typing import Any

import msgspec
import pytest

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, Tool, tool
from turnstream.actors.testing import call
from turnstream.events import (
    CODEC,
    ApprovalDecided,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    InvalidAgent,
    ModelTurn,
    SessionAwaitingApproval,
    ToolMessage,
    ToolResultRecorded,
    UserMessage,
)
from turnstream.projections import fold
from turnstream.stores import Append, EventStore, RowChange, open_store

WAIT = 20
SOON = 0.02
FIRST = "s/turn-1.1.1"
Run = Callable[..., ActorSystem]

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


def removing(seconds: float | None, on_expiry: Any = "reject", name: str = "remove") -> Tool:
    def remove(path: str) -> str:
        """Remove."""
        ran.append(path)
        return path

    return tool(name=name, needs_approval=True, approval_timeout=seconds, on_expiry=on_expiry)(
        remove
    )


class Obedient:
    """A model that removes each of the letters that it was told, and then says that it is done;
    and a queue of the sessions that came so far. Told "more", it is done at once."""

    id = "obedient"

    def __init__(self) -> None:
        self.finished: SimpleQueue[str] = SimpleQueue()

    def __call__(self, request: ModelRequest) -> ModelTurn:
        last = request.messages[-1]
        if isinstance(last, UserMessage) and last.content != "more":
            calls = [call("remove", each, path=each) for each in str(last.content)]
            return ModelTurn(tool_calls=tuple(calls))
        self.finished.put(request.session_id)
        return ModelTurn("done")

    def finishes(self) -> str:
        """The next session whose calls all have their results."""
        try:
            return self.finished.get(timeout=WAIT)
        except Empty:
            pytest.fail("the turn did not go on")


@pytest.fixture
def model() -> Obedient:
    return Obedient()


def facts(session: Session, kind: type[Any]) -> list[Any]:
    return [each.event for each in session.events() if isinstance(each.event, kind)]


def check_expired(session: Session) -> None:
    assert [each.reason for each in facts(session, ApprovalWithdrawn)] == ["expired"]
    (result,) = facts(session, ToolResultRecorded)
    assert (result.outcome, result.content["error"]) == ("rejected", "expired")
    assert facts(session, ApprovalResolved) == [] and ran == []


def plant(
    place: EventStore | str, model: Any, expires_at: datetime, on_expiry: Any, told: str = "a"
) -> None:
    """Write the stream of a session whose last question expires then."""
    agent = Agent("agent", model=model, tools=[removing(1000.0, on_expiry)])
    with ActorSystem(agent) as system:
        system.session("s").send(told).result(WAIT)
        events: list[Any] = [each.event for each in system.session("s").events()]
    assert isinstance(events[-1], ApprovalRequested) and events[-1].expires_at is not None
    events[-1] = msgspec.structs.replace(events[-1], expires_at=expires_at)
    encoded, _ = CODEC.chained([msgspec.structs.replace(each, prev="") for each in events])
    state = fold(events)
    row = RowChange(state.status, "agent", events[-1].at, "", state.approvals("s"))
    store = open_store(place) if isinstance(place, str) else place
    store.append(Append("s", 0, tuple(encoded), row))
    if isinstance(place, str):
        store.close()


def long_ago() -> datetime:
    return datetime.now(UTC) - timedelta(seconds=1)


def test_a_question_nobody_answers_in_time_rejects_its_call_and_the_turn_goes_on(
    run: Run, model: Obedient
) -> None:
    session = run([], model=model, tools=[removing(SOON)]).session("s")
    session.send("a").result(WAIT)
    model.finishes()

    check_expired(session)
    (asked,), (withdrawn,) = facts(session, ApprovalRequested), facts(session, ApprovalWithdrawn)
    assert asked.expires_at == asked.at + timedelta(seconds=SOON) <= withdrawn.at


def test_of_many_questions_none_is_forgotten(run: Run, model: Obedient) -> None:
    system = run([], model=model, tools=[removing(SOON)])
    sessions = {f"s{n}" for n in range(200)}
    for each in sessions:
        system.session(each).send("a")

    assert {model.finishes() for _ in sessions} == sessions and ran == []


def test_a_question_expires_while_a_sibling_runs_and_the_turn_never_pauses(
    run: Run, held: Any
) -> None:
    calls = [call("held", "1", text="x"), call("remove", "a", path="a")]
    system = run([calls, "done"], tools=[*held.tools, removing(SOON)])
    turn = system.session("s").send("go")
    held.begun("x")
    with system.subscribe() as log:
        next(each for each in log if isinstance(each.event, ApprovalWithdrawn))
    assert not turn.done()
    held.let("x")

    assert turn.result(WAIT).text == "done" and ran == []


def test_only_the_question_whose_time_is_over_expires(run: Run) -> None:
    times = {"soon": SOON, "later": 1000.0, "never": None}
    calls = [call(name, letter, path=letter) for name, letter in zip(times, "abc", strict=True)]
    tools = [removing(seconds, name=name) for name, seconds in times.items()]
    system = run([calls, "done"], tools=tools)
    assert len(system.session("s").send("go").result(WAIT).approvals) == 3
    with system.subscribe() as log:
        next(each for each in log if isinstance(each.event, ApprovalWithdrawn))

    assert [each.call_id for each in system.approvals()] == ["b", "c"]
    system.approve("s/turn-1.1.2").result(WAIT)
    assert system.reject("s/turn-1.1.3").result(WAIT).text == "done" and ran == ["b"]


def test_one_call_at_a_time_the_next_is_asked_about_when_the_first_expires(
    run: Run, model: Obedient
) -> None:
    session = run([], model=model, tools=[removing(SOON)], tool_concurrency=1).session("s")
    session.send("abc").result(WAIT)
    model.finishes()

    asked, gone = facts(session, ApprovalRequested), facts(session, ApprovalWithdrawn)
    assert [each.call_id for each in asked] == ["a", "b", "c"] and len(gone) == 3
    assert all(later.at >= before.at for before, later in zip(gone, asked[1:], strict=False))


def test_a_question_expires_although_its_actor_was_put_away(run: Run, model: Obedient) -> None:
    session = run([], model=model, tools=[removing(0.3)], idle_timeout=0.01).session("s")
    session.send("a").result(WAIT)
    model.finishes()
    check_expired(session)


WAKING: dict[str, Callable[[ActorSystem], object]] = {
    "send": lambda system: system.session("s").send("more").accepted().result(WAIT),
    "execute": lambda system: system.session("s").execute("more").accepted().result(WAIT),
    "resume": lambda system: system.session("s").resume().result(WAIT),  # type: ignore[union-attr]
    "resume all": lambda system: [each.result(WAIT) for each in system.resume_all()],
}


@pytest.mark.parametrize("wake", WAKING.values(), ids=list(WAKING))
def test_a_question_whose_time_was_over_meanwhile_expires_when_the_session_is_used(
    run: Run, place: EventStore | str, model: Obedient, wake: Callable[[ActorSystem], object]
) -> None:
    plant(place, model, long_ago(), "reject")
    system = run([], model=model, tools=[removing(1000.0)], on=place)
    wake(system)
    model.finishes()

    check_expired(system.session("s"))


def test_a_question_that_stands_holds_the_session_although_the_one_beside_it_is_overdue(
    run: Run, place: EventStore | str, model: Obedient
) -> None:
    plant(place, model, long_ago(), "reject", told="ab")
    system = run([], model=model, tools=[removing(1000.0)], on=place)
    with pytest.raises(SessionAwaitingApproval) as refused:
        system.session("s").send("more").result(WAIT)
    assert refused.value.approval_ids == (FIRST,)
    assert system.resume_all() == []

    result = system.approve(FIRST).result(WAIT)
    outcomes = [each.outcome for each in result.messages if isinstance(each, ToolMessage)]
    assert outcomes == ["ok", "rejected"] and ran == ["a"]


def test_looking_at_an_overdue_question_decides_nothing(
    run: Run, place: EventStore | str, model: Obedient
) -> None:
    plant(place, model, long_ago(), "reject")
    session = run([], model=model, tools=[removing(1000.0)], on=place).session("s")
    before = session.version
    (waiting,) = session.pending().approvals  # type: ignore[union-attr]

    assert waiting.is_over(datetime.now(UTC)) and session.status == "awaiting-approval"
    assert session.version == before and model.finished.empty()


@pytest.mark.parametrize("how", ["approve", "reject"])
def test_a_decision_that_comes_too_late_is_none(
    run: Run, place: EventStore | str, model: Obedient, how: str
) -> None:
    plant(place, model, long_ago(), "reject")
    system = run([], model=model, tools=[removing(1000.0)], on=place)
    for _ in range(2):
        with pytest.raises(ApprovalDecided) as late:
            getattr(system, how)(FIRST, by="me").result(WAIT)
        assert late.value.decision == "expired"
        if resumed := system.session("s").resume():
            assert resumed.result(WAIT).text == "done"
    check_expired(system.session("s"))


def test_a_session_that_is_opened_before_the_time_is_over_expires_by_itself(
    run: Run, place: EventStore | str, model: Obedient
) -> None:
    plant(place, model, datetime.now(UTC) + timedelta(seconds=0.3), "reject")
    system = run([], model=model, tools=[removing(1000.0)], on=place)
    with suppress(SessionAwaitingApproval):
        system.session("s").resume().accepted().result(WAIT)  # type: ignore[union-attr]
    model.finishes()
    check_expired(system.session("s"))


def test_a_question_that_is_kept_is_overdue_and_goes_on_waiting(
    run: Run, place: EventStore | str, model: Obedient
) -> None:
    plant(place, model, long_ago(), "keep")
    system = run([], model=model, tools=[removing(1000.0, "keep")], on=place)
    session = system.session("s")
    before = session.version
    (overdue,) = system.approvals()

    assert overdue.expires_at is not None and overdue.expires_at < datetime.now(UTC)
    assert list(system.resume_all()) == []
    for use in (session.send, session.execute):
        with pytest.raises(SessionAwaitingApproval):
            use("more").result(WAIT)
    assert session.version == before
    assert system.approve(FIRST).result(WAIT).text == "done" and ran == ["a"]


@pytest.mark.slow
def test_a_decision_against_the_clock_is_taken_or_comes_too_late(
    run: Run, model: Obedient, switching_often: None
) -> None:
    system, late, in_time = run([], model=model, tools=[removing(SOON)]), 0, 0
    for n in range(60):
        session = system.session(f"s{n}")
        (question,) = session.send("a").result(WAIT).approvals
        assert question.expires_at is not None
        moment = question.expires_at - timedelta(microseconds=2000 - 100 * (n % 40))
        while datetime.now(UTC) < moment:
            pass
        ran.clear()
        turn = session.approve(question.id)
        try:
            turn.result(WAIT)
        except ApprovalDecided:
            late += 1
            assert model.finishes() == session.id, "by itself"
            check_expired(session)
        else:
            in_time += 1
            assert ran == ["a"] and len(facts(session, ApprovalResolved)) == 1
            assert model.finishes() == session.id
    assert late and in_time, "and it was a race"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 1e12, float("inf")])
def test_a_time_out_that_no_clock_can_tell_is_refused_when_it_is_declared(seconds: float) -> None:
    with pytest.raises(InvalidAgent, match="approval_timeout"):
        removing(seconds)


def test_an_unknown_way_to_expire_is_refused_when_it_is_declared() -> None:
    with pytest.raises(InvalidAgent, match="on_expiry"):
        removing(1.0, "approve")
