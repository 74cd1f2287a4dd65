"""A stop that comes while something is being written, and one that is being written itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Event, Thread
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Session, Turn, tool
from turnstream.actors.testing import call, said
from turnstream.events import StoreError, StoreUnavailable, ToolResultRecorded
from turnstream.stores import Append, Appended, EventStore, open_store

WAIT = 20
Run = Callable[..., ActorSystem]


def results(session: Session, after: int = 0) -> list[ToolResultRecorded]:
    events = [each.event for each in session.events(after)]
    return [each for each in events if isinstance(each, ToolResultRecorded)]


def ends(session: Session) -> list[str]:
    return [e.topic for e in session.events() if e.topic in ("turn_finished", "turn_aborted")]


def first_asked(led: Any, turn_id: str) -> Any:
    """The first call of the model in this turn, past those of turns before it."""
    while True:
        asked = led.asked()
        if (asked.request.turn_id, asked.request.step) == (turn_id, 1):
            return asked


class Holding:
    """A real store that holds back the first append with an event of one kind, until it may be
    written. What is appended meanwhile to the same stream can't come before it."""

    def __init__(self, store: EventStore, topic: str) -> None:
        self._store, self._topic = store, topic
        self.held, self.written, self.go = Event(), Event(), Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        if self.held.is_set() or self._topic not in [topic for topic, _ in append.events]:
            self._store.submit(append, done)
            return
        self.held.set()
        Thread(target=self._later, args=(append, done), daemon=True).start()

    def _later(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        assert self.go.wait(WAIT)
        self._store.submit(append, done)


@pytest.fixture
def holding(store: str) -> Iterator[Callable[[str], Holding]]:
    opened = []

    def hold(topic: str) -> Holding:
        opened.append(Holding(open_store(store), topic))
        return opened[-1]

    yield hold
    for each in opened:
        each.close()


Hold = Callable[[str], Holding]


def test_a_stop_that_comes_while_the_end_is_being_written_is_too_late(
    holding: Hold, run: Run, led: Any
) -> None:
    store = holding("turn_finished")
    session = run([], model=led, on=store).session("s")
    turn = session.send("go")
    led.asked().answer("done")
    assert store.held.wait(WAIT)
    reply = turn.abort()
    store.go.set()

    assert reply.result(WAIT) is False
    assert turn.result(WAIT).text == "done"
    assert ends(session) == ["turn_finished"]


def test_nobody_hears_of_the_stop_before_it_is_written(holding: Hold, run: Run, led: Any) -> None:
    store = holding("turn_aborted")
    session = run([], model=led, on=store).session("s")
    turn = session.send("go")
    asked = led.asked()
    reply = turn.abort()
    assert store.held.wait(WAIT)
    asked.answer("too late")

    assert not turn.done()
    with pytest.raises(TimeoutError):
        reply.result(0.01)
    store.go.set()
    assert reply.result(WAIT) is True
    assert turn.result(WAIT).finish_reason == "aborted"
    assert ends(session) == ["turn_aborted"]
    assert "model_turn_recorded" not in [e.topic for e in session.events()]


def test_what_a_call_returns_while_the_stop_is_being_written_starts_nothing(
    holding: Hold, run: Run, led: Any, held: Any
) -> None:
    store = holding("turn_aborted")
    system = run([], model=led, tools=held.tools, on=store, tool_concurrency=1)
    session = system.session("s")
    turn = session.send("go")
    led.asked().answer([call("held_sync", each, text=each) for each in "ab"])
    held.begun("a")
    turn.abort()
    assert store.held.wait(WAIT)
    held.let("a")
    held.let("b")
    store.go.set()

    assert turn.result(WAIT).finish_reason == "aborted"
    following = session.send("next")
    led.asked().answer("fine")
    assert following.result(WAIT).text == "fine"
    assert [(e.call_id, e.outcome) for e in results(session)] == [
        ("a", "cancelled"),
        ("b", "skipped"),
    ]
    assert not held.ran("b") and len(led.requests) == 2


@pytest.mark.parametrize("keep", [False, True], ids=["dropped", "kept"])
def test_a_stop_while_a_result_is_being_written_ends_the_turn_after_it(
    holding: Hold, run: Run, led: Any, held: Any, keep: bool
) -> None:
    store = holding("tool_result_recorded")
    session = run([], model=led, tools=held.tools, on=store).session("s")
    turn = session.send("go")
    held.let("a")
    led.asked().answer([call("held", "a", text="a")])
    assert store.held.wait(WAIT)
    reply = turn.abort(keep=keep)
    store.go.set()

    assert reply.result(WAIT) is True
    assert turn.result(WAIT).finish_reason == "aborted"
    assert [(e.call_id, e.outcome) for e in results(session)] == [("a", "ok")]
    if keep:
        assert session.discard_pending().result(WAIT) is True
    following = session.send("next")
    asked = first_asked(led, "turn-2")
    assert said(asked.request.messages) == ["next"]
    asked.answer("fine")
    assert following.result(WAIT).text == "fine"


def test_a_stop_while_the_turn_is_being_begun_ends_it(holding: Hold, run: Run, led: Any) -> None:
    store = holding("turn_started")
    session = run([], model=led, on=store).session("s")
    turn = session.send("go")
    assert store.held.wait(WAIT)
    reply = turn.abort()
    store.go.set()

    assert reply.result(WAIT) is True
    assert turn.result(WAIT).finish_reason == "aborted"
    assert ends(session) == ["turn_aborted"] and session.pending() is None


Boundary = Callable[[Any, Turn], object]


def finishing(asked: Any, first: Turn) -> None:
    asked.answer("one")


def stopping(asked: Any, first: Turn) -> None:
    first.abort()


@pytest.mark.parametrize(
    ("end", "topic"), [(finishing, "turn_finished"), (stopping, "turn_aborted")]
)
def test_a_stop_at_the_boundary_of_two_turns_strikes_the_one_it_was_meant_for(
    holding: Hold, run: Run, led: Any, end: Boundary, topic: str
) -> None:
    store = holding(topic)
    session = run([], model=led, on=store).session("s")
    first, second, third = (session.send(text) for text in ("one", "two", "three"))
    third.accepted().result(WAIT)
    end(led.asked(), first)
    assert store.held.wait(WAIT)
    too_late, in_time = first.abort(), second.abort()
    store.go.set()

    assert too_late.result(WAIT) is False and in_time.result(WAIT) is True
    first_asked(led, "turn-3").answer("3")
    assert third.result(WAIT).text == "3"
    assert "two" not in said(session.messages)
    assert session.pending() is None and session.resume() is None


class Failing(Holding):
    """A real store that refuses the first append with an event of one kind."""

    def _later(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        done(StoreUnavailable("the disk is full"))


def test_a_stop_that_can_not_be_written_is_told_as_such_and_the_turn_can_be_resumed(
    store: str, run: Run, led: Any
) -> None:
    with closing(open_store(store)) as opened:
        system = run([], model=led, on=Failing(opened, "turn_aborted"))
        session = system.session("s")
        turn = session.send("go")
        led.asked()
        before = list(session.events())
        with pytest.raises(StoreUnavailable, match="disk is full"):
            turn.abort().result(WAIT)

        with pytest.raises(StoreUnavailable):
            turn.result(WAIT)
        assert list(session.events()) == before
        resumed = session.resume()
        led.asked().answer("done")
        assert resumed is not None and resumed.result(WAIT).text == "done"
        system.close()


class Unacknowledged(Holding):
    """A real store that writes the first append with an event of one kind at once, and says so
    when it may."""

    def _later(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        outcome = self._store.append(append)
        self.written.set()
        assert self.go.wait(WAIT)
        done(outcome)


@pytest.mark.parametrize("keep", [False, True], ids=["dropped", "kept"])
def test_nothing_begins_once_the_stop_is_written_although_nobody_was_told_yet(
    store: str, run: Run, led: Any, keep: bool
) -> None:
    loop_is_held, let_go, begun = Event(), Event(), []

    @tool
    async def hold_the_loop() -> None:
        loop_is_held.set()
        let_go.wait(WAIT)

    @tool
    async def begin() -> None:
        begun.append(1)

    with closing(open_store(store)) as opened:
        holding = Unacknowledged(opened, "turn_aborted")
        system = run([], model=led, tools=[hold_the_loop, begin], on=holding)
        turn = system.session("s").send("go")
        led.asked().answer([call("hold_the_loop"), call("begin")])
        assert loop_is_held.wait(WAIT)
        reply = turn.abort(keep=keep)
        assert holding.written.wait(WAIT)
        let_go.set()
        system.session("other").send("hello")
        led.asked()  # on the same loop, and later: what was to begin before it did by now
        holding.go.set()

        assert reply.result(WAIT) is True
        assert begun == []
        system.close(0)
