"""What a fork is called: its own name or the first one free, whoever else makes forks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

import pytest
from places import on_durable_stores
from sending import at_once
from travelling import WAIT, assert_sound, stored, texts

from turnstream.actors import ActorSystem, Agent, Session, forking
from turnstream.actors.testing import ScriptedModel
from turnstream.events import InvalidSessionId, SessionExists, TurnstreamError
from turnstream.stores import EventStore, open_store

Run = Callable[..., ActorSystem]


@pytest.fixture
def session(opened: EventStore, run: Run) -> Session:
    session = run(["hi"] * 20, on=opened).session("s")
    session.send("hello").result(WAIT)
    return session


def test_forks_are_counted(session: Session, opened: EventStore) -> None:
    assert [session.fork().id for _ in range(3)] == ["s.fork-1", "s.fork-2", "s.fork-3"]
    opened.delete("s.fork-2")
    assert session.fork().id == "s.fork-4"


def test_a_name_that_was_never_free_is_passed_over(
    session: Session, opened: EventStore, run: Run
) -> None:
    other = run(["hi"], on=opened).session("s.fork-1")
    other.send("mine").result(WAIT)
    fork = session.fork()
    assert fork.id == "s.fork-2"
    assert texts(other.messages) == ["mine", "hi"]


def test_a_given_name_is_taken_once(session: Session, opened: EventStore) -> None:
    assert session.fork(session_id="mine").id == "mine"
    before = stored(opened, "mine")
    for name in ("mine", "s"):
        with pytest.raises(SessionExists) as refusal:
            session.fork(session_id=name)
        assert refusal.value.session_id == name
    assert stored(opened, "mine") == before
    opened.delete("mine")
    with pytest.raises(TurnstreamError, match="deleted"):
        session.fork(session_id="mine")


@pytest.mark.parametrize("name", ["", "x" * 513, "a\0b", "a\nb"])
def test_a_name_that_is_none_is_refused(session: Session, opened: EventStore, name: str) -> None:
    with pytest.raises(InvalidSessionId):
        session.fork(session_id=name)
    assert [each.session_id for each in opened.sessions()] == ["s"]


def test_the_fork_of_a_session_with_the_longest_name_needs_one(
    session: Session, opened: EventStore
) -> None:
    longest = session.fork(session_id="ü" * 512)
    with pytest.raises(InvalidSessionId, match="name it"):
        longest.fork()
    other = longest.fork(session_id="ö" * 512)
    other.send("more").result(WAIT)
    assert texts(longest.messages) == ["hello", "hi"]
    assert other.lineage().forks[0].forks[0].session_id == "ö" * 512


NAMES = [
    "a",
    "a.fork-1",
    "a.fork-1.fork-1",
    "a.turn-0",
    "a#history",
    "a/1",
    "a_b",
    "aXb",
    "a%",
    "A",
]


def test_sessions_with_names_that_look_alike_never_touch(opened: EventStore, run: Run) -> None:
    system = run(["hi"] * 40, on=opened)
    for name in NAMES:
        system.session(name).send(f"I am {name}").result(WAIT)
    before = {name: stored(opened, name) for name in NAMES}
    forks = {name: system.session(name).fork() for name in NAMES}
    assert forks["a"].id == "a.fork-2" and forks["a.fork-1"].id == "a.fork-1.fork-2"
    for name, fork in forks.items():
        fork.send("more").result(WAIT)
        fork.rewind(keep_entries=1).result(WAIT)
        assert texts(fork.messages) == [f"I am {name}"]
        lineage = system.session(name).lineage()
        assert [each.session_id for each in lineage.forks] == [fork.id]
        assert len(system.session(name).history()) == 2
    for fork in forks.values():
        fork.clear().result(WAIT)
        opened.delete(fork.id)
    assert {name: stored(opened, name) for name in NAMES} == before


def test_of_threads_that_fork_at_once_each_has_a_fork_of_its_own(
    session: Session, opened: EventStore, switching_often: None
) -> None:
    forks = at_once(*[lambda: session.fork().id] * 8)
    assert sorted(forks) == [f"s.fork-{n}" for n in range(1, 9)]
    assert_sound(opened, *forks)


def attempt(session: Session) -> str:
    try:
        return session.fork(session_id="mine").id
    except SessionExists:
        return ""


def test_of_threads_that_want_one_name_one_has_it(
    session: Session, opened: EventStore, switching_often: None
) -> None:
    assert sorted(at_once(*[lambda: attempt(session)] * 8)) == [*[""] * 7, "mine"]


def test_two_forks_of_one_moment_are_two(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(2026, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(forking, "datetime", Stopped)
    monkeypatch.setattr(forking, "_names", lambda store, name: iter(["one", "two"]))
    assert [session.fork().id for _ in range(2)] == ["one", "two"]
    with pytest.raises(SessionExists):
        session.fork(session_id="one")


FORK = """
import sys
from turnstream.stores import open_store
from turnstream.actors.forking import fork
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(5):
    print(fork(store, "s"), flush=True)
store.close()
"""


@pytest.mark.slow
@on_durable_stores
def test_of_processes_that_fork_at_once_each_has_forks_of_its_own(address: str) -> None:
    with closing(open_store(address)) as store:
        with ActorSystem(Agent("agent", model=ScriptedModel(["hi"])), store=store) as system:
            system.session("s").send("hello").result(WAIT)
        before = stored(store, "s")
        children = [
            subprocess.Popen(
                [sys.executable, "-c", FORK, address],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(4)
        ]
        for each in children:
            assert each.stdout is not None and each.stdout.readline() == "ready\n"
        for each in children:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        names = [name for each in children for name in each.communicate(timeout=40)[0].split()]
        assert [each.returncode for each in children] == [0] * 4
        assert sorted(names) == sorted(f"s.fork-{n}" for n in range(1, 21))
        assert stored(store, "s") == before
        assert_sound(store, *names)
