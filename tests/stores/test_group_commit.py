"""Who commits, in which transaction, and who is told."""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread, get_ident
from threading import enumerate as threads
from typing import Any

import pytest

from turnstream.events.envelope import EncodedEvent
from turnstream.events.errors import StoreClosed, StoreError, StoreUnavailable, WrongExpectedVersion
from turnstream.stores import Append, Appended, RowChange, SQLiteStore
from turnstream.stores.committer import Committer, Reply, Write
from turnstream.stores.specimens import NOON, PATIENCE, append_of, texts, together


class Commits:
    """A place to commit to, which can be held up, and remembers rounds and threads."""

    def __init__(self) -> None:
        self.rounds: list[list[Any]] = []
        self.threads: list[int] = []
        self.entered = Event()
        self.may_go = Event()
        self.may_go.set()

    def __call__(self, writes: Sequence[Write[Any]]) -> list[object]:
        self.threads.append(get_ident())
        self.entered.set()
        assert self.may_go.wait(PATIENCE)
        self.rounds.append([write(None) for write in writes])
        return self.rounds[-1]


@pytest.fixture
def commits() -> Commits:
    return Commits()


@pytest.fixture
def committer(commits: Commits) -> Iterator[Committer]:
    committer = Committer(commits)
    yield committer
    commits.may_go.set()
    committer.close()


def answer(value: object) -> Write[object]:
    return lambda _: value


def background() -> list[Thread]:
    return [thread for thread in threads() if thread.name == "turnstream-committer"]


def hold_up(committer: Committer, commits: Commits) -> Thread:
    """Have another thread begin a round that does not end."""
    commits.entered.clear()
    commits.may_go.clear()
    thread = Thread(target=committer.write, args=(answer("first"),))
    thread.start()
    assert commits.entered.wait(PATIENCE)
    return thread


def test_an_undisturbed_write_is_committed_by_its_own_thread(
    committer: Committer, commits: Commits
) -> None:
    assert [committer.write(answer(n)) for n in range(3)] == [0, 1, 2]
    assert commits.rounds == [[0], [1], [2]]
    assert {*commits.threads} == {get_ident()}
    assert background() == []


def test_writes_that_come_during_a_round_share_the_next(
    committer: Committer, commits: Commits
) -> None:
    leader = hold_up(committer, commits)
    told = SimpleQueue[object]()
    for n in range(5):
        committer.submit(answer(n), told.put)
    assert told.empty()
    commits.may_go.set()
    assert [told.get(timeout=PATIENCE) for _ in range(5)] == [*range(5)]
    assert commits.rounds == [["first"], [0, 1, 2, 3, 4]]
    leader.join(PATIENCE)


def test_no_thread_commits_for_others(committer: Committer, commits: Commits) -> None:
    leader = hold_up(committer, commits)
    told = SimpleQueue[object]()
    committer.submit(answer("second"), told.put)
    commits.may_go.set()
    leader.join(PATIENCE)
    told.get(timeout=PATIENCE)
    (served,) = background()
    assert commits.threads == [leader.ident, served.ident]


def test_writes_are_committed_in_the_order_they_came(
    committer: Committer, commits: Commits
) -> None:
    def write(number: int) -> None:
        for n in range(200):
            committer.submit(answer((number, n)), lambda _: None)

    together(8, write)
    committer.close()
    done = [value for writes in commits.rounds for value in writes]
    for number in range(8):
        assert [n for k, n in done if k == number] == [*range(200)]


def test_callers_are_told_in_the_order_of_their_writes(
    committer: Committer, commits: Commits
) -> None:
    told: list[object] = []
    together(8, lambda k: [committer.submit(answer((k, n)), told.append) for n in range(100)])
    committer.close()
    assert told == [value for writes in commits.rounds for value in writes]


