"""Decisions by those who did not ask: later processes, and several systems on one store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, Tool, tool
from turnstream.actors.testing import call
from turnstream.events import (
    CODEC,
    ApprovalDecided,
    ApprovalRequested,
    ApprovalResolved,
    EncodedEvent,
    ModelTurn,
    ModelTurnRecorded,
    StoreError,
    StoreUnavailable,
    ToolCallStarted,
    ToolMessage,
    ToolResultRecorded,
    TurnStarted,
    TurnTakenOver,
    UnknownAgent,
    UserMessage,
    verify,
)
from turnstream.projections import fold
from turnstream.stores import Append, Appended, EventStore, MemoryStore, RowChange, open_store
from turnstream.stores.specimens import NOON

WAIT = 20
FIRST = "s/turn-1.1.1"
Run = Callable[..., ActorSystem]

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    ran.append(path)
    return f"removed {path}"


def obedient(request: ModelRequest) -> ModelTurn:
    """Remove each of the letters that it was told, then be done."""
    last = request.messages[-1]
    if not isinstance(last, UserMessage):
        return ModelTurn("done")
    calls = [call("remove", each, path=each) for each in str(last.content)]
    return ModelTurn(tool_calls=tuple(calls))


@pytest.fixture
def two(run: Run, place: EventStore | str) -> tuple[ActorSystem, ActorSystem]:
    """Two systems on one store, the older one first."""
    one, other = (run([], model=obedient, tools=[remove], on=place) for _ in range(2))
    return one, other


def facts(session: Session, kind: type[Any]) -> list[Any]:
    return [each.event for each in session.events() if isinstance(each.event, kind)]


def pauses(system: ActorSystem, text: str) -> bool:
    return system.session("s").send(text).result(WAIT).finish_reason == "awaiting-approval"


PROCESS = """
import os, sys
from turnstream import ActorSystem, Agent, ModelTurn, UserMessage, tool
from turnstream.actors.testing import call

store, log, what = sys.argv[1:]

@tool(needs_approval=True)
def remove(path: str) -> str:
    with open(log, "a") as file:
        file.write(path)
    return path

def model(request):
    with open(log, "a") as file:
        file.write("?")
    if isinstance(request.messages[-1], UserMessage):
        return ModelTurn(tool_calls=(call("remove", "c", path="a"),))
    return ModelTurn("done")

system = ActorSystem(Agent("agent", model=model, tools=[remove]), store=store)
if what == "pause":
    result = system.session("s").send("go").result(20)
else:
    (approval,) = system.approvals()
    print(approval.session_id, approval.tool, approval.arguments["path"], flush=True)
    decide = system.approve if what == "approve" else system.session("s").reject
    result = decide(approval.id, by="night shift").result(20)
