"""Decisions that come at the same moment: one of them wins, and the call does what it says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from places import on_durable_stores
from sending import at_once

from turnstream.actors import ActorSystem, Agent, ModelRequest, Turn, tool
from turnstream.actors.testing import call
from turnstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    ModelTurn,
    SessionAwaitingApproval,
    ToolResultRecorded,
    TurnFinished,
    TurnStarted,
    UserMessage,
)

WAIT = 20
QUESTION = "{}/turn-1.1.1"
Run = Callable[..., ActorSystem]
T = TypeVar("T")

ran: list[tuple[str, str]] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@tool(needs_approval=True)
def remove(of: str, path: str) -> str:
    """Remove."""
    ran.append((of, path))
    return path


def obedient(request: ModelRequest) -> ModelTurn:
    """Remove each of the letters that it was told, then be done."""
    last = request.messages[-1]
    if not isinstance(last, UserMessage):
        return ModelTurn("done")
    calls = [call("remove", each, of=request.session_id, path=each) for each in str(last.content)]
    return ModelTurn(tool_calls=tuple(calls))


def paused(system: ActorSystem, session_id: str, text: str = "a") -> Turn:
    turn = system.session(session_id).send(text)
    assert turn.result(WAIT).finish_reason == "awaiting-approval"
    return turn


def facts(system: ActorSystem, session_id: str) -> Counter[type[Any]]:
    return Counter(type(each.event) for each in system.session(session_id).events())


def ran_in(session_id: str) -> list[str]:
    return [path for of, path in ran if of == session_id]


def decide(system: ActorSystem, id: str, by: str, *, approved: bool) -> Callable[[], Any]:
    """A decision: what the turn came to, or how the question had been decided. An approval is
    signed in the arguments too."""

    def decided() -> Any:
        if approved:
            edited = {"of": id.rpartition("/")[0], "path": by}
            turn = system.approve(id, by=by, arguments=edited)
        else:
            turn = system.reject(id, by=by)
        try:
            return turn.result(WAIT).text
        except ApprovalDecided as late:
            return late

    return decided


def check_one_winner(
    system: ActorSystem, session_id: str, outcomes: Sequence[Any], approves: Sequence[bool]
) -> None:
    """The jobs were signed with their numbers."""
    winners = [n for n, outcome in enumerate(outcomes) if outcome == "done"]
    assert len(winners) == 1
    (winner,) = winners
    decision = "approved" if approves[winner] else "rejected"
    losers = [each for each in outcomes if each != "done"]
    assert {(each.decision, each.by) for each in losers} <= {(decision, str(winner))}
    assert ran_in(session_id) == ([str(winner)] if approves[winner] else [])
    happened = facts(system, session_id)
    assert happened[ApprovalResolved] == happened[ToolResultRecorded] == happened[TurnFinished] == 1


MIXES = {
    "approvals": [True] * 50,
    "rejections": [False] * 50,
    "both": [True, False] * 25,
}


@pytest.mark.parametrize("approves", MIXES.values(), ids=list(MIXES))
def test_of_fifty_decisions_at_once_one_wins(
    run: Run, switching_often: None, approves: list[bool]
) -> None:
    system = run([], model=obedient, tools=[remove])
    paused(system, "s")
    jobs = [
        decide(system, QUESTION.format("s"), str(n), approved=each)
        for n, each in enumerate(approves)
    ]
    check_one_winner(system, "s", at_once(*jobs), approves)


@pytest.mark.parametrize("approves", MIXES.values(), ids=list(MIXES))
def test_of_fifty_decisions_in_four_systems_at_once_one_wins(
    run: Run, place: Any, approves: list[bool]
) -> None:
    systems = [run([], model=obedient, tools=[remove], on=place) for _ in range(4)]
    paused(systems[0], "s")
    jobs = [
        decide(systems[n % 4], QUESTION.format("s"), str(n), approved=each)
        for n, each in enumerate(approves)
    ]
    check_one_winner(systems[1], "s", at_once(*jobs), approves)


@pytest.mark.slow
def test_an_approval_against_a_rejection_again_and_again(run: Run, switching_often: None) -> None:
    system = run([], model=obedient, tools=[remove])
    for n in range(100):
        session_id, approves = f"s{n}", [n % 2 == 0, n % 2 == 1]
        paused(system, session_id)
        jobs = [
            decide(system, QUESTION.format(session_id), str(m), approved=each)
            for m, each in enumerate(approves)
        ]
        check_one_winner(system, session_id, at_once(*jobs), approves)


@pytest.mark.slow
def test_decisions_on_all_calls_of_a_batch_at_once_are_all_taken(
    run: Run, switching_often: None
) -> None:
    system = run([], model=obedient, tools=[remove])
    for n in range(30):
        session_id, letters = f"s{n}", "abcdefgh"
        paused(system, session_id, letters)
        ids = [f"{session_id}/turn-1.1.{slot}" for slot in range(1, 9)]
        turns = at_once(*[partial(system.approve, each) for each in ids])
        reasons = Counter(each.result(WAIT).finish_reason for each in turns)

        assert set(reasons) <= {"stop", "awaiting-approval"} and reasons["stop"] >= 1
        assert sorted(ran_in(session_id)) == list(letters)
        assert facts(system, session_id)[TurnFinished] == 1


@pytest.mark.slow
def test_a_decision_in_the_reader_of_the_stream_is_never_lost(run: Run) -> None:
    system = run([], model=obedient, tools=[remove])
    for n in range(250):
        session, decided = system.session(f"s{n}"), list[Turn]()
        for item in session.send("ab").stream():
            if item.type == "approval.requested":
                decided.append(session.approve(item.approval.id))  # type: ignore[union-attr]

        assert len(decided) == 2
        assert decided[-1].result(WAIT).text == "done"
        assert sorted(ran_in(f"s{n}")) == ["a", "b"]


def test_a_decision_in_an_async_reader_is_never_lost(run: Run) -> None:
    system = run([], model=obedient, tools=[remove])

    async def talk(session_id: str) -> None:
        session, result = system.session(session_id), None
        async for item in session.send("a").stream():
            if item.type == "approval.requested":
                result = await asyncio.wait_for(session.approve(item.approval.id), WAIT)  # type: ignore[union-attr]
        assert result is not None and result.text == "done"

    async def main() -> None:
        await asyncio.gather(*[talk(f"s{n}") for n in range(100)])

    asyncio.run(main())
    assert sorted(ran) == sorted((f"s{n}", "a") for n in range(100))


def test_a_decision_as_soon_as_the_log_shows_the_question_is_never_lost(run: Run) -> None:
    system = run([], model=obedient, tools=[remove])
    turns = [system.session(f"s{n}").send("a") for n in range(100)]
    decided: list[Turn] = []
    with system.subscribe() as log:
        for each in log:
            if isinstance(each.event, ApprovalRequested):
                decided.append(system.approve(each.event.approval_id))
            if len(decided) == len(turns):
                break

    assert [each.result(WAIT).text for each in decided] == ["done"] * 100
    assert all(each.result(WAIT) for each in turns) and len(ran) == 100


@pytest.mark.parametrize("keep", [False, True], ids=["dropped", "kept"])
def test_a_decision_against_a_stop_has_one_of_them_end_the_question(
    run: Run, switching_often: None, keep: bool
) -> None:
    system = run([], model=obedient, tools=[remove])
    for n in range(100):
        session_id = f"s{n}"
        turn = paused(system, session_id)
        decided, stopped = at_once(
            decide(system, QUESTION.format(session_id), "me", approved=True),
            lambda turn=turn: turn.abort(keep=keep).result(WAIT),  # type: ignore[misc]
        )
        happened = facts(system, session_id)

        assert happened[ApprovalResolved] + happened[ApprovalWithdrawn] == 1
        if happened[ApprovalWithdrawn]:
            assert stopped and decided.decision == "aborted" and ran_in(session_id) == []
        else:
            assert decided == ("" if stopped else "done")
            assert len(ran_in(session_id)) <= 1 if stopped else ran_in(session_id) == ["me"]
            assert happened[ToolResultRecorded] == 1


def test_an_input_against_a_decision_is_refused_or_runs_after_it(
    run: Run, switching_often: None
) -> None:
    system = run([], model=obedient, tools=[remove])
    for n in range(100):
        session = system.session(f"s{n}")
        paused(system, session.id)

        def send(session: Any = session) -> str:
            try:
                return str(session.send("b").result(WAIT).finish_reason)
            except SessionAwaitingApproval:
                return "refused"

        decision = decide(system, QUESTION.format(session.id), "me", approved=True)
        decided, sent = at_once(decision, send)
        assert decided == "done" and ran_in(session.id) == ["me"]
        begun = facts(system, session.id)[TurnStarted]
        assert (sent, begun) in [("refused", 1), ("awaiting-approval", 2)]


CHILD = """
import sys
from turnstream import ActorSystem, Agent, ModelTurn, tool
from turnstream.events import ApprovalDecided, ApprovalRequested