def test_a_caller_that_raises_on_being_told_harms_nobody(
    committer: Committer, commits: Commits, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(outcome: object) -> None:
        raise ZeroDivisionError

    leader = hold_up(committer, commits)
    told = SimpleQueue[object]()
    committer.submit(answer("bad"), fail)
    committer.submit(answer("good"), told.put)
    with caplog.at_level(logging.ERROR):
        commits.may_go.set()
        assert told.get(timeout=PATIENCE) == "good"
    assert "ZeroDivisionError" in caplog.text
    assert committer.write(answer("next")) == "next"
    leader.join(PATIENCE)


def test_closing_finishes_what_was_submitted_and_ends_the_thread(
    committer: Committer, commits: Commits
) -> None:
    leader = hold_up(committer, commits)
    told = SimpleQueue[object]()
    committer.submit(answer("second"), told.put)
    closer = Thread(target=committer.close)
    closer.start()
    commits.may_go.set()
    closer.join(PATIENCE)
    assert not closer.is_alive()
    assert told.get(timeout=PATIENCE) == "second"
    assert background() == []
    with pytest.raises(StoreClosed):
        committer.write(answer("late"))
    leader.join(PATIENCE)


def test_a_caller_may_close_on_being_told(committer: Committer, commits: Commits) -> None:
    leader = hold_up(committer, commits)
    told = SimpleQueue[object]()

    def close(outcome: object) -> None:
        committer.close()
        told.put(outcome)

    committer.submit(answer("second"), close)
    committer.submit(answer("third"), told.put)
    commits.may_go.set()
    assert {told.get(timeout=PATIENCE) for _ in range(2)} == {"second", "third"}
    leader.join(PATIENCE)
    committer.close()
    assert background() == []


def test_a_write_interrupted_from_outside_is_answered_and_the_next_goes_on(
    committer: Committer, commits: Commits
) -> None:
    def interrupted(_: Any) -> object:
        raise KeyboardInterrupt

    told = SimpleQueue[object]()
    with pytest.raises(KeyboardInterrupt):
        committer.submit(interrupted, told.put)
    assert isinstance(told.get(timeout=PATIENCE), StoreUnavailable)
    assert committer.write(answer("next")) == "next"


def test_without_a_thread_to_be_had_the_leader_serves_what_waits(
    committer: Committer, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = hold_up(committer, commits)
    told = SimpleQueue[object]()
    committer.submit(answer("second"), told.put)

    def refuse(self: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    commits.may_go.set()
    assert told.get(timeout=PATIENCE) == "second"
    leader.join(PATIENCE)
    assert commits.threads == [leader.ident] * 2


def hold_writer(store: SQLiteStore) -> Callable[[], None]:
    """Have a thread begin a round that does not end before the returned function is called."""
    entered, may_go = Event(), Event()

    def wait(_: sqlite3.Cursor) -> None:
        entered.set()
        assert may_go.wait(PATIENCE)

    writes = store.recorder.datastore.writes
    thread = Thread(target=writes.write, args=(wait,))
    thread.start()
    assert entered.wait(PATIENCE)

    def release() -> None:
        may_go.set()
        thread.join(PATIENCE)

    return release


def submitted(store: SQLiteStore, *appends: Append) -> list[Appended | StoreError]:
    """The answers to appends that were committed in one round."""
    release, answers = hold_writer(store), SimpleQueue[Appended | StoreError]()
    for append in appends:
        store.submit(append, answers.put)
    release()
    return [answers.get(timeout=PATIENCE) for _ in appends]


def test_appends_of_one_session_in_one_round_follow_each_other(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        answers = submitted(store, *(append_of("s", n, str(n)) for n in range(20)))
        assert [a.version for a in answers if isinstance(a, Appended)] == [*range(1, 21)]
        assert texts(store.read("s")) == [str(n) for n in range(20)]


def test_a_conflict_in_a_round_concerns_nobody_else(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        answers = submitted(
            store, append_of("a", 0, "x"), append_of("b", 3, "x", "y"), append_of("c", 0, "x")
        )
        assert [type(answer) for answer in answers] == [Appended, WrongExpectedVersion, Appended]
        assert [record.session_id for record in store.read_all()] == ["a", "c"]


def test_a_write_that_breaks_the_transaction_fails_alone(path: Path) -> None:
    broken = Append("b", 0, (EncodedEvent("noted", None),), RowChange("idle", "a", NOON))  # type: ignore[arg-type]
    with closing(SQLiteStore(path)) as store:
        answers = submitted(store, append_of("a", 0, "x"), broken, append_of("c", 0, "x"))
        assert [type(answer) for answer in answers] == [Appended, StoreError, Appended]
        assert [record.session_id for record in store.read_all()] == ["a", "c"]
        assert [row.session_id for row in store.sessions()] == ["a", "c"]


def test_the_same_append_submitted_twice_in_one_round_is_written_once(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        one, other = submitted(store, append_of("s", 0, "x"), append_of("s", 0, "x"))
        assert one == other
        assert texts(store.read("s")) == ["x"]


def test_sessions_that_write_at_once_share_transactions(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        store.append(append_of("first", 0, "x"))
        pages_logged(path)
        submitted(store, *(append_of(f"s{n}", 0, "x") for n in range(100)))
        together = pages_logged(path)
        for n in range(100):
            store.append(append_of(f"t{n}", 0, "x"))
        assert together * 10 < pages_logged(path)


def pages_logged(path: Path) -> int:
    """How many pages were written to the log since this was last asked."""
    with closing(sqlite3.connect(path)) as other:
        _, pages, _ = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return int(pages)


def test_readers_do_not_wait_for_a_writer(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        store.append(append_of("s", 0, "a"))
        release = hold_writer(store)
        assert texts(store.read("s")) == texts(store.read_all()) == ["a"]
        assert [row.version for row in store.sessions()] == [1]
        release()


def test_a_reply_is_what_was_put_whichever_came_first() -> None:
    for first in (True, False):
        reply: Reply[str] = Reply()
        thread = Thread(target=reply.put, args=("x",))
        if first:
            thread.start()
            thread.join(PATIENCE)
            assert reply.get() == "x"
        else:
            got = SimpleQueue[str]()
            waiter = Thread(target=lambda reply=reply, got=got: got.put(reply.get()))
            waiter.start()
            thread.start()
            assert got.get(timeout=PATIENCE) == "x"
