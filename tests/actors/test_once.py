"""What happened is recorded once, and what did not happen never, whatever fails around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any, cast

import pytest
from places import on_durable_stores

from turnstream.actors import (
    ActorSystem,
    Agent,
    ModelRequest,
    Session,
    TextDelta,
    ToolContext,
    tool,
)
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AssistantMessage,
    ModelFailed,
    ModelTurn,
    ModelTurnRecorded,
    StoreError,
    StoreUnavailable,
    ToolMessage,
    ToolResultRecorded,
    UserMessage,
)
from turnstream.stores import Append, Appended, EventStore

WAIT = 20
Run = Callable[..., ActorSystem]


class Halting:
    """Answers in two pieces; the first time, something happens between them."""

    id = "halting"

    def __init__(self, between: BaseException | None) -> None:
        self._between, self.asked = between, 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelTurn]:
        self.asked += 1
        yield TextDelta("Hel")
        if self.asked == 1 and self._between is not None:
            raise self._between
        yield TextDelta("lo")
        yield ModelTurn("Hello")


@on_durable_stores
def test_an_answer_that_broke_off_is_not_recorded_and_asked_for_again_on_resume(run: Run) -> None:
    model = Halting(ConnectionError("reset"))
    session = run([], model=model).session("s")
    with pytest.raises(ModelFailed, match="reset"):
        session.send("hi").result(WAIT)
    assert not [each for each in session.events() if isinstance(each.event, ModelTurnRecorded)]

    resumed = session.resume()
    assert resumed is not None and resumed.result(WAIT).text == "Hello"
    assert model.asked == 2
    assert [m.text for m in session.messages if isinstance(m, AssistantMessage)] == ["Hello"]


def test_an_answer_is_recorded_whole_although_its_reader_left_in_the_middle(run: Run) -> None:
    session = run([], model=Halting(None)).session("s")
    turn = session.send("hi")
    for item in turn.stream():
        if item.type == "text.delta":
            break

    assert turn.result(WAIT).text == "Hello"
    assert [m.text for m in session.messages if isinstance(m, AssistantMessage)] == ["Hello"]


class Unreadable:
    """A value whose every use raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("do not touch")

    def __repr__(self) -> str:
        raise RuntimeError("do not touch")


@on_durable_stores
def test_a_tool_that_ran_is_not_run_again_although_its_result_can_not_be_recorded(run: Run) -> None:
    paid = []

    @tool
    def pay(amount: int) -> Any:
        paid.append(amount)
        return {"receipt": Unreadable()}

    script = [[call("pay", amount=7)], ConnectionError("down"), "paid"]
    session = run(script, tools=[pay]).session("s")
    with pytest.raises(ModelFailed):
        session.send("pay").result(WAIT)
    resumed = session.resume()
    assert resumed is not None

    (result,) = [m for m in resumed.result(WAIT).messages if isinstance(m, ToolMessage)]
    assert paid == [7]
    assert result.outcome == "error" and "The tool ran" in str(result.content)
    assert sum(isinstance(each.event, ToolResultRecorded) for each in session.events()) == 1


class Unsteady:
    """A store whose first two appends fail."""

    def __init__(self, store: EventStore) -> None:
        self._store, self._appends = store, count(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        if next(self._appends) <= 2:
            done(StoreUnavailable("the disk is full"))
        else:
            self._store.submit(append, done)


def test_a_message_that_was_refused_twice_by_the_store_is_there_once(opened: EventStore) -> None:
    agent, unsteady = Agent("agent", model=ScriptedModel(["done"])), cast("Any", Unsteady(opened))
    with ActorSystem(agent, store=unsteady) as system:
        session = system.session("s")
        for _ in range(2):
            turn = session.send("do X")
            with pytest.raises(StoreUnavailable):
                turn.accepted().result(WAIT)
            assert session.version == 0
        session.send("do X").result(WAIT)

        assert [m.content for m in session.messages if isinstance(m, UserMessage)] == ["do X"]


def charging(paid: list[str]) -> Any:
    @tool
    def charge(context: ToolContext, amount: int) -> str:
        paid.append(context.idempotency_key)
        return f"charged {amount}"

    return charge


def test_equal_calls_are_as_many_calls_wherever_they_are_asked_for(run: Run, store: str) -> None:
    one, two, three, four = (call("charge", f"c{n}", amount=7) for n in range(4))
    script = [[one], [two, three], ConnectionError("down"), "done", [four], "done again"]
    paid = list[str]()
    system = run(script, tools=[charging(paid)], on=store, on_failure="keep")
    session = system.session("s")
    with pytest.raises(ModelFailed):
        session.send("charge").result(WAIT)
    resumed = session.resume()
    assert resumed is not None and resumed.result(WAIT).text == "done"
    assert len(paid) == 3
    assert session.send("charge").result(WAIT).text == "done again"

    assert len(set(paid)) == len(paid) == 4


def never_used(session: Session) -> None:
    pass


def finished(session: Session) -> None:
    session.send("go").result(WAIT)


def at_its_limit(session: Session) -> None:
    assert session.send("sums").result(WAIT).finish_reason == "max-steps"


def stopped(session: Session) -> None:
    session.send("go").result(WAIT)
    session.discard_pending().result(WAIT)


@pytest.mark.parametrize("state", [never_used, finished, at_its_limit, stopped])
def test_resuming_again_and_again_where_nothing_is_unfinished_does_nothing(
    run: Run, state: Callable[[Session], None]
) -> None:
    def model(request: ModelRequest) -> ModelTurn:
        if request.messages[0].content == "sums":
            return ModelTurn(tool_calls=(call("add", a=1, b=2),))
        return ModelTurn("done")

    system = run([], model=model, max_steps=1)
    session = system.session("s")
    state(session)
    version = session.version
    assert [session.resume() for _ in range(5)] == [None] * 5
    assert list(system.resume_all()) == [] and session.version == version


def test_resuming_again_and_again_finishes_what_is_unfinished_once(run: Run, store: str) -> None:
    script = [[call("charge", amount=7)], ConnectionError("down"), "done"]
    paid = list[str]()
    system = run(script, tools=[charging(paid)], on=store, on_failure="keep")
    session = system.session("s")
    with pytest.raises(ModelFailed):
        session.send("charge").result(WAIT)
    turns = [turn for turn in [session.resume() for _ in range(5)] if turn is not None]

    assert {turn.result(WAIT).text for turn in turns} == {"done"}
    assert session.resume() is None and len(paid) == 1
    topics = [each.topic for each in session.events()]
    assert (topics.count("turn_resumed"), topics.count("turn_finished")) == (1, 1)