store, log, name, what = sys.argv[1:]

@tool(needs_approval=True)
def remove(of: str, path: str) -> str:
    with open(log, "a") as file:
        file.write(f"{of} {name}\\n")
    return path

def decide_as_told(system):
    for line in sys.stdin:
        session_id, how = line.split()
        decide = system.approve if how == "approve" else system.reject
        turn = decide(f"{session_id}/turn-1.1.1", by=name)
        try:
            print("won" if turn.result(20).text == "done" else "?", flush=True)
        except ApprovalDecided as late:
            print("lost", late.decision, late.by, flush=True)

def approve_what_the_log_shows(system):
    for each in system.subscribe():
        if isinstance(each.event, ApprovalRequested):
            turn = system.approve(each.event.approval_id)
            print(each.session_id, turn.result(20).text, flush=True)

agent = Agent("agent", model=lambda request: ModelTurn("done"), tools=[remove])
with ActorSystem(agent, store=store) as system:
    print("ready", flush=True)
    globals()[what](system)
"""


@contextmanager
def processes(
    address: str, log: Path, what: str, *names: str
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that do this on the store at that address, once they are ready."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, address, str(log), name, what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for name in names
    ]
    try:
        assert [heard(each) for each in started] == [["ready"]] * len(names)
        yield started
    finally:
        for each in started:
            each.kill()
            each.communicate()


def heard(process: subprocess.Popen[str]) -> list[str]:
    """The next line it says; nothing where it died. The test's time-out bounds the wait."""
    assert process.stdout is not None
    return process.stdout.readline().split()


