"""What a turn may use: counted from what is recorded, so that nothing gives it more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, TurnResult, tool
from turnstream.actors.commands import Resume, Stamp
from turnstream.actors.decider import decide
from turnstream.actors.ready import ReadyAgent
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    ApprovalRequested,
    ApprovalResolved,
    Budget,
    EncodedEvent,
    InvalidAgent,
    ModelCallDiscarded,
    ModelFailed,
    ModelTurn,
    ModelTurnRecorded,
    Owner,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    Usage,
)
from turnstream.projections import check_transcript, fold
from turnstream.stores import Append, MemoryStore, RowChange, open_store

WAIT = 20
AT = datetime(2026, 1, 1, tzinfo=UTC)
USED = Usage(150, 50)


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def asks(*calls: ToolCall) -> ModelTurn:
    return ModelTurn(tool_calls=calls, usage=USED)


def sums(count: int) -> ModelTurn:
    return asks(*[call("add", a=n, b=0) for n in range(count)])


def endless(request: ModelRequest) -> ModelTurn:
    """Asks for two more sums, again and again. Each time it uses 200 tokens."""
    check_transcript(request.messages)
    return sums(2)


def outcomes(result: TurnResult) -> list[str]:
    return [each.outcome for each in result.new_messages if isinstance(each, ToolMessage)]


def resumed(session: Session) -> TurnResult:
    turn = session.resume()
    assert turn is not None
    return turn.result(WAIT)


Start = Callable[..., ActorSystem]


@pytest.fixture
def start(store: str) -> Iterator[Start]:
    """Start a system on an agent with this model and these limits."""
    systems: list[ActorSystem] = []

    def begin(model: Any, **options: Any) -> ActorSystem:
        on = options.pop("on", store)
        model = ScriptedModel(model) if isinstance(model, list) else model
        agent = Agent("agent", model=model, tools=[add, pay], **options)
        systems.append(ActorSystem(agent, store=on, on_failure="keep"))
        return systems[-1]

    yield begin
    for system in systems:
        system.close()


LIMITS: list[tuple[dict[str, Any], str, int]] = [
    ({"max_steps": 2}, "max-steps", 2),
    ({"max_steps": 3}, "max-steps", 3),
    ({"token_budget": 399}, "budget", 2),
    ({"token_budget": 400}, "budget", 2),
    ({"token_budget": 401}, "budget", 3),
    ({"tool_call_budget": 3}, "budget", 2),
    ({"tool_call_budget": 4}, "budget", 3),
    ({"session_token_budget": 400}, "budget", 2),
    ({"session_token_budget": 401}, "budget", 3),
    ({"time_budget": 1e-9}, "budget", 1),
]
COUNTED = [each for each in LIMITS if "time_budget" not in each[0]]
OF_A_TURN = [each for each in LIMITS if "session_token_budget" not in each[0]]
PARAMETERS = ("limit", "reason", "steps")


@pytest.mark.parametrize(PARAMETERS, LIMITS)
def test_at_its_limit_a_turn_ends_with_every_call_answered(
    start: Start, limit: dict[str, Any], reason: str, steps: int
) -> None:
    result = start(endless, **limit).session("s").send("go").result(WAIT)

    check_transcript(result.messages)
    assert (result.finish_reason, result.steps) == (reason, steps)
    assert len(outcomes(result)) == 2 * steps
    assert result.usage == Usage(150 * steps, 50 * steps)


@pytest.mark.parametrize(
    "limit", [{"max_steps": 3}, {"token_budget": 401}, {"tool_call_budget": 4}, {"time_budget": 60}]
)
def test_a_turn_within_its_limit_ends_with_its_answer(start: Start, limit: dict[str, Any]) -> None:
    script = [sums(2), sums(2), ModelTurn("done", usage=USED)]
    result = start(script, **limit).session("s").send("go").result(WAIT)

    assert (result.finish_reason, result.text) == ("stop", "done")
    assert outcomes(result) == ["ok"] * 4


@pytest.mark.parametrize("sizes", [(5,), (2, 3), (3, 2), (1, 1, 3)])
def test_the_calls_beyond_the_budget_are_skipped(start: Start, sizes: tuple[int, ...]) -> None:
    model = ScriptedModel([sums(size) for size in sizes])
    result = start(model, tool_call_budget=3).session("s").send("go").result(WAIT)

    assert result.finish_reason == "budget"
    assert outcomes(result) == ["ok"] * 3 + ["skipped"] * 2
    assert "budget" in str(getattr(result.messages[-1], "content", ""))


def test_nobody_is_asked_about_a_call_beyond_the_budget(start: Start) -> None:
    calls = [call("pay", amount=n) for n in (1, 2)]
    system = start([asks(*calls)], tool_call_budget=1)
    paused = system.session("s").send("go").result(WAIT)
    assert [each.arguments for each in paused.approvals] == [{"amount": 1}]
    result = system.approve(paused.approvals[0].id).result(WAIT)

    assert (result.finish_reason, outcomes(result)) == ("budget", ["ok", "skipped"])


@pytest.mark.parametrize(PARAMETERS, COUNTED)
def test_no_crash_gives_a_turn_more_than_its_limit(
    start: Start, limit: dict[str, Any], reason: str, steps: int
) -> None:
    """Whatever prefix of the stream a lost process left, the resumed turn ends as if it had not
    been lost."""
    with closing(MemoryStore()) as whole:
        start(endless, on=whole, **limit).session("s").send("go").result(WAIT)
        records = whole.read("s")
    begun = next(n for n, each in enumerate(records, 1) if each.topic == "turn_started")

    for count in range(begun, len(records)):
        with closing(MemoryStore()) as store:
            copy(records[:count], store)
            session = start(endless, on=store, **limit).session("s")
            result = resumed(session)
            assert (result.finish_reason, result.steps) == (reason, steps)
            assert len(outcomes(result)) == 2 * steps
            assert session.usage == Usage(150 * steps, 50 * steps)


def copy(records: Any, store: MemoryStore) -> None:
    encoded = tuple(EncodedEvent(each.topic, each.payload) for each in records)
    store.append(Append("s", 0, encoded, RowChange("running", "agent", AT)))


@pytest.mark.parametrize(PARAMETERS, [each for each in COUNTED if each[2] == 2])
def test_no_decision_gives_a_turn_more_than_its_limit(
    start: Start, limit: dict[str, Any], reason: str, steps: int
) -> None:
    model = ScriptedModel([asks(call("pay", amount=1)), sums(3)])
    system = start(model, **limit)
    (approval,) = system.session("s").send("go").result(WAIT).approvals
    result = system.approve(approval.id).result(WAIT)

    assert (result.finish_reason, result.steps, len(model.requests)) == (reason, steps, steps)


@pytest.mark.parametrize(PARAMETERS, COUNTED)
def test_no_failure_gives_a_turn_more_than_its_limit(
    start: Start, limit: dict[str, Any], reason: str, steps: int
) -> None:
    asked = []

    def unsteady(request: ModelRequest) -> ModelTurn:
        asked.append(request.step)
        if asked.count(request.step) == 1:
            raise ConnectionError("down")
        return endless(request)

    session = start(unsteady, **limit).session("s")
    with pytest.raises(ModelFailed):
        session.send("go").result(WAIT)
    for _ in range(steps - 1):
        with pytest.raises(ModelFailed):
            resumed(session)
    result = resumed(session)

    assert (result.finish_reason, result.steps) == (reason, steps)
    assert asked == [step for step in range(1, steps + 1) for _ in "ab"]


def test_a_turn_keeps_the_limit_it_began_with(start: Start) -> None:
    with closing(open_store("memory://")) as shared:
        script = [sums(2), ConnectionError("down")]
        with pytest.raises(ModelFailed):
            start(script, on=shared, tool_call_budget=3).session("s").send("go").result(WAIT)
        other = start(endless, on=shared, tool_call_budget=100, max_steps=9).session("s")
        result = resumed(other)
        assert (result.finish_reason, result.steps) == ("budget", 2)
        assert other.send("go on").result(WAIT).steps == 9


@pytest.mark.parametrize(PARAMETERS, OF_A_TURN)
def test_an_ended_turn_is_not_resumed_and_a_later_one_has_a_budget_of_its_own(
    start: Start, limit: dict[str, Any], reason: str, steps: int
) -> None:
    session = start(endless, **limit).session("s")
    session.send("go").result(WAIT)
    assert session.resume() is None
    again = session.send("continue").result(WAIT)

    assert (again.finish_reason, again.steps) == (reason, steps)


@pytest.mark.parametrize(("limit", "ends"), [(199, "budget"), (200, "budget"), (201, "stop")])
def test_a_turn_begun_beyond_the_tokens_of_its_session_ends_at_once(
    start: Start, limit: int, ends: str
) -> None:
    model = ScriptedModel([ModelTurn("one", usage=USED), ModelTurn("two", usage=USED)])
    session = start(model, session_token_budget=limit).session("s")
    assert session.send("a").result(WAIT).finish_reason == "stop"
    second = session.send("b").result(WAIT)

    assert second.finish_reason == ends
    assert (second.steps, len(model.requests)) == ((1, 2) if ends == "stop" else (0, 1))
    assert session.status == "idle" and session.pending() is None


def test_tokens_of_a_dropped_turn_count_for_the_session(start: Start) -> None:
    session = start([asks(call("pay", amount=1))], session_token_budget=200).session("s")
    session.send("a").result(WAIT)
    assert session.discard_pending().result(WAIT) is True

    assert session.send("b").result(WAIT).finish_reason == "budget"


def test_a_model_that_does_not_tell_its_usage_resets_nothing(start: Start) -> None:
    silent = ModelTurn(tool_calls=(call("add", a=1, b=1),))
    result = start([sums(1), silent, sums(1)], token_budget=400).session("s").send("go")

    assert result.result(WAIT).steps == 3
    assert result.result(WAIT).usage == USED + USED


def test_ten_sessions_at_once_share_an_agent_and_no_budget(start: Start) -> None:
    def three(request: ModelRequest) -> ModelTurn:
        done = isinstance(request.messages[-1], ToolMessage)
        return ModelTurn("done") if done else sums(3)

    system = start(three, tool_call_budget=3)

    def talk(session_id: str) -> list[str]:
        turns = (system.session(session_id).send("go") for _ in range(3))
        return [turn.result(WAIT).finish_reason for turn in turns]

    with ThreadPoolExecutor(10) as pool:
        ended = list(pool.map(talk, [f"s{n}" for n in range(10)]))
    assert ended == [["stop"] * 3] * 10


@pytest.mark.parametrize(
    ("limit", "values"),
    [
        ("tool_call_budget", (0, 1.5, "5")),
        ("session_token_budget", (-1, 1.5)),
        ("time_budget", (0, float("nan"), float("inf"), True, "5")),
    ],
)
def test_a_limit_that_can_not_work_is_refused(limit: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(InvalidAgent, match=limit):
            Agent("agent", model=endless, **{limit: value})


def recorded(*calls: str) -> ModelTurnRecorded:
    asked = tuple(ToolCall(each, "add") for each in calls)
    return ModelTurnRecorded(at=AT, turn_id="t", step=1, tool_calls=asked)


def began(call_id: str) -> ToolCallStarted:
    return ToolCallStarted(at=AT, turn_id="t", call_id=call_id)


def ended(call_id: str) -> ToolResultRecorded:
    return ToolResultRecorded(at=AT, turn_id="t", call_id=call_id)


def asked(call_id: str) -> ApprovalRequested:
    return ApprovalRequested(at=AT, approval_id=call_id, turn_id="t", call_id=call_id)


def decided(call_id: str, decision: Any = "approved") -> ApprovalResolved:
    return ApprovalResolved(at=AT, approval_id=call_id, decision=decision)


OWNER = Owner(1, "node")
BROKE = ModelCallDiscarded(at=AT, turn_id="t", step=1, reason="stream-ended")
FAILED = TurnFailed(at=AT, turn_id="t", code="model-failed", error="down")
STOPPED = TurnAborted(at=AT, turn_id="t", kept=True)
RESUMED = TurnResumed(at=AT, turn_id="t", owner=OWNER)

# What may come next, where it leads, and whether the time up to there was the turn's own. What
# is decided "cold" is decided where nothing runs.
NEXT: dict[str, list[tuple[list[Any], str, bool]]] = {
    "model": [
        ([recorded("c"), began("c")], "c runs", True),
        ([recorded("d"), asked("d")], "d gated", True),
        ([recorded("c", "d"), began("c"), asked("d")], "c runs, d gated", True),
        ([recorded("d", "e"), asked("d"), asked("e")], "d, e gated", True),
        ([BROKE], "model", True),
        ([FAILED], "halted", True),
        ([RESUMED], "model", False),
    ],
    "c runs": [([ended("c")], "model", True), ([RESUMED, began("c")], "c runs", False)],
    "d runs": [([ended("d")], "model", True), ([ended("d"), STOPPED], "halted", True)],
    "c runs, d gated": [
        ([ended("c")], "d gated", True),
        ([RESUMED, began("c")], "c runs, d gated", False),
    ],
    "d gated": [
        ([RESUMED, decided("d"), began("d")], "d runs", False),
        ([RESUMED, decided("d", "rejected"), ended("d")], "model", False),
    ],
    "d, e gated": [([decided("e")], "d gated, e cold", False)],
    "d gated, e cold": [([decided("d", "rejected"), ended("d")], "e cold", False)],
    "e cold": [([RESUMED, began("e"), ended("e")], "model", False)],
    "halted": [([RESUMED], "model", False)],
}


def begun(seconds: float) -> list[Any]:
    """A turn with that budget of time."""
    budget = Budget(max_steps=99, seconds=seconds)
    return [TurnStarted(at=AT, turn_id="t", input_ids=(), agent="a", budget=budget, owner=OWNER)]


@given(st.data())
def test_the_time_between_events_of_an_active_turn_counts(data: st.DataObject) -> None:
    """However the turn was paused, halted, and lost in between."""
    events, phase, now, active = begun(9999), "model", AT, 0
    for passed in data.draw(st.lists(st.integers(0, 100), max_size=20)):
        now += timedelta(seconds=passed)
        following, phase, counts = data.draw(st.sampled_from(NEXT[phase]))
        active += passed if counts else 0
        events += [replace(each, at=now) for each in following]
        turn = fold(events).turn

        assert turn is not None
        assert turn.active_at(now) == active
        goes_on = phase in ("model", "c runs", "d runs", "c runs, d gated")
        assert turn.active_at(now + timedelta(seconds=60)) == active + (60 if goes_on else 0)


@pytest.mark.parametrize(("limit", "ends"), [(10.001, False), (10, True), (9.999, True)])
def test_a_lost_turn_that_used_up_its_time_ends_when_resumed(limit: float, ends: bool) -> None:
    late = timedelta(seconds=10)
    events = [*begun(limit), recorded("c"), began("c"), replace(ended("c"), at=AT + late)]
    stamp = Stamp(AT + 99 * late, Owner(2, "younger"))
    rules = ReadyAgent(Agent("agent", model=endless), keep_failed=True).rules
    decision = decide(fold(events), Resume(), rules, stamp)

    finished = [each for each in decision.events if isinstance(each, TurnFinished)]
    assert [each.finish_reason for each in finished] == ["budget"] * ends
