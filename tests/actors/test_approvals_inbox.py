"""What waits for decisions, over all sessions: always what the streams say."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstream.actors import (
    ActorSystem,
    Agent,
    ModelRequest,
    Session,
    Tool,
    import_transcript,
    tool,
)
from turnstream.actors.testing import call
from turnstream.events import (
    CODEC,
    Approval,
    ApprovalNotFound,
    ApprovalRequested,
    ModelTurn,
    SessionDeleted,
    StoreError,
    TurnstreamError,
    UserMessage,
)
from turnstream.projections import fold
from turnstream.stores import Append, Appended, EventStore, MemoryStore, open_store
from turnstream.stores.specimens import ALIKE, NOON

WAIT = 20
Run = Callable[..., ActorSystem]

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    ran.append(path)
    return path


@tool
def look(path: str) -> str:
    """Look."""
    return path


@tool(needs_approval=True, approval_timeout=1e-4)
def hurry(path: str) -> str:
    """Hurry."""
    return path


def keep(**arguments: Any) -> None:
    ran.append(arguments)


anything = Tool.from_schema("anything", keep, {}, needs_approval=True)
LETTERS = {"r": "remove", "l": "look", "h": "hurry"}


def obedient(request: ModelRequest) -> ModelTurn:
    """For each letter of what it was told a call, then be done."""
    last = request.messages[-1]
    if not isinstance(last, UserMessage):
        return ModelTurn("done")
    return ModelTurn(tool_calls=tuple(call(LETTERS[x], path=x) for x in str(last.content)))


class Watched:
    """A store that keeps what was appended to it."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.appended: list[Append] = []

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        def told(outcome: Appended | StoreError) -> None:
            if isinstance(outcome, Appended):
                self.appended.append(append)
            done(outcome)

        self._store.submit(append, told)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


ACTIONS: list[Callable[[Session, str], Any]] = [
    lambda session, question: session.send("rlr"),
    lambda session, question: session.send("hr", policy="queue"),
    lambda session, question: session.send("rl", policy="steer"),
    lambda session, question: session.approve(question),
    lambda session, question: session.approve(question, arguments={"path": "edited"}),
    lambda session, question: session.approve(question, arguments={}),
    lambda session, question: session.reject(question, note="no"),
    lambda session, question: session.send("r").abort(),
    lambda session, question: session.send("r").abort(keep=True),
    lambda session, question: session.resume(),
    lambda session, question: (turn := session.resume()) and turn.abort(keep=True),
    lambda session, question: session.discard_pending(),
]


@pytest.mark.slow
@pytest.mark.parametrize("address", ["memory://", "sqlite://"])
@settings(max_examples=60)
@given(actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3)), max_size=12))
def test_the_row_of_a_session_holds_what_its_stream_waits_for_after_every_append(
    address: str, actions: list[Any]
) -> None:
    with closing(open_store(address)) as store:
        watched: Any = Watched(store)
        agent = Agent("agent", model=obedient, tools=[remove, look, hurry], tool_concurrency=2)
        with ActorSystem(agent, store=watched) as system:
            session = system.session("s")
            session.send("rlr").result(WAIT)
            for action, place in actions:
                waiting = system.approvals()
                question = waiting[place % len(waiting)].id if waiting else "s/turn-1.1.1"
                with suppress(TurnstreamError, TimeoutError):
                    if handle := action(session, question):
                        handle.result(0.02)  # it may wait for other decisions

        events: list[Any] = [each.event for each in map(CODEC.recorded, store.read("s"))]
        for each in watched.appended:
            state = fold(events[: each.expected_version + len(each.events)])
            assert each.row.approvals == state.approvals("s")
            assert each.row.status == state.status
        row = store.session("s")
        assert row is not None and row.version == len(events)
        assert row.approvals == fold(events).approvals("s")


