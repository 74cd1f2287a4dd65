"""Batches in which some calls wait for decisions: whatever the order, each part happens once."""

from __future__ import annotations

from contextlib import closing
from itertools import permutations
from typing import Any

import pytest
from sending import events

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, Turn, tool
from turnstream.actors.testing import call
from turnstream.events import (
    ModelTurn,
    ModelTurnRecorded,
    ToolMessage,
    ToolResultRecorded,
    TurnFinished,
    UserMessage,
)
from turnstream.projections import check_transcript
from turnstream.stores import EventStore, MemoryStore

WAIT = 20

ran: list[str] = []
asked: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_happened_yet() -> None:
    ran.clear()
    asked.clear()


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    ran.append(path)
    return f"removed {path}"


@tool
def look(path: str) -> str:
    """Look."""
    ran.append(path)
    return f"saw {path}"


@tool
def fall(path: str) -> str:
    """Fall."""
    ran.append(path)
    raise ConnectionError("down")


TOOLS = {"r": remove, "l": look, "f": fall}


def model(request: ModelRequest) -> ModelTurn:
    """One call for each word: a letter for the tool, and a path."""
    asked.append(len(request.messages))
    check_transcript(request.messages)
    last = request.messages[-1]
    if not isinstance(last, UserMessage):
        return ModelTurn("done")
    words = str(last.content).split()
    return ModelTurn(tool_calls=tuple(call(TOOLS[w[0]].name, w, path=w) for w in words))


class Desk:
    """A session on a store, looked at by a new system whenever that is asked for."""

    def __init__(self, store: EventStore, *, restarts: bool) -> None:
        self._store, self._restarts = store, restarts
        self._system = self._start()

    def _start(self) -> ActorSystem:
        return ActorSystem(Agent("agent", model=model, tools=TOOLS.values()), store=self._store)

    @property
    def session(self) -> Session:
        if self._restarts:
            self.close()
            self._system = self._start()
        return self._system.session("s")

    def close(self) -> None:
        self._system.close()


def end_of(turn: Turn, *, streamed: bool) -> Any:
    """The result, from the handle or from the stream's last item."""
    if not streamed:
        return turn.result(WAIT)
    last: Any = list(turn.stream())[-1]
    return last.result


@pytest.mark.parametrize("streamed", [False, True], ids=["result", "stream"])
@pytest.mark.parametrize("restarts", [False, True], ids=["live", "restarted"])
@pytest.mark.parametrize("batch", ["r1 l2 l3", "l1 r2 l3", "l1 l2 r3", "r1 r2 r3"])
def test_an_answer_and_its_calls_are_recorded_once_wherever_the_turn_was_paused(
    batch: str, restarts: bool, streamed: bool, opened: EventStore
) -> None:
    desk = Desk(opened, restarts=restarts)
    result = end_of(desk.session.send(batch), streamed=streamed)
    while result.finish_reason == "awaiting-approval":
        turn = desk.session.approve(result.approvals[-1].id)
        result = end_of(turn, streamed=streamed)
    session = desk.session
    assert result.finish_reason == "stop" and asked == [1, 5]
    assert len(events(session, ModelTurnRecorded)) == 2
    assert len(events(session, TurnFinished)) == 1
    messages = session.messages
    calls = [each.id for each in messages[1].tool_calls]  # type: ignore[union-attr]
    results = [each.call_id for each in messages if isinstance(each, ToolMessage)]
    assert calls == results == batch.split() and sorted(ran) == sorted(calls)
    desk.close()


MIXED = [" ".join(order) for order in permutations(["l1", "r2", "f3", "r4"])]


@pytest.mark.parametrize("restarts", [False, True], ids=["live", "restarted"])
def test_a_call_waits_for_its_decision_whatever_becomes_of_those_beside_it(restarts: bool) -> None:
    for batch in MIXED:
        ran.clear()
        with closing(MemoryStore()) as store:
            desk = Desk(store, restarts=restarts)
            result = desk.session.send(batch).result(WAIT)
            assert sorted(each.call_id for each in result.approvals) == ["r2", "r4"]
            settled = {e.call_id: e.outcome for e in events(desk.session, ToolResultRecorded)}
            assert settled == {"l1": "ok", "f3": "error"}
            first, second = (each.id for each in result.approvals)
            assert desk.session.approve(first).result(WAIT).finish_reason == "awaiting-approval"
            done = desk.session.reject(second).result(WAIT)

            allowed = result.approvals[0].call_id
            outcomes = {"l1": "ok", "f3": "error", "r2": "rejected", "r4": "rejected"}
            outcomes[allowed] = "ok"
            results = [each for each in done.messages if isinstance(each, ToolMessage)]
            assert [(each.call_id, each.outcome) for each in results] == [
                (each, outcomes[each]) for each in batch.split()
            ]
            assert sorted(ran) == sorted(["l1", "f3", allowed])
            desk.close()
