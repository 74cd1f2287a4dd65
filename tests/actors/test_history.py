"""The past: a checkpoint for every step, and the session as it was at any version or time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

import msgspec
import pytest
from travelling import WAIT, assert_sound, resumed, shown, stored, texts, visible

from turnstream.actors import ActorSystem, Session, tool
from turnstream.actors.testing import call
from turnstream.events import (
    CODEC,
    Approval,
    Budget,
    CheckpointNotFound,
    EncodedEvent,
    InputQueued,
    ModelFailed,
    ModelTurn,
    ModelTurnRecorded,
    Owner,
    SessionEvent,
    SessionNotFound,
    SessionStarted,
    ToolCall,
    ToolResultRecorded,
    TurnFinished,
    TurnStarted,
    Usage,
)
from turnstream.projections import fold, fold_usage
from turnstream.stores import Append, EventStore, RowChange

Run = Callable[..., ActorSystem]


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


def eventful(run: Run, led: Any, held: Any, store: EventStore) -> Session:
    """Turns with tools, a queued input, a dropped turn, a failed one that went on, and one that
    ended before its model was asked."""
    system = run([], model=led, tools=held.tools, on=store, on_failure="keep", max_steps=3)
    session = system.session("s")
    turn = session.send("one")
    led.asked().answer([call("held", "c1", text="a"), call("held_sync", "c2", text="b")])
    held.begun("a")
    session.send("also", policy="queue").accepted().result(WAIT)
    held.let("b")
    held.let("a")
    led.asked().answer("first")
    turn.result(WAIT)
    dropped = session.send("two")
    led.asked().answer([call("held", "c3", text="c")])
    held.begun("c")
    dropped.abort().result(WAIT)
    failing = session.send("three")
    led.asked().answer([call("held", "c4", text="a")])
    led.asked().fail(ConnectionError("no route"))
    with pytest.raises(ModelFailed):
        failing.result(WAIT)
    went_on = resumed(session)
    led.asked().answer("third")
    went_on.result(WAIT)
    return session


def test_a_fork_at_each_step_is_what_history_shows_for_it(
    opened: EventStore, run: Run, led: Any, held: Any
) -> None:
    session = eventful(run, led, held, opened)
    before = stored(opened, "s")
    history = session.history()
    assert [each.step for each in history] == [5, 4, 3, 2, 1, 0]
    for entry in history:
        fork = session.fork(step=entry.step)
        assert shown(entry.checkpoint) == visible(fork)
        assert list(fork.messages) == list(entry.checkpoint.messages)
        assert shown(session.at(step=entry.step)) == visible(fork)
        assert session.at(step=entry.step).version == entry.version
        again = session.fork(version=entry.version)
        assert visible(again) == visible(fork)
        older = [(each.step, each.version) for each in history if each.step < entry.step]
        assert [(each.step, each.version) for each in fork.history()[1:]] == older
    assert [texts(shown(each.checkpoint))[-1] for each in history] == [
        *("third", "a", "Stopped while it ran; it may have taken effect."),
        *("first", "b", "one"),
    ]
    assert stored(opened, "s") == before
    assert_sound(opened, *[each.session_id for each in opened.sessions()])


def test_a_step_the_session_never_took_is_refused_with_those_it_has(run: Run) -> None:
    session = run(["hi"]).session("s")
    session.send("hello").result(WAIT)
    for step in (2, -1, 10**30):
        for ask in (session.at, session.fork):
            with pytest.raises(CheckpointNotFound, match="steps 0 to 1") as refusal:
                ask(step=step)
            assert refusal.value.session_id == "s"
        with pytest.raises(CheckpointNotFound, match="steps 0 to 1"):
            session.rewind(to_step=step).result(WAIT)
    for version in (0, -1, session.version + 1):
        with pytest.raises(CheckpointNotFound, match=f"versions 1 to {session.version}"):
            session.at(version=version)


def test_history_is_newest_first_and_as_long_as_asked_for(run: Run) -> None:
    session = run(["a", "b", "c"]).session("s")
    for text in "xyz":
        session.send(text).result(WAIT)
    assert [each.step for each in session.history()] == [3, 2, 1, 0]
    assert [each.step for each in session.history(limit=2)] == [3, 2]
    assert session.history(limit=0) == []
    assert [each.status for each in session.history()] == ["idle", "idle", "idle", "running"]
    saved = [each.saved_at for each in session.history()]
    assert saved == sorted(saved, reverse=True) and saved[0].tzinfo is UTC
    with pytest.raises(ValueError, match="limit"):
        session.history(limit=-1)


def test_a_session_that_does_not_exist_has_no_history_and_no_past(run: Run) -> None:
    session = run([]).session("nobody")
    assert session.history() == []
    assert (session.resume(), session.pending(), session.messages) == (None, None, [])
    for ask in (
        lambda: session.at(version=1),
        lambda: session.at(step=0),
        session.fork,
        session.lineage,
        session.rewind(to_step=0).result,
    ):
        with pytest.raises(SessionNotFound):
            ask()
    assert session.version == 0


def test_every_version_can_be_looked_at(opened: EventStore, run: Run, led: Any, held: Any) -> None:
    session = eventful(run, led, held, opened)
    events = [each.event for each in session.events()]
    for version in range(1, len(events) + 1):
        view = session.at(version=version)
        assert view.folded == fold(events[:version])
        assert view.usage == fold_usage(events[:version])
        assert asyncio.run(_viewed(session, version)).folded == view.folded
    now = asyncio.run(_viewed(session, None))
    assert (now.version, list(now.messages)) == (len(events), list(session.messages))


async def _viewed(session: Session, version: int | None) -> Any:
    return await session.view(version=version)


def written(store: EventStore, events: list[SessionEvent], *more: EncodedEvent) -> None:
    encoded, head = CODEC.chained(events)
    row = RowChange("idle", "agent", events[-1].at, head=head)
    store.append(Append("s", 0, (*encoded, *more), row))


def steps_of(count: int, result: str, noon: datetime) -> list[SessionEvent]:
    """A session of one turn with so many calls, a second apart."""
    budget, owner = Budget(max_steps=count), Owner(1, "node")
    turn: dict[str, Any] = {"turn_id": "turn-1"}
    events: list[SessionEvent] = [
        SessionStarted(at=noon, agent="agent"),
        InputQueued(at=noon, input_id="i", content="go"),
        TurnStarted(at=noon, input_ids=("i",), agent="agent", budget=budget, owner=owner, **turn),
    ]
    for step in range(1, count + 1):
        at, call_id = noon + timedelta(seconds=step), f"c{step}"
        calls = (ToolCall(call_id, "add"),)
        events.append(ModelTurnRecorded(at=at, step=step, tool_calls=calls, **turn))
        events.append(ToolResultRecorded(at=at, call_id=call_id, content=result, **turn))
    return [*events, TurnFinished(at=events[-1].at, finish_reason="max-steps", **turn)]


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_time_is_the_last_version_that_had_happened_by_then(opened: EventStore, run: Run) -> None:
    unknown = EncodedEvent("from_later", b"{}")
    written(opened, steps_of(3, "r", NOON), unknown)
    session = run([], on=opened).session("s")
    versions = {0: 3, 1: 5, 2: 7, 2.5: 7, 3: 11, 99: 11}
    for seconds, version in versions.items():
        assert session.at(time=NOON + timedelta(seconds=seconds)).version == version
    with pytest.raises(CheckpointNotFound, match="from 2026-01-01T12:00:00"):
        session.at(time=NOON - timedelta(microseconds=1))


def test_a_point_is_one_thing_of_the_right_kind(run: Run) -> None:
    session = run(["hi"]).session("s")
    session.send("hello").result(WAIT)
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (TypeError, {}),
        (TypeError, {"version": 1, "step": 1}),
        (TypeError, {"version": True}),
        (TypeError, {"step": "1"}),
        (ValueError, {"time": datetime(2026, 1, 1)}),  # noqa: DTZ001
        (ValueError, {"time": 5}),
    ]
    for error, point in wrong:
        with pytest.raises(error):
            session.at(**point)
    for given in ({}, {"to_step": 0, "keep_entries": 1}, {"keep_entries": True}):
        with pytest.raises(TypeError):
            session.rewind(**given)  # type: ignore[arg-type]


def test_steps_before_a_failure_can_be_forked_at_once_and_after_a_restart(
    opened: EventStore, run: Run
) -> None:
    script = [[call("add", a=1, b=2)], [call("add", a=3, b=4)], ConnectionError("no route")]
    session = run(script, on=opened, on_failure="keep").session("s")
    with pytest.raises(ModelFailed):
        session.send("go").result(WAIT)
    assert [(each.step, each.status) for each in session.history()] == [
        (2, "failed"),
        (1, "running"),
        (0, "running"),
    ]
    system = run(["again", "again"], on=opened)
    later = system.session("s")
    assert [each.version for each in later.history()] == [e.version for e in session.history()]
    for handle in (session, later):
        fork = handle.fork(step=2)
        assert fork.status == "aborted" and visible(fork) == visible(session)
        assert resumed(later._system.session(fork.id)).result(WAIT).text == "again"
    assert session.status == "failed"


def test_an_open_question_is_the_same_wherever_it_is_read(opened: EventStore, run: Run) -> None:
    script = [[call("remove", "c1", path="x")]]
    system = run(script, on=opened, tools=[remove])
    session = system.session("s")
    session.send("go").result(WAIT)
    (asked,) = system.approvals()
    others = [
        *(session, system.session("s"), run([], on=opened, tools=[remove]).session("s")),
    ]
    for each in others:
        pending, (newest, *_) = each.pending(), each.history()
        assert pending is not None and pending.approvals == (asked,)
        then = newest.checkpoint.pending
        assert then is not None and newest.status == "awaiting-approval"
        read = msgspec.json.decode(msgspec.json.encode(then.approvals), type=tuple[Approval, ...])
        assert read == (asked,)
    assert (asked.call_id, asked.tool, asked.arguments) == ("c1", "remove", {"path": "x"})


def test_a_long_history_costs_no_more_than_its_events(opened: EventStore, run: Run) -> None:
    events = steps_of(2000, "r" * 1000, NOON)
    written(opened, events)
    session = run([], on=opened).session("s")
    row = opened.session("s")
    assert row is not None and row.size < 4 * 2_000_000
    began = perf_counter()
    history = session.history()
    assert len(history) == 2001 and perf_counter() - began < 5
    assert opened.session("s") == row
    assert len(shown(session.at(step=1000))) == 2001
    began = perf_counter()
    fork = session.fork(step=1000)
    assert perf_counter() - began < 2
    assert fork.rewind(keep_entries=9).result(WAIT) is True
    assert resumed(session.fork(version=row.version - 1)).result(WAIT).finish_reason == "max-steps"
    assert perf_counter() - began < 5


def test_usage_is_told_as_of_then(run: Run) -> None:
    answers = [ModelTurn(text, usage=Usage(10, 1)) for text in "abc"]
    session = run(answers).session("s")
    for text in "xyz":
        session.send(text).result(WAIT)
    assert [each.checkpoint.usage.recorded for each in session.history()] == [
        *(Usage(30, 3), Usage(20, 2), Usage(10, 1), Usage()),
    ]
