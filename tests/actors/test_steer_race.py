"""A steer that comes at the very moment at which the model shows or returns something.

The model dawdles a little before that moment, longer after each race that it won and shorter
after each that it lost, so that most races are close.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, ModelRequest, TextDelta, Turn, tool
from turnstream.actors.testing import call, said
from turnstream.events import (
    InputApplied,
    InputQueued,
    ModelCallDiscarded,
    ModelTurn,
    ModelTurnRecorded,
    ToolResultRecorded,
    TurnFinished,
    TurnStarted,
)

WAIT = 30
ROUNDS = [300, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]
FEWER = [300, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]

pytestmark = pytest.mark.usefixtures("switching_often")


class Dawdle:
    """A wait of random length, without leaving the processor, around one that adapts."""

    def __init__(self) -> None:
        self._length = 1000.0

    def __call__(self) -> None:
        for _ in range(random.randrange(2 * int(self._length) + 1)):
            pass

    def adapt(self, *, model_won: bool) -> None:
        self._length = self._length * 1.1 + 1 if model_won else self._length / 1.1


class Race:
    """One session's race: ``entered`` when the model is about to show something, ``steered``
    when the steer is accepted, which is when everybody goes on."""

    def __init__(self) -> None:
        self.entered, self.steered = Event(), Event()
        self.asked: list[list[str]] = []
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def over(self) -> None:
        """Wait on an event loop for what ``end`` says."""
        self._loop = asyncio.get_running_loop()
        if not self.steered.is_set():
            await self._over.wait()

    def end(self) -> None:
        """The steer is accepted."""
        self.steered.set()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._over.set)


class Races:
    """A new session for each race, on one system in memory."""

    def __init__(self, model: Callable[[Races], Any]) -> None:
        self.dawdle = Dawdle()
        self._by_session: defaultdict[str, Race] = defaultdict(Race)

        @tool
        def wait(session_id: str) -> str:
            """Wait until the steer is accepted."""
            assert self._by_session[session_id].steered.wait(WAIT)
            return "waited"

        self._system = ActorSystem(
            Agent("agent", model=model(self), tools=[wait]), idle_timeout=0.2
        )
        self._reader = ThreadPoolExecutor(1)

    def enter(self, request: ModelRequest) -> Race | None:
        """For the model: the race that begins, None where the input is here already."""
        race = self._by_session[request.session_id]
        texts = said(request.messages)
        race.asked.append(texts)
        if texts != ["go"]:
            return None
        race.entered.set()
        return race

    def run(self, number: int) -> Raced:
        """Steer at the moment, wait for all, and gather what there is to be seen."""
        name = f"s{number}"
        race = self._by_session[name]
        turn = self._system.session(name).send("go")
        reading = self._reader.submit(list, turn.stream())
        assert race.entered.wait(WAIT)
        steer = turn.steer("left")
        steer.accepted().result(WAIT)
        race.end()
        raced = Raced(turn, steer, reading.result(WAIT), race.asked)
        del self._by_session[name]
        self.dawdle.adapt(model_won=not raced.discarded)
        return raced

    def close(self) -> None:
        self._reader.shutdown()
        assert self._system.close()


class Raced:
    """How a race ended, by all who saw it."""

    def __init__(
        self, turn: Turn, steer: Turn, seen: Sequence[Any], asked: list[list[str]]
    ) -> None:
        self.results = turn.result(WAIT), steer.result(WAIT)
        self.seen, self.asked, self.input_id = seen, asked, steer.input_id
        session = turn._session
        self.events: list[Any] = [each.event for each in session.events()]
        self.said = said(session.messages)

    def of(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.events if isinstance(each, kind)]

    @property
    def discarded(self) -> bool:
        return bool(self.of(ModelCallDiscarded))

    @property
    def joined(self) -> bool:
        return self.input_id in [each.input_id for each in self.of(InputApplied)]

    @property
    def shown(self) -> list[str]:
        return [item.text for item in self.seen if item.type == "text.delta"]

    def check_used_once(self) -> None:
        begun = [i for each in self.of(TurnStarted) for i in each.input_ids]
        applied = [each.input_id for each in self.of(InputApplied)]
        queued = [each.input_id for each in self.of(InputQueued)]
        assert sorted([*begun, *applied]) == sorted(queued)
        assert Counter(self.said)["left"] == 1
        assert [item.type for item in self.seen].count("turn.done") == 1
        assert self.seen[-1].type == "turn.done"

    def check_asked_again(self) -> None:
        """The call was cancelled before anything of it was seen, and asked again."""
        kinds = [type(each) for each in self.events]
        place = kinds.index(ModelCallDiscarded)
        assert kinds[place - 1 : place + 3] == [
            InputQueued,
            ModelCallDiscarded,
            InputApplied,
            ModelTurnRecorded,
        ]
        assert self.events[place].reason == "steered"
        assert [each.text for each in self.of(ModelTurnRecorded)] == ["again"]
        assert self.asked == [["go"], ["go", "left"]]
        assert self.said == ["go", "left", "again"]
        assert "first" not in self.shown
        assert "first" not in [i.message.text for i in self.seen if i.type == "model.turn"]

    def check_delivered(self) -> None:
        """The answer stands, and the input came at the next safe point: after its results."""
        kinds = [type(each) for each in self.events]
        place = kinds.index(ToolResultRecorded)
        assert kinds[place + 1 :] == [InputApplied, ModelTurnRecorded, TurnFinished]
        assert [each.text for each in self.of(ModelTurnRecorded)] == ["first", "again"]
        answer = self.events[place].content
        assert self.asked == [["go"], ["go", "first", answer, "left"]]
        assert self.said == ["go", "first", answer, "left", "again"]


class Streaming:
    """Shows the first delta when the race begins, and calls a tool when it is over."""

    id = "streaming"

    def __init__(self, races: Races) -> None:
        self._races = races

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
        race = self._races.enter(request)
        if race is None:
            yield TextDelta("again")
            yield ModelTurn("again")
            return
        self._races.dawdle()
        yield TextDelta("first")
        await race.over()
        yield ModelTurn("first", (call("wait", session_id=request.session_id),))


def plain(races: Races) -> Callable[[ModelRequest], ModelTurn]:
    def model(request: ModelRequest) -> ModelTurn:
        race = races.enter(request)
        if race is None:
            return ModelTurn("again")
        races.dawdle()
        return ModelTurn("first", (call("wait", session_id=request.session_id),))

    return model


def brief(races: Races) -> Callable[[ModelRequest], str]:
    def model(request: ModelRequest) -> str:
        race = races.enter(request)
        if race is None:
            return "again"
        races.dawdle()
        return "first"

    return model


@pytest.fixture
def races_on() -> Iterator[Callable[..., Races]]:
    all_races = []

    def start(model: Callable[[Races], Any]) -> Races:
        all_races.append(Races(model))
        return all_races[-1]

    yield start
    for races in all_races:
        races.close()


def check_close(outcomes: Counter[bool]) -> None:
    assert min(outcomes[True], outcomes[False]) > outcomes.total() // 50, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_steer_that_races_the_first_delta_either_cancels_the_call_or_comes_after_its_answer(
    races_on: Callable[..., Races], rounds: int
) -> None:
    races, outcomes = races_on(Streaming), Counter[bool]()
    for number in range(rounds):
        raced = races.run(number)
        raced.check_used_once()
        assert raced.results[0] is raced.results[1]
        if raced.discarded:
            raced.check_asked_again()
            assert raced.shown == ["again"]
        else:
            raced.check_delivered()
            assert raced.shown == ["first", "again"]
            assert [each.outcome for each in raced.of(ToolResultRecorded)] == ["skipped"]
        outcomes[raced.discarded] += 1
    check_close(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", FEWER)
def test_a_steer_that_races_a_function_either_drops_what_it_returns_or_comes_after_it(
    races_on: Callable[..., Races], rounds: int
) -> None:
    races, outcomes = races_on(plain), Counter[bool]()
    for number in range(rounds):
        raced = races.run(number)
        raced.check_used_once()
        assert raced.results[0] is raced.results[1]
        if raced.discarded:
            raced.check_asked_again()
        else:
            raced.check_delivered()
            assert raced.of(ToolResultRecorded)[0].outcome in ("skipped", "ok")
        outcomes[raced.discarded] += 1
    check_close(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", FEWER)
def test_a_steer_that_races_the_end_of_the_turn_either_joins_it_or_runs_as_the_next_one(
    races_on: Callable[..., Races], rounds: int
) -> None:
    races, outcomes = races_on(brief), Counter[bool]()
    for number in range(rounds):
        raced = races.run(number)
        raced.check_used_once()
        mine, steered = raced.results
        assert raced.joined == raced.discarded == (mine is steered)
        if raced.joined:
            raced.check_asked_again()
        else:
            assert raced.said == ["go", "first", "left", "again"]
            assert (mine.text, steered.text) == ("first", "again")
            assert raced.asked == [["go"], ["go", "first", "left"]]
        outcomes[raced.joined] += 1
    check_close(outcomes)