def test_the_inbox_lists_the_oldest_first_and_what_is_asked_for(run: Run, place: Any) -> None:
    agents = [Agent(name, model=obedient, tools=[remove]) for name in ("one", "two")]
    with ActorSystem(agents, store=place) as system:
        asked: list[Approval] = []
        for n, (agent, tenant) in enumerate(
            [("two", "y"), ("one", "x"), ("one", "y"), ("two", "x")]
        ):
            session = system.session(f"s{9 - n}", agent=agent, tenant=tenant)
            asked += session.send("rr" if n == 1 else "r").result(WAIT).approvals
        ids = [each.id for each in asked]

        assert [each.id for each in system.approvals()] == ids
        assert [each.id for each in system.approvals(agent="one")] == ids[1:4]
        assert [each.id for each in system.approvals(tenant="x")] == [*ids[1:3], ids[4]]
        assert [each.id for each in system.approvals(agent="two", tenant="y")] == ids[:1]
        assert list(system.approvals(agent="three")) == list(system.approvals(tenant="z")) == []
        system.reject(ids[1]).result(WAIT)
        assert [each.id for each in system.approvals()] == [ids[0], *ids[2:]]


@dataclass
class Point:
    x: int
    y: float


def deep(levels: int) -> Any:
    nested: Any = "bottom"
    for _ in range(levels):
        nested = [nested]
    return nested


EXOTIC: dict[str, Any] = {
    "half a pair": {"a\ud83d b": "\ud83d"},
    "no text": {"x": "\0\x1b\u2028\n", "": ""},
    "numbers": {"big": 10**40, "inf": float("-inf"), "zero": -0.0, "tiny": 5e-324},
    "values": {"b": b"\0\xff", "d": date(2024, 2, 29), "m": Decimal("1.10"), "t": NOON},
    "keys": {"inner": {1: "one", None: "none", "1": "text"}},
    "tagged": {"$": "x", "$bytes": "AA==", "type": "approval"},
    "deep": {"x": deep(100)},
    "large": {"x": "ä" * 3_000_000},
    "sql": {"x": "'); DROP TABLE sessions; --", "%s": "?"},
}  # fmt: skip


@pytest.mark.parametrize("arguments", EXOTIC.values(), ids=list(EXOTIC))
def test_whatever_the_arguments_are_the_inbox_shows_them_and_the_call_runs_with_them(
    run: Run, place: Any, arguments: dict[str, Any]
) -> None:
    calls = ModelTurn(tool_calls=(call("anything", **arguments),))
    script = run([calls], tools=[anything], on=place)
    result = script.session("s").send("go").result(WAIT)
    system = run(["done"], tools=[anything], on=place)
    (waiting,) = system.approvals()

    assert repr(waiting.arguments) == repr(result.approvals[0].arguments)
    assert system.approve(waiting.id).result(WAIT).text == "done"
    assert [repr(each) for each in ran] == [repr(arguments)]


@pytest.mark.parametrize("edited", EXOTIC.values(), ids=list(EXOTIC))
def test_whatever_the_edited_arguments_are_the_call_runs_with_them(
    run: Run, edited: dict[str, Any]
) -> None:
    session = run([[call("anything", x=1)], "done", "again"], tools=[anything]).session("s")
    session.send("go").result(WAIT)
    session.approve("s/turn-1.1.1", arguments=edited).result(WAIT)

    assert [repr(each) for each in ran] == [repr(edited)]
    assert session.send("go").result(WAIT).text == "again"


@pytest.mark.parametrize("session_id", [*ALIKE, "s/turn-1.1.1"])
def test_a_question_is_decided_cold_whatever_its_session_is_called(
    run: Run, place: Any, session_id: str
) -> None:
    run([], model=obedient, tools=[remove], on=place).session(session_id).send("r").result(WAIT)
    system = run([], model=obedient, tools=[remove], on=place)
    (waiting,) = system.approvals()

    assert waiting.session_id == session_id
    assert system.approve(waiting.id).result(WAIT).text == "done" and ran == ["r"]


@pytest.mark.parametrize("text", ["a\ud83d b", "\0", "x" * 5_000_000, "'"], ids=len)
def test_who_decided_and_why_may_be_any_text(run: Run, text: str) -> None:
    session = run([], model=obedient, tools=[remove]).session("s")
    session.send("r").result(WAIT)
    session.reject("s/turn-1.1.1", by=text, note=text).result(WAIT)

    assert len(session.messages) == 4 and session.status == "idle"


@pytest.mark.parametrize(
    "wrong", [{"by": 7}, {"by": None}, {"note": ["x"]}, {"note": b"x"}], ids=str
)
@pytest.mark.parametrize("how", ["approve", "reject"])
def test_who_decided_and_why_are_text_or_nothing_is_decided(
    run: Run, how: str, wrong: dict[str, Any]
) -> None:
    session = run([], model=obedient, tools=[remove]).session("s")
    session.send("r").result(WAIT)
    before = session.version
    with pytest.raises((TypeError, ValueError, TurnstreamError)):
        getattr(session, how)("s/turn-1.1.1", **wrong).result(WAIT)

    assert session.version == before and session.status == "awaiting-approval"


