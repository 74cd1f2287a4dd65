"""What fails in one session stays there: callers are told, it goes on, and no other is touched."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event
from typing import Any

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, ModelRequest, tool
from turnstream.actors.testing import call, said
from turnstream.events import (
    InputQueued,
    MailboxFull,
    ModelTurn,
    SessionCrashed,
    ToolMessage,
    TurnWithdrawn,
    UserMessage,
)
from turnstream.stores import Append, open_store

WAIT = 20
Run = Callable[..., ActorSystem]

pytestmark = pytest.mark.usefixtures("without_logs")


@pytest.fixture
def without_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Tracebacks of failures that are asked for here say nothing."""
    for name in ("turnstream", "pykka"):
        caplog.set_level("CRITICAL", name)


class Troubled:
    """A real store with something that happens before each append and each reading."""

    def __init__(self, address: str) -> None:
        self._store = open_store(address)
        self.before_append: Callable[[Append], object] = lambda append: None
        self.before_reading: Callable[[str], object] = lambda session_id: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, append: Append, done: Callable[[Any], None]) -> None:
        self.before_append(append)
        self._store.submit(append, done)

    def replay(self, session_id: str, **places: Any) -> Any:
        self.before_reading(session_id)
        return self._store.replay(session_id, **places)


class Failing:
    """Raises ``error``: each time, or the ``nth`` time only. ``only``: for that session."""

    def __init__(self, error: BaseException, *, nth: int = 0, only: str = "") -> None:
        self._error, self._nth, self._only = error, nth, only
        self._count, self.times = count(1), 0

    def __call__(self, what: Append | str) -> None:
        session_id = what if isinstance(what, str) else what.session_id
        if self._only in ("", session_id) and (not self._nth or next(self._count) == self._nth):
            self.times += 1
            raise self._error


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def answer(request: ModelRequest) -> ModelTurn:
    """Two sums, then an answer; anything else is answered at once."""
    if request.messages[-1] == UserMessage("sums"):
        return ModelTurn(tool_calls=(call("add", a=1, b=1, id="x"), call("add", a=2, b=2, id="y")))
    return ModelTurn("done")


@contextmanager
def troubled(address: str, model: Any = answer, **options: Any) -> Iterator[tuple[Any, Troubled]]:
    store: Any = Troubled(address)
    agent = Agent("agent", model=model, tools=[add])
    with ActorSystem(agent, store=store, **options) as system:
        yield system, store
    store.close()


@pytest.mark.parametrize("nth", range(1, 6))
def test_an_error_in_the_handler_fails_the_caller_and_the_next_message_finds_the_stream(
    store: str, nth: int
) -> None:
    with troubled(store) as (system, trouble):
        session, bug = system.session("s"), RuntimeError("bug")
        trouble.before_append = Failing(bug, nth=nth)
        turn = session.send("sums")
        items = [item.type for item in turn.stream()]
        with pytest.raises(SessionCrashed, match="RuntimeError") as raised:
            turn.result(WAIT)

        assert items[-2:] == ["error", "turn.done"]
        assert raised.value.__cause__ is bug
        assert session.send("sums").result(WAIT).text == "done"
        assert Counter(map(type, session.messages))[ToolMessage] == 2
        assert Counter(said(session.messages))["sums"] == 1


def test_an_error_while_a_session_is_read_fails_the_request_and_serves_the_next(
    store: str,
) -> None:
    with troubled(store) as (system, trouble):
        trouble.before_reading = Failing(RuntimeError("bug"), nth=1)
        turn = system.session("s").send("hello")
        for wait in (turn.accepted().result, turn.result):
            with pytest.raises(SessionCrashed):
                wait(WAIT)
        assert system.session("s").send("hello").result(WAIT).text == "done"
        assert said(system.session("s").messages) == ["hello", "done"]


def test_an_error_in_the_handler_reaches_whoever_waits_for_a_reply_too(store: str) -> None:
    with troubled(store) as (system, trouble):
        trouble.before_reading = Failing(RuntimeError("bug"), nth=1)
        with pytest.raises(SessionCrashed):
            system.session("s").discard_pending().result(WAIT)


def test_everybody_who_waits_hears_of_the_same_error_and_what_was_accepted_is_used(
    store: str, led: Any
) -> None:
    with troubled(store, led) as (system, trouble):
        session = system.session("s")
        started = session.send("one")
        asked = led.asked()
        turns = [started, session.send("two"), session.send("three", policy="queue")]
        for turn in turns:
            turn.accepted().result(WAIT)
        trouble.before_append = Failing(RuntimeError("bug"), nth=1)
        asked.answer("lost with the append")
        errors = []
        for turn in turns:
            with pytest.raises(SessionCrashed) as raised:
                turn.result(WAIT)
            errors.append(raised.value)
        last = session.send("four")
        for text in ("first", "second", "third"):
            led.asked().answer(text)

        assert len(set(map(id, errors))) == 1
        assert last.result(WAIT).text == "third"
        assert said(session.messages) == ["one", "three", "first", "two", "second", "four", "third"]


