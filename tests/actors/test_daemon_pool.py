"""The threads that functions of user code run on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import pytest

from turnstream.actors import daemon_pool
from turnstream.actors.daemon_pool import DaemonPool

SECONDS = 10


def ours() -> list[Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("turnstream-call")]


def outcome_of(pool: DaemonPool, fn: Callable[[], Any]) -> Any:
    results: SimpleQueue[Any] = SimpleQueue()
    pool.submit(lambda: results.put(fn()))
    return results.get(timeout=SECONDS)


def test_as_many_threads_are_made_as_run_at_once_and_no_more_than_allowed() -> None:
    pool, go, entered = DaemonPool(3), Event(), SimpleQueue[str]()

    def job() -> None:
        entered.put(threading.current_thread().name)
        assert go.wait(SECONDS)

    for _ in range(5):
        pool.submit(job)
    names = {entered.get(timeout=SECONDS) for _ in range(3)}
    assert len(names) == len(ours()) == 3
    assert entered.empty()
    go.set()
    assert {entered.get(timeout=SECONDS) for _ in range(2)} <= names
    assert pool.close(SECONDS)
    assert not ours()


@pytest.mark.usefixtures("switching_often")
def test_jobs_that_come_one_by_one_do_not_make_thread_after_thread() -> None:
    pool, done = DaemonPool(100), SimpleQueue[int]()
    for number in range(2000):
        pool.submit(lambda number=number: done.put(number))
        done.get(timeout=SECONDS)
    # More than one, as a job may come between the last one's result and its thread being free.
    assert len(ours()) < 10
    assert pool.close(SECONDS)


def test_a_job_that_raises_costs_no_thread() -> None:
    pool = DaemonPool(1)
    for _ in range(3):
        pool.submit(sys.exit)
    assert outcome_of(pool, lambda: 1) == 1
    assert pool.close(SECONDS)


def test_idle_threads_end_after_a_while_and_new_ones_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon_pool, "_IDLE_SECONDS", 0.01)
    pool = DaemonPool(2)
    thread = outcome_of(pool, threading.current_thread)
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert outcome_of(pool, lambda: 1) == 1
    assert pool.close(SECONDS)


@pytest.mark.usefixtures("switching_often")
def test_no_job_is_forgotten_where_threads_end_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon_pool, "_IDLE_SECONDS", 0)
    pool = DaemonPool(1)
    for number in range(1000):
        assert outcome_of(pool, lambda number=number: number) == number
    assert pool.close(SECONDS)


def test_where_the_system_has_no_more_threads_jobs_wait_for_those_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, entered, go = DaemonPool(4), Event(), Event()
    pool.submit(lambda: (entered.set(), go.wait(SECONDS)))
    assert entered.wait(SECONDS)

    def refuse(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    done: SimpleQueue[int] = SimpleQueue()
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", refuse)
        pool.submit(lambda: done.put(1))
        with pytest.raises(RuntimeError, match="new thread"):
            DaemonPool(1).submit(lambda: None)
    go.set()
    assert done.get(timeout=SECONDS) == 1
    assert pool.close(SECONDS)
