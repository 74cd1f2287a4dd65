"""A stop against everything that can happen at the same moment: one of them wins, and is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from threading import Event
from typing import Any

import pytest

from turnstream.actors import ActorSystem, ModelRequest, Session, TextDelta, tool
from turnstream.actors.testing import call
from turnstream.events import ModelTurn, ToolResultRecorded

WAIT = 20
Run = Callable[..., ActorSystem]


class Aim:
    """How long to wait between two things that are to happen at the same moment: longer after
    the second came first, shorter after the first did, so that it stays where they meet."""

    def __init__(self) -> None:
        self.turns = 0

    def wait(self) -> None:
        for _ in range(self.turns):
            pass

    def learn(self, *, second_won: bool) -> None:
        self.turns = self.turns * 3 // 2 + 20 if second_won else self.turns * 3 // 4


class Gated:
    """A model that answers each turn when its gate is opened."""

    def __init__(self) -> None:
        self.gates: dict[tuple[str, str], Event] = {}

    def gate(self, session_id: str, turn_id: str = "turn-1") -> Event:
        return self.gates.setdefault((session_id, turn_id), Event())

    def __call__(self, request: ModelRequest) -> str:
        assert self.gate(request.session_id, request.turn_id).wait(WAIT)
        return "done"


def results(session: Session, after: int = 0) -> list[ToolResultRecorded]:
    events = [each.event for each in session.events(after)]
    return [each for each in events if isinstance(each, ToolResultRecorded)]


def ends(session: Session) -> list[str]:
    return [e.topic for e in session.events() if e.topic in ("turn_finished", "turn_aborted")]


@pytest.mark.parametrize("rounds", [200, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("switching_often")
def test_a_turn_is_finished_or_aborted_and_never_both_and_the_reply_tells_which(
    run: Run, rounds: int
) -> None:
    model, aim, outcomes = Gated(), Aim(), set()
    system = run([], model=model)
    for n in range(rounds):
        session = system.session(f"s{n}")
        turn = session.send("go")
        turn.accepted().result(WAIT)
        model.gate(session.id).set()
        aim.wait()
        won = turn.abort(keep=n % 2 == 0).result(WAIT)

        reason = turn.result(WAIT).finish_reason
        assert ends(session) == ["turn_aborted" if won else "turn_finished"]
        assert reason == ("aborted" if won else "stop")
        assert [e.type for e in turn.stream()].count("turn.done") == 1
        assert len(session.messages) == (0 if won else 2)
        aim.learn(second_won=won)
        outcomes.add(won)
    assert outcomes == {True, False}


@pytest.mark.slow
@pytest.mark.usefixtures("switching_often")
def test_a_stop_strikes_its_own_turn_and_never_the_one_that_waits_behind_it(run: Run) -> None:
    model, aim, outcomes = Gated(), Aim(), set()
    system = run([], model=model)
    for n in range(300):
        session = system.session(f"s{n}")
        first, second = session.send("one"), session.send("two")
        second.accepted().result(WAIT)
        model.gate(session.id, "turn-2").set()
        model.gate(session.id).set()
        aim.wait()
        won = first.abort().result(WAIT)

        assert second.result(WAIT).finish_reason == "stop"
        assert first.result(WAIT).finish_reason == ("aborted" if won else "stop")
        assert ends(session) == ["turn_aborted" if won else "turn_finished", "turn_finished"]
        assert session.pending() is None
        aim.learn(second_won=won)
        outcomes.add(won)
    assert outcomes == {True, False}


@pytest.mark.slow
@pytest.mark.usefixtures("switching_often")
@pytest.mark.parametrize("kind", ["held", "held_sync"])
def test_a_call_that_returns_while_its_turn_is_stopped_has_one_result(
    run: Run, led: Any, held: Any, kind: str
) -> None:
    session, aim, outcomes = run([], model=led, tools=held.tools).session("s"), Aim(), set()
    for n in range(1, 201):
        turn = session.send("go")
        first_asked(led, f"turn-{n}").answer([call(kind, "c", text=f"t{n}")])
        held.begun(f"t{n}")
        before = session.version
        held.let(f"t{n}")
        aim.wait()
        assert turn.abort().result(WAIT) is True

        assert turn.result(WAIT).finish_reason == "aborted"
        (outcome,) = [each.outcome for each in results(session, before)]
        aim.learn(second_won=outcome == "cancelled")
        outcomes.add(outcome)
    assert outcomes == {"ok", "cancelled"}
    assert list(session.messages) == []


def first_asked(led: Any, turn_id: str) -> Any:
    """The first call of the model in this turn, past those of turns before it."""
    while True:
        asked = led.asked()
        if (asked.request.turn_id, asked.request.step) == (turn_id, 1):
            return asked


@pytest.mark.slow
@pytest.mark.usefixtures("switching_often")
def test_a_call_that_has_not_begun_when_the_stop_is_told_never_begins(run: Run, led: Any) -> None:
    loop_is_held, let_go, begun = Event(), Event(), []

    @tool
    async def hold_the_loop() -> None:
        loop_is_held.set()
        let_go.wait(WAIT)

    @tool
    async def begin(number: int) -> None:
        begun.append(number)

    session = run([], model=led, tools=[hold_the_loop, begin]).session("s")
    for n in range(1, 201):
        turn = session.send("go")
        first_asked(led, f"turn-{n}").answer([call("hold_the_loop"), call("begin", number=n)])
        assert loop_is_held.wait(WAIT)
        assert turn.abort().result(WAIT) is True
        let_go.set()
        assert turn.result(WAIT).finish_reason == "aborted"
        loop_is_held.clear()
        let_go.clear()
    following = session.send("next")
    first_asked(led, "turn-201").answer("fine")
    assert following.result(WAIT).text == "fine"
    assert begun == []


@pytest.mark.slow
@pytest.mark.usefixtures("switching_often")
def test_a_stream_shows_nothing_after_its_end_however_fast_the_model_talks(run: Run) -> None:
    class Talking:
        id = "talking"

        async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
            while True:
                yield TextDelta("x")
                await asyncio.sleep(0)

    system = run([], model=Talking())
    for n in range(100):
        turn = system.session(f"s{n}").send("go")
        turn.accepted().result(WAIT)
        for _ in range(40 * n):
            pass  # each time a little later
        assert turn.abort().result(WAIT) is True
        items = list(turn.stream())
        kinds = [each.type for each in items]
        assert kinds.count("turn.done") == 1 and kinds[-1] == "turn.done"
        assert set(kinds) <= {"turn.started", "text.delta", "turn.done"}
        assert len(list(turn.stream())) == len(items)