@pytest.mark.parametrize("open", [True, False], ids=["open", "cold"])
def test_the_questions_of_a_deleted_session_are_gone_and_nothing_runs(
    run: Run, place: Any, open: bool
) -> None:
    system = run([], model=obedient, tools=[remove], on=place)
    for each in "st":
        system.session(each).send("r").result(WAIT)
    if not open:
        system = run([], model=obedient, tools=[remove], on=place)
    system._store.delete("s")

    assert [each.session_id for each in system.approvals()] == ["t"]
    with pytest.raises((ApprovalNotFound, SessionDeleted)):
        system.approve("s/turn-1.1.1").result(WAIT)
    assert ran == [] and [each.session_id for each in system.sessions()] == ["t"]


def test_a_tombstone_keeps_nothing_of_what_was_asked(tmp_path: Path) -> None:
    secret = "the-secret-path"
    answer = ModelTurn(tool_calls=(call("remove", path=secret),))
    agent = Agent("agent", model=lambda request: answer, tools=[remove])
    with ActorSystem(agent, store=f"sqlite:///{tmp_path}/s.db") as system:
        system.session("s").send("go").result(WAIT)
        system._store.delete("s")
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        rows = connection.execute("SELECT * FROM sessions").fetchall()

    assert len(rows) == 1 and secret not in repr(rows)


GATED = {
    "id": "c",
    "type": "function",
    "function": {"name": "remove", "arguments": '{"path": "a"}'},
}
ASKS: dict[str, Any] = {"role": "assistant", "tool_calls": [GATED]}
OPENINGS: dict[str, Callable[[ActorSystem], Any]] = {
    "resume": lambda system: [system.session("s").resume()],
    "resume all": lambda system: system.resume_all(),
    "send": lambda system: [system.session("s").send("r")],
    "execute": lambda system: [system.session("s").execute("r")],
}


@pytest.mark.parametrize("way", OPENINGS.values(), ids=list(OPENINGS))
def test_an_imported_conversation_that_ends_in_a_gated_call_asks_before_it_runs(
    run: Run, store: str, way: Callable[[ActorSystem], Any]
) -> None:
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "r"},
        ASKS,
        {"role": "tool", "tool_call_id": "c", "content": "a"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "again"},
        ASKS,
    ]
    place = open_store(store)
    import_transcript(chat, place, "s", agent="agent")
    with closing(place):
        system = run([], model=obedient, tools=[remove], on=place)
        assert list(system.approvals()) == []
        (turn,) = way(system)
        turn.accepted().result(WAIT)
        (waiting,) = system.approvals()

        assert (waiting.id, waiting.call_id, ran) == ("s/turn-2.1.1", "c", [])
        assert system.session("s").status == "awaiting-approval"
        system.approve(waiting.id).result(WAIT)
        assert ran[0] == "a"
        asked = [each.event for each in system.session("s").events()]
        questions = [each.call_id for each in asked if isinstance(each, ApprovalRequested)]
        assert questions[0] == "c"


def test_a_conversation_that_begins_with_a_gated_call_asks_and_goes_on(run: Run) -> None:
    place = MemoryStore()
    import_transcript([ASKS], place, "s", agent="agent")
    system = run([], model=obedient, tools=[remove], on=place)
    resumed = system.session("s").resume()

    assert resumed is not None
    assert [each.id for each in resumed.result(WAIT).approvals] == ["s/turn-1.1.1"] and ran == []
    assert system.approve("s/turn-1.1.1").result(WAIT).text == "done" and ran == ["a"]


def test_async_callers_decide_and_await(store: str) -> None:
    async def main() -> None:
        agent = Agent("agent", model=obedient, tools=[remove])
        async with ActorSystem(agent, store=store) as system:
            paused = await asyncio.wait_for(system.session("s").send("rr"), WAIT)
            one, two = (system.approve(each.id) for each in paused.approvals)
            assert await one.accepted() and (await asyncio.wait_for(two, WAIT)).text == "done"
            assert (await one).turn_id == "turn-1" and ran == ["r", "r"]

    asyncio.run(main())
