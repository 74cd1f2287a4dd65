"""What is used is counted once, on its day, whatever is forked and however the log is read."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from happenings import Happenings, Step, counted, steps
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstream.actors import ActorSystem, Agent, Projector, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    ModelTurn,
    ModelTurnRecorded,
    RecordedEvent,
    Usage,
    UserMessage,
    topic_of,
)
from turnstream.projections import ModelUsage, ToolUsage, UsageByDay, project
from turnstream.stores import EventStore, open_store

WAIT = 20
STORES = ("memory://", "sqlite://")


@given(steps)
def test_every_use_is_counted_once_however_sessions_and_forks_interleave(
    happened: list[Step],
) -> None:
    log = Happenings(happened)
    rows = project(UsageByDay(), log.records)
    assert counted(rows.prefixed()) == log.used


@settings(max_examples=40)
@given(steps, st.integers(1, 9), st.sampled_from(STORES))
def test_the_batches_in_which_the_log_is_read_make_no_difference(
    happened: list[Step], batch: int, url: str
) -> None:
    log = Happenings(happened)
    with closing(open_store(url)) as store:
        log.write(store)
        projector = Projector(store, UsageByDay(), batch=batch)
        projector.catch_up()
        assert counted(projector.rows()) == log.used
        projector.rebuild()
        assert counted(projector.rows()) == log.used


@settings(max_examples=40)
@given(steps, steps, st.sampled_from(STORES))
def test_a_reader_that_comes_in_between_makes_no_difference(
    before: list[Step], after: list[Step], url: str
) -> None:
    log = Happenings(before)
    with closing(open_store(url)) as store:
        log.write(store)
        Projector(store, UsageByDay()).catch_up()
        written = len(log.appends)
        for step in after:
            log.take(step)
        log.write(store, after=written)
        projector = Projector(store, UsageByDay(), batch=3)
        projector.catch_up()
        assert counted(projector.rows()) == log.used


def test_a_fork_of_a_fork_takes_back_what_both_copied() -> None:
    once: list[Step] = [("model", 0, 4, 0), ("fork", 0, 9, 0), ("model", 0, 4, 0)]
    log = Happenings([*once, ("fork", 0, 99, 0), ("result", 0, 1, 1), ("model", 0, 4, 0)])
    assert len(log.streams) == 3
    rows = project(UsageByDay(), log.records)
    assert counted(rows.prefixed()) == log.used
    assert rows.get("model/2030-01-01/large/2") == ModelUsage(
        "2030-01-01", "large/2", 3, Usage(12, 3, 6)
    )


def test_a_long_log_leaves_few_notes_behind() -> None:
    """The tallies of a fork's beginning do not pile up with the sessions."""
    happened: list[Step] = [("model", n % 6, 0, n % 4) for n in range(300)]
    rows = project(UsageByDay(), Happenings(happened).records)
    assert [key for key, _ in rows.prefixed() if key not in counted(rows.prefixed())] == []


def test_a_day_is_one_of_utc() -> None:
    late = datetime(2030, 1, 1, 23, 30, tzinfo=timezone(-timedelta(hours=2)))
    turn = ModelTurnRecorded(at=late, turn_id="t", step=1, model="m")
    rows = project(UsageByDay(), [RecordedEvent(1, "s", 1, "", turn)])
    assert list(counted(rows.prefixed())) == ["model/2030-01-02/m"]


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.mark.parametrize("url", STORES)
def test_what_agents_used_is_told_by_day_model_and_tool(url: str) -> None:
    model = ScriptedModel(
        [
            ModelTurn(tool_calls=(call("add", a=1, b=2), call("nothing")), usage=Usage(10, 5)),
            ModelTurn("3", usage=Usage(20, 1)),
        ]
    )
    with (
        closing(open_store(url)) as store,
        ActorSystem(Agent("a", model=model, tools=[add]), store=store) as system,
    ):
        system.session("s").send("go").result(WAIT)
        usage = system.read_model(UsageByDay())
        end = usage.catch_up()
        assert usage.position == end == [*system.events()][-1].position
        today = datetime.now(UTC).date().isoformat()
        rows = [row for _, row in usage.rows("model/")]
        assert rows == [ModelUsage(today, model.id, 2, Usage(30, 6))]
        assert [row for _, row in usage.rows("tool/")] == [
            ToolUsage(today, "add", calls=1, ok=1),
            ToolUsage(today, "nothing", calls=1, error=1),
        ]


@pytest.mark.parametrize("url", STORES)
def test_a_fork_of_a_real_session_counts_what_is_used_in_it(url: str) -> None:
    def model(request: Any) -> ModelTurn:
        asked = isinstance(request.messages[-1], UserMessage)
        calls = (call("add", a=1, b=2),) if asked else ()
        return ModelTurn(tool_calls=calls, usage=Usage(10, 5))

    with (
        closing(open_store(url)) as store,
        ActorSystem(Agent("a", model=model, tools=[add]), store=store) as system,
    ):
        usage = system.read_model(UsageByDay())
        session = system.session("s")
        session.send("go").result(WAIT)
        first, second = session.fork(), session.fork(step=1)
        again = second.fork(session_id="again")
        usage.catch_up()
        counted_once = {row.tool: (row.calls, row.ok) for _, row in usage.rows("tool/")}
        assert counted_once == {"add": (1, 1)}
        for fork in (first, second, again, session):
            fork.send("go on").result(WAIT)
            usage.catch_up()
            assert sum(row.calls for _, row in usage.rows("model/")) == own_answers(store)
        before = usage.rows()
        usage.rebuild()
        assert usage.rows() == before


def own_answers(store: EventStore) -> int:
    """How many answers were recorded in the sessions themselves, not in what they copied."""
    rows = store.sessions()
    shared = {row.session_id: row.forked_from.version if row.forked_from else 0 for row in rows}
    topics = [
        each.topic for sid, copied in shared.items() for each in store.read(sid, after=copied)
    ]
    return topics.count(topic_of(ModelTurnRecorded))