print(result.finish_reason, flush=True)
os._exit(0)
"""


@on_durable_stores
@pytest.mark.parametrize(("how", "log"), [("approve", "?a?"), ("reject", "??")])
def test_a_process_that_never_saw_the_session_decides(
    address: str, tmp_path: Path, how: str, log: str
) -> None:
    def process(what: str) -> list[str]:
        args = [
            sys.executable,
            "-c",
            PROCESS,
            address,
            f"{tmp_path}/log",
            what,
        ]
        done = subprocess.run(args, check=True, capture_output=True, text=True, timeout=WAIT)
        return done.stdout.splitlines()

    assert process("pause") == ["awaiting-approval"]
    assert process(how) == ["s remove a", "stop"]
    assert (tmp_path / "log").read_text() == log


def test_a_system_without_the_agent_says_so_and_the_question_stands(
    run: Run, place: EventStore | str
) -> None:
    assert pauses(run([], model=obedient, tools=[remove], on=place), "a")
    with ActorSystem(Agent("other", model=obedient), store=place) as stranger:
        with pytest.raises(UnknownAgent):
            stranger.approve(FIRST).result(WAIT)
        assert [each.id for each in stranger.approvals()] == [FIRST]

    again = run([], model=obedient, tools=[remove], on=place)
    assert again.approve(FIRST).result(WAIT).text == "done" and ran == ["a"]


def test_an_approved_call_whose_tool_is_gone_gets_an_error_and_the_turn_goes_on(
    run: Run, place: EventStore | str
) -> None:
    assert pauses(run([], model=obedient, tools=[remove], on=place), "a")
    result = run([], model=obedient, tools=[], on=place).approve(FIRST).result(WAIT)

    assert result.text == "done" and ran == []
    outcomes = [each.outcome for each in result.messages if isinstance(each, ToolMessage)]
    assert outcomes == ["error"]


def test_a_question_of_one_system_is_decided_in_another(
    two: tuple[ActorSystem, ActorSystem],
) -> None:
    for n, (asking, deciding) in enumerate([two, two[::-1]], 1):
        assert pauses(asking, "a")
        assert deciding.approve(f"s/turn-{n}.1.1", by="other").result(WAIT).text == "done"
        with pytest.raises(ApprovalDecided) as late:
            asking.reject(f"s/turn-{n}.1.1").result(WAIT)
        assert (late.value.decision, late.value.by) == ("approved", "other")
    assert ran == ["a", "a"]


def test_a_system_that_paused_the_turn_accepts_inputs_once_another_one_decided(
    two: tuple[ActorSystem, ActorSystem],
) -> None:
    assert pauses(two[0], "a")
    two[1].reject(FIRST).result(WAIT)

    assert pauses(two[0], "b")
    assert [each.call_id for each in two[1].approvals()] == ["b"]


def test_a_question_that_another_system_asked_is_decided_by_one_with_the_session_open(
    two: tuple[ActorSystem, ActorSystem],
) -> None:
    assert pauses(two[0], "a")
    two[0].reject(FIRST).result(WAIT)
    assert pauses(two[1], "b")

    assert two[0].approve("s/turn-2.1.1").result(WAIT).text == "done" and ran == ["b"]


def test_calls_of_one_batch_are_decided_in_different_systems(
    two: tuple[ActorSystem, ActorSystem],
) -> None:
    assert pauses(two[0], "abc")
    asked = [two[n % 2].approve(f"s/turn-1.1.{n + 1}").result(WAIT) for n in (1, 2, 0)]

    assert [len(each.approvals) for each in asked] == [2, 1, 0]
    assert asked[-1].text == "done" and ran == ["b", "c", "a"]
    assert verify(two[0]._store.read("s")) is None


@pytest.mark.parametrize("by", ["older", "younger"])
def test_a_decision_while_another_system_runs_the_turn_leaves_nobody_waiting(
    run: Run, place: EventStore | str, by: str
) -> None:
    began, go = Event(), Event()

    @tool
    def work() -> str:
        began.set()
        go.wait(WAIT)
        return "worked"

    def model(request: ModelRequest) -> ModelTurn:
        if isinstance(request.messages[-1], UserMessage):
            return ModelTurn(tool_calls=(call("work", "w"), call("remove", "a", path="a")))
        return ModelTurn("done")

    one, other = (run([], model=model, tools=[remove, work], on=place) for _ in range(2))
    running, deciding = (other, one) if by == "older" else (one, other)
    turn = running.session("s").send("go")
    assert began.wait(WAIT)
    decided = deciding.approve("s/turn-1.1.2")
    decided.accepted().result(WAIT)
    go.set()

    for each in (turn, decided):
        with suppress(TurnTakenOver):
            assert each.result(WAIT).finish_reason in ("stop", "awaiting-approval")
    last = running.session("s").resume()
    assert last is None or last.result(WAIT).text == "done"
    assert ran == ["a"]


class Refusing:
    """A store that refuses the next appends of decisions."""

    def __init__(self, store: EventStore, times: int) -> None:
        self._store, self._times = store, times

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        if self._times and any(each.topic == "approval_resolved" for each in append.events):
            self._times -= 1
            done(StoreUnavailable("the disk is full"))
        else:
            self._store.submit(append, done)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_decision_that_can_not_be_recorded_is_none(run: Run, store: str) -> None:
    with closing(open_store(store)) as place:
        system = run([], model=obedient, tools=[remove], on=Refusing(place, 2))
        assert pauses(system, "a")
        for decide in (system.approve, system.reject):
            with pytest.raises(StoreUnavailable):
                decide(FIRST).result(WAIT)
            assert [each.id for each in system.approvals()] == [FIRST] and ran == []

        assert system.approve(FIRST).result(WAIT).text == "done" and ran == ["a"]


def copied(whole: EventStore, upto: int) -> EventStore:
    """A store where the session came so far and no further."""
    part, records = MemoryStore(), whole.read("s", upto=upto)
    events = [CODEC.recorded(each).event for each in records]
    state = fold(events)
    row = RowChange(state.status, "agent", NOON, "", state.approvals("s"))
    encoded = [EncodedEvent(each.topic, each.payload) for each in records]
    part.append(Append("s", 0, tuple(encoded), row))
    return part


@pytest.mark.parametrize("way", ["resume", "resume all", "another decision"])
def test_a_decision_that_was_only_recorded_is_carried_out_by_whoever_goes_on(
    run: Run, way: str
) -> None:
    whole = MemoryStore()
    asking = run([], model=obedient, tools=[remove], on=whole)
    assert pauses(asking, "ab")
    asking.approve(FIRST).result(WAIT)
    recorded = [type(each.event) for each in asking.session("s").events()]
    part = copied(whole, recorded.index(ApprovalResolved) + 1)
    ran.clear()
    system = run([], model=obedient, tools=[remove], on=part)

    match way:
        case "resume":
            turns = [system.session("s").resume()]
        case "resume all":
            turns = list(system.resume_all())
        case _:
            turns = [system.reject("s/turn-1.1.2")]
    (turn,) = turns
    assert turn is not None
    expected = "stop" if way == "another decision" else "awaiting-approval"
    assert turn.result(WAIT).finish_reason == expected and ran == ["a"]
    assert len(facts(system.session("s"), ApprovalRequested)) == 2


def story(request: ModelRequest) -> ModelTurn:
    """A mixed batch, then a gated call alone."""
    answers = sum(not isinstance(each, (UserMessage, ToolMessage)) for each in request.messages)
    match answers:
        case 0:
            calls = [
                call("look", "l"),
                call("remove", "a", path="a"),
                call("remove", "b", path="b"),
            ]
        case 1:
            calls = [call("remove", "c", path="c")]
        case _:
            return ModelTurn("done")
    return ModelTurn(tool_calls=tuple(calls))


def decide_all(system: ActorSystem) -> None:
    """Finish the session: a is approved with other arguments, b is rejected, c is approved."""
    if (turn := system.session("s").resume()) and not system.approvals():
        turn.result(WAIT)
    while waiting := system.approvals():
        match waiting[0].call_id:
            case "a":
                turn = system.approve(waiting[0].id, arguments={"path": "z"})
            case "b":
                turn = system.reject(waiting[0].id, note="no")
            case _:
                turn = system.approve(waiting[0].id)
        turn.result(WAIT)


def test_wherever_the_process_is_lost_each_decision_counts_once_and_nothing_runs_without(
    run: Run,
) -> None:
    look = Tool.from_schema("look", lambda: "seen", {})
    whole = MemoryStore()
    system = run([], model=story, tools=[look, remove], on=whole)
    system.session("s").send("go").result(WAIT)
    decide_all(system)
    told = list(system.session("s").messages)
    events: list[Any] = [each.event for each in system.session("s").events()]
    begun = next(n for n, each in enumerate(events, 1) if isinstance(each, TurnStarted))

    for upto in range(begun, len(events)):
        if isinstance(events[upto], ToolResultRecorded) and events[upto].outcome == "rejected":
            continue  # it is written together with the decision
        part = copied(whole, upto)
        ran.clear()
        resumed = run([], model=story, tools=[look, remove], on=part)
        decide_all(resumed)
        session = resumed.session("s")

        assert list(session.messages) == told and "b" not in ran and "a" not in ran
        assert len(facts(session, ModelTurnRecorded)) == 3
        asked = [each.call_id for each in facts(session, ApprovalRequested)]
        assert sorted(asked) == ["a", "b", "c"], "nothing is asked again"
        allowed = set[str]()
        of = {each.approval_id: each.call_id for each in facts(session, ApprovalRequested)}
        for each in session.events():
            match each.event:
                case ApprovalResolved(approval_id=id, decision="approved"):
                    allowed.add(of[id])
                case ToolCallStarted(call_id=call_id):
                    assert call_id in allowed | {"l"}
                case _:
                    pass
