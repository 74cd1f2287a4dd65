"""The connections that read a SQLite database: how they end."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

import pytest
from eventsourcing.persistence import ConnectionPoolClosedError

from turnstream.stores.pool import SessionPool

SECONDS = 10


def aside(job: Callable[[], object]) -> SimpleQueue[object]:
    """Do a job on a thread; what it gives or raises."""
    outcome = SimpleQueue[object]()

    def work() -> None:
        try:
            outcome.put(job())
        except ConnectionPoolClosedError as error:
            outcome.put(type(error))

    Thread(target=work, daemon=True).start()
    return outcome


def waiting(pool: SessionPool, count: int) -> None:
    """Return when that many threads wait for what is in use."""
    while True:
        with pool._put_condition:
            if len(pool._put_condition._waiters) == count:  # type: ignore[attr-defined]
                return


@pytest.mark.timeout(3 * SECONDS)
def test_a_pool_that_is_collected_keeps_nobody_waiting_for_what_is_in_use() -> None:
    pools = [SessionPool(None, timeout=1)]
    pools[0].get_connection()
    assert aside(pools.clear).get(timeout=SECONDS) is None


@pytest.mark.timeout(3 * SECONDS)
def test_all_who_close_it_wait_for_what_is_in_use_and_for_no_longer() -> None:
    pool = SessionPool(None, timeout=1)
    connection = pool.get_connection()
    closed = [aside(pool.close) for _ in range(3)]
    waiting(pool, 3)
    assert not connection.closed
    pool.put_connection(connection)
    assert [each.get(timeout=SECONDS) for each in closed] == [None] * 3
    assert connection.closed


@pytest.mark.timeout(3 * SECONDS)
def test_whoever_waits_for_a_connection_is_told_when_it_is_closed() -> None:
    pool = SessionPool(None, timeout=1)
    connection = pool.get_connection()
    wanted = aside(pool.get_connection)
    waiting(pool, 1)
    closed = aside(pool.close)
    assert wanted.get(timeout=SECONDS) is ConnectionPoolClosedError
    pool.put_connection(connection)
    assert closed.get(timeout=SECONDS) is None
    with pytest.raises(ConnectionPoolClosedError):
        pool.get_connection()


def test_what_comes_back_after_it_was_closed_is_not_waited_for() -> None:
    pool = SessionPool(None, timeout=1)
    connection = pool.get_connection()
    super(SessionPool, pool).close()
    with pytest.raises(ConnectionPoolClosedError):
        pool.put_connection(connection)
    assert aside(pool.close).get(timeout=SECONDS) is None
