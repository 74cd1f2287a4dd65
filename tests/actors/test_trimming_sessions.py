"""Old tool results made short: in one append, once, through the mailbox like everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sending import events
from travelling import WAIT, assert_sound, stored, texts

from turnstream.actors import ActorSystem, Agent, Session, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    StoreError,
    StoreUnavailable,
    ToolMessage,
    ToolResultRecorded,
    ToolResultsTrimmed,
)
from turnstream.projections import check_transcript
from turnstream.stores import Append, Appended, EventStore

Run = Callable[..., ActorSystem]
LENGTHS = (0, 1, 399, 400, 401, 436, 450, 1000, 4000, 5000)


@tool
def fetch(length: int) -> str:
    """Fetch."""
    return "x" * length


def script(lengths: tuple[int, ...] = LENGTHS) -> list[Any]:
    return [line for n in lengths for line in ([call("fetch", length=n)], "ok")]


def fetched(run: Run, store: EventStore, *more: Any) -> Session:
    """A turn for each length."""
    session = run([*script(), *more], on=store, tools=[fetch]).session("s")
    for length in LENGTHS:
        session.send(str(length)).result(WAIT)
    return session


def lengths(session: Session) -> list[int]:
    return [len(each.content) for each in session.messages if isinstance(each, ToolMessage)]


def test_only_old_results_get_shorter_and_only_once(opened: EventStore, run: Run) -> None:
    session = fetched(run, opened)
    before, recorded = session.messages, stored(opened, "s")
    assert session.trim_tool_results(keep_chars=400, keep_turns=1, by="ada").result(WAIT) == 4
    assert session.trim_tool_results(keep_chars=400, keep_turns=1).result(WAIT) == 0
    assert lengths(session) == [0, 1, 399, 400, 401, 433, 433, 434, 435, 5000]
    check_transcript(session.messages)
    kept = [
        (type(each), getattr(each, "call_id", ""), getattr(each, "text", "")) for each in before
    ]
    assert kept == [
        (type(each), getattr(each, "call_id", ""), getattr(each, "text", ""))
        for each in session.messages
    ]
    assert stored(opened, "s")[: len(recorded)] == recorded
    (trimmed,) = events(session, ToolResultsTrimmed)
    assert trimmed.by == "ada" and session.version == len(recorded) + 1
    assert len(events(session, ToolResultRecorded)[-2].content) == 4000


def test_the_model_reads_the_short_ones_from_then_on(opened: EventStore, run: Run) -> None:
    model = ScriptedModel([*script((900, 5)), "read"])
    session = run([], model=model, on=opened, tools=[fetch]).session("s")
    for text in "ab":
        session.send(text).result(WAIT)
    session.trim_tool_results(keep_chars=10).result(WAIT)
    session.send("c").result(WAIT)
    results = [m for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
    assert texts(results) == ["xxxxxxxxxx[890 more characters were trimmed]", "xxxxx"]


def test_a_fork_of_a_trimmed_session_reads_the_short_ones_and_an_earlier_one_does_not(
    opened: EventStore, run: Run
) -> None:
    session = fetched(run, opened)
    version = session.version
    session.trim_tool_results().result(WAIT)
    assert lengths(session.fork()) == lengths(session)
    assert lengths(session.fork(version=version)) == list(LENGTHS)
    session.rewind(to_version=version).result(WAIT)
    assert lengths(session) == list(LENGTHS)


class Failing:
    """A store that takes nothing, as long as it is told so."""

    def __init__(self, store: EventStore) -> None:
        self._store, self.fails = store, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        if self.fails:
            done(StoreUnavailable("the disk is full"))
        else:
            self._store.submit(append, done)


def test_a_trim_that_can_not_be_written_changes_nothing(opened: EventStore, run: Run) -> None:
    failing = Failing(opened)
    session = fetched(run, failing, "ok")  # type: ignore[arg-type]
    before = stored(opened, "s")
    failing.fails = True
    with pytest.raises(StoreUnavailable):
        session.trim_tool_results().result(WAIT)
    failing.fails = False
    assert stored(opened, "s") == before and lengths(session) == list(LENGTHS)
    assert session.trim_tool_results().result(WAIT) == 4


def test_while_a_model_thinks_it_disturbs_nothing(opened: EventStore, run: Run, led: Any) -> None:
    session = run([], model=led, on=opened, tools=[fetch]).session("s")
    turn = session.send("a")
    led.asked().answer([call("fetch", length=900)])
    led.asked().answer("ok")
    turn.result(WAIT)
    trim, nxt = session.trim_tool_results(keep_chars=5), session.send("b")
    asked = led.asked()
    assert trim.result(WAIT) == 0
    assert session.trim_tool_results(keep_chars=5).result(WAIT) == 1
    asked.answer([call("fetch", length=900)])
    last = led.asked()
    assert [len(str(m.content)) for m in last.request.messages if isinstance(m, ToolMessage)] == [
        *(39, 900)
    ]
    last.answer("done")
    assert nxt.result(WAIT).text == "done"
    assert [each.version for each in session.events()] == [*range(1, session.version + 1)]


def test_one_that_knows_less_than_was_written_trims_what_is_there(
    opened: EventStore, run: Run
) -> None:
    one = fetched(run, opened)
    agent = Agent("agent", model=ScriptedModel(script((2000, 2000, 7))), tools=[fetch])
    with ActorSystem(agent, store=opened) as other:
        for text in "xyz":
            other.session("s").send(text).result(WAIT)
        recorded = stored(opened, "s")
        assert one.trim_tool_results().result(WAIT) == 7
        assert stored(opened, "s")[: len(recorded)] == recorded
        assert lengths(other.session("s"))[-3:] == [435, 435, 7]
    assert_sound(opened, "s")


@pytest.mark.parametrize(
    ("error", "given"),
    [
        (ValueError, {"keep_chars": -1}),
        (ValueError, {"keep_turns": -1}),
        (TypeError, {"keep_chars": 1.5}),
        (TypeError, {"keep_turns": None}),
        (TypeError, {"by": 1}),
    ],
)
def test_an_invalid_request_is_refused_at_once(
    opened: EventStore, run: Run, error: type[Exception], given: dict[str, Any]
) -> None:
    session = run([], on=opened).session("s")
    with pytest.raises(error):
        session.trim_tool_results(**given)