@pytest.mark.parametrize("error", [RuntimeError("bug"), SystemExit(), RecursionError()], ids=repr)
@pytest.mark.parametrize("where", ["before_append", "before_reading"])
def test_a_session_that_fails_again_and_again_neither_spins_nor_takes_others_down(
    store: str, error: BaseException, where: str
) -> None:
    with troubled(store) as (system, trouble):
        failing = Failing(error, only="bad")
        setattr(trouble, where, failing)
        bad = [system.session("bad").send(f"input {n}") for n in range(30)]
        good = [system.session(f"good {n % 5}").send(f"input {n}") for n in range(30)]
        assert {turn.result(WAIT).text for turn in good} == {"done"}
        for turn in bad:
            with pytest.raises(SessionCrashed):
                turn.result(WAIT)
        assert 1 <= failing.times <= len(bad)
        setattr(trouble, where, lambda what: None)
        again = system.session("bad").send("now")
        assert again.result(WAIT).text == "done"
        assert said(system.session("bad").messages) == ["now", "done"]


def test_a_full_mailbox_refuses_inputs_of_every_kind_and_accepts_nothing_of_them(
    run: Run, led: Any
) -> None:
    session = run([], model=led, mailbox_limit=3).session("s")
    turns = [session.send("one")]
    asked = led.asked()
    turns += [session.send(text) for text in ("two", "three", "four")]
    for turn in turns:
        turn.accepted().result(WAIT)
    for policy in ("wait", "queue", "steer"):
        with pytest.raises(MailboxFull):
            session.send("too many", policy=policy).accepted().result(WAIT)
    with pytest.raises(MailboxFull):
        session.execute("too many").result(WAIT)

    events = [each.event for each in session.events()]
    queued = [each.content for each in events if isinstance(each, InputQueued)]
    assert queued == ["one", "two", "three", "four"]
    asked.answer("1")
    for text in ("2", "3", "4"):
        led.asked().answer(text)
    assert [turn.result(WAIT).text for turn in turns] == ["1", "2", "3", "4"]


def test_a_full_mailbox_has_room_again_once_an_input_was_taken_back(run: Run, led: Any) -> None:
    session = run([], model=led, mailbox_limit=1).session("s")
    session.send("one")
    led.asked()
    waiting = session.send("two")
    with pytest.raises(MailboxFull):
        session.send("three").accepted().result(WAIT)
    assert waiting.withdraw().result(WAIT)
    assert session.send("three").accepted().result(WAIT)


def test_control_is_not_refused_where_unread_messages_fill_the_mailbox(
    store: str, led: Any
) -> None:
    reached, go = Event(), Event()

    def hold(append: Append) -> None:
        reached.set()
        assert go.wait(WAIT)

    with troubled(store, led, mailbox_limit=2) as (system, trouble):
        session = system.session("s")
        trouble.before_append = hold
        one = session.send("one")
        assert reached.wait(WAIT)
        two, three = session.send("two"), session.send("three")
        with pytest.raises(MailboxFull):
            session.send("four").accepted().result(WAIT)
        withdrawn, aborted = two.withdraw(), one.abort()
        go.set()

        assert withdrawn.result(WAIT) and aborted.result(WAIT)
        assert one.result(WAIT).finish_reason == "aborted"
        with pytest.raises(TurnWithdrawn):
            two.result(WAIT)
        while said((asked := led.asked()).request.messages) != ["three"]:
            pass  # the first call, which was cancelled
        asked.answer("3")
        assert three.result(WAIT).text == "3"
        assert said(session.messages) == ["three", "3"]


# Each life finishes what it finds, begins something that the next one is to finish, and dies of
# the poisoned session.
LIFE = """
import os, sys, threading
from turnstream.actors import ActorSystem, Agent

address, life = sys.argv[1:]
ready = threading.Event()

def model(request):
    if request.session_id == "poisoned":
        ready.wait()
        os._exit(9)
    if request.session_id == f"victim {life}":
        threading.Event().wait()
    return "done"

system = ActorSystem(Agent("agent", model=model), store=address, max_recoveries=2)
found = system.resume_all()
for turn in found:
    if turn.session_id != "poisoned":
        turn.result(20)
system.session(f"victim {life}").send("hello").accepted().result(20)
if life == "1":
    system.session("poisoned").send("hello").accepted().result(20)
print(",".join(sorted(turn.session_id for turn in found)), flush=True)
ready.set()
threading.Event().wait(20)
"""


def live(address: str, life: int) -> str:
    """Which sessions a process found to go on with, before it died."""
    done = subprocess.run(
        [sys.executable, "-c", LIFE, address, str(life)],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT,
    )
    assert done.returncode == 9, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@on_durable_stores
def test_a_session_no_process_survives_is_set_aside_and_the_others_go_on(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = [live(address, life) for life in (1, 2, 3)]
    assert found == ["", "poisoned,victim 1", "poisoned,victim 2"]

    caplog.set_level("WARNING", "turnstream")
    cured = Agent("agent", model=answer, tools=[add])
    with ActorSystem(cured, store=address, max_recoveries=2) as system:
        (turn,) = system.resume_all()
        assert (turn.session_id, turn.result(WAIT).text) == ("victim 3", "done")
        warnings = [each.getMessage() for each in caplog.records if each.name == "turnstream"]
        assert len(warnings) == 1 and "'poisoned'" in warnings[0]
        resumed = system.session("poisoned").resume()
        assert resumed is not None and resumed.result(WAIT).text == "done"
        assert system.resume_all() == []
