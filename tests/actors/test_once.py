"""What happened is recorded once, and what did not happen never, whatever fails around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, ModelRequest, TextDelta, tool
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
from turnstream.stores import Append, Appended, SQLiteStore

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


class Unsteady(SQLiteStore):
    """A store whose first two appends fail."""

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        self._appends = getattr(self, "_appends", count(1))
        if next(self._appends) <= 2:
            done(StoreUnavailable("the disk is full"))
        else:
            super().submit(append, done)


def test_a_message_that_was_refused_twice_by_the_store_is_there_once(tmp_path: Path) -> None:
    agent = Agent("agent", model=ScriptedModel(["done"]))
    with closing(Unsteady(tmp_path / "s.db")) as store, ActorSystem(agent, store=store) as system:
        session = system.session("s")
        for _ in range(2):
            turn = session.send("do X")
            with pytest.raises(StoreUnavailable):
                turn.accepted().result(WAIT)
            assert session.version == 0
        session.send("do X").result(WAIT)

        assert [m.content for m in session.messages if isinstance(m, UserMessage)] == ["do X"]