@pytest.mark.slow
@pytest.mark.timeout(300)
@on_durable_stores
def test_of_two_processes_that_decide_at_once_one_wins_every_time(
    address: str, store_kind: str, tmp_path: Path
) -> None:
    rounds, log = 1000 if store_kind == "sqlite" else 200, tmp_path / "log"
    agent, wins, expected = Agent("agent", model=obedient, tools=[remove]), Counter[str](), []
    with ActorSystem(agent, store=address) as system:
        for turn in [system.session(f"s{n}").send("a") for n in range(rounds)]:
            assert turn.result(WAIT).finish_reason == "awaiting-approval"
    with processes(address, log, "decide_as_told", "A", "B") as children:
        for n in range(rounds):
            hows = ("approve", "reject", "approve", "approve")[n % 3 :][:2]
            for each in [0, 1] if n % 2 else [1, 0]:
                children[each].stdin.write(f"s{n} {hows[each]}\n")  # type: ignore[union-attr]
            told = [heard(each) for each in children]
            assert [each[0] for each in told].count("won") == 1, (n, told)
            winner = [each[0] for each in told].index("won")
            decision = "approved" if hows[winner] == "approve" else "rejected"
            assert told[1 - winner] == ["lost", decision, "AB"[winner]]
            wins["AB"[winner]] += 1
            if decision == "approved":
                expected.append(f"s{n} {'AB'[winner]}")

    assert log.read_text().splitlines() == expected
    assert min(wins["A"], wins["B"]) > rounds // 20, "and it was a race"


@pytest.mark.slow
@on_durable_stores
def test_a_process_that_decides_as_soon_as_it_can_see_the_question_loses_none(
    address: str, tmp_path: Path
) -> None:
    agent, names = Agent("agent", model=obedient, tools=[remove]), [f"s{n}" for n in range(300)]
    with (
        processes(address, tmp_path / "log", "approve_what_the_log_shows", "A") as (child,),
        ActorSystem(agent, store=address) as system,
    ):
        turns = [system.session(each).send("a") for each in names]
        assert sorted(heard(child) for _ in names) == sorted([each, "done"] for each in names)
        assert {each.result(WAIT).finish_reason for each in turns} <= {"awaiting-approval", "stop"}

    log = (tmp_path / "log").read_text().splitlines()
    assert sorted(log) == sorted(f"{each} A" for each in names)
