"""What the tests of inputs and decisions share: sending, acting at once, and what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

from turnstream.actors import Session

WAIT = 20
POLICIES = ["wait", "queue", "steer"]
JOINING = ["queue", "steer"]
T = TypeVar("T")


def events(session: Session, *kinds: type) -> list[Any]:
    """The events of these kinds, in the order of the stream."""
    return [each.event for each in session.events() if isinstance(each.event, kinds)]


def send(session: Session, text: str, policy: Any) -> Any:
    """Send, and wait until the input is recorded."""
    turn = session.send(text, policy=policy)
    turn.accepted().result(WAIT)
    return turn


def at_once(*jobs: Callable[[], T]) -> list[T]:
    """What the jobs return, each on a thread of its own, all begun together."""
    barrier = Barrier(len(jobs), timeout=WAIT)

    def begin(job: Callable[[], T]) -> T:
        barrier.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [each.result(WAIT) for each in [pool.submit(begin, job) for job in jobs]]
