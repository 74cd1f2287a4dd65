"""Several processes on one PostgreSQL store: order, races, kills, forks."""

import os
import signal
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

import psycopg
import pytest
from servers import Server

from turnstream.events.errors import StoreBusy
from turnstream.stores import PostgresStore, open_store
from turnstream.stores.postgres.functions import LOCK_THE_LOG
from turnstream.stores.specimens import PATIENCE, append_of, following, refusal, texts, together

if TYPE_CHECKING:
    from subprocess import Popen

StartChild = Callable[..., "Popen[str]"]

APPEND_TO_OWN_SESSIONS = """
import sys
from turnstream.stores import open_store
from turnstream.stores.specimens import append_of, together
url, name, appends = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = open_store(url)
print("ready", flush=True)
sys.stdin.readline()
together(4, lambda k: [store.append(append_of(f"{name}.{k}", n, "x")) for n in range(appends)])
print(store.next_generation(), flush=True)
store.close()
"""
APPEND_FOR_EVER = """
import sys
from turnstream.stores import open_store
from turnstream.stores.specimens import append_of
store, version = open_store(sys.argv[1]), 0
while True:
    version = store.append(append_of("s", version, *[str(version)] * 3)).version
    print(version, flush=True)
"""


def released(children: list["Popen[str]"]) -> list[str]:
    """What the children say last, when each has been let go and is done."""
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate(timeout=PATIENCE * 2)[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(children)
    return said


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_subscriber_misses_and_repeats_nothing_under_eight_writing_processes(
    postgres_url: str, start_child: StartChild
) -> None:
    appends = 40
    # They also make the store, all at once.
    children = [start_child(APPEND_TO_OWN_SESSIONS, postgres_url, k, appends) for k in range(8)]
    followed = SimpleQueue[int]()
    with closing(open_store(postgres_url)) as store, store.subscribe() as log:

        def follow() -> None:
            for record in islice(log, 8 * 4 * appends):
                followed.put(record.position)

        follower = Thread(target=follow, daemon=True)
        follower.start()
        generations = [int(line) for line in released(children)]
        follower.join(PATIENCE)
        positions = [followed.get(timeout=PATIENCE) for _ in range(8 * 4 * appends)]
        assert positions == [record.position for record in store.read_all(limit=10**6)]
        assert positions == sorted({*positions})
        assert sorted(generations) == [*range(1, 9)]
        assert {row.version for row in store.sessions()} == {appends}


def test_what_another_process_appends_is_heard_of_before_anybody_looks(
    postgres_url: str, start_child: StartChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstream.stores.postgres.listening.POLL_SECONDS", PATIENCE * 10)
    with closing(open_store(postgres_url)) as store, store.subscribe() as log:
        read = following(log)
        released([start_child(APPEND_TO_OWN_SESSIONS, postgres_url, "p", 5)])
        assert all(read.get(timeout=PATIENCE) for _ in range(20))


@pytest.mark.slow
def test_without_notifications_a_subscription_looks_by_itself(
    postgres_url: str, start_child: StartChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstream.stores.postgres.address.Place.channel", "elsewhere")
    with closing(open_store(postgres_url)) as store, store.subscribe() as log:
        read = following(log)
        released([start_child(APPEND_TO_OWN_SESSIONS, postgres_url, "p", 5)])
        assert all(read.get(timeout=PATIENCE) for _ in range(20))


@pytest.mark.parametrize("acknowledged", [1, 20])
def test_what_was_acknowledged_outlives_a_kill_and_nothing_is_half(
    postgres_url: str, acknowledged: int, start_child: StartChild
) -> None:
    child = start_child(APPEND_FOR_EVER, postgres_url)
    assert child.stdout is not None
    for _ in range(acknowledged):
        assert child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    told = [int(line) for line in child.stdout.read().split()] or [3 * acknowledged]
    with closing(open_store(postgres_url)) as store:
        records = store.read("s")
        assert len(records) >= told[-1] and len(records) % 3 == 0
        assert texts(records) == [str(n // 3 * 3) for n in range(len(records))]
        row = store.session("s")
        assert row is not None and row.version == len(records)
        assert store.append(append_of("s", row.version, "on")).version == row.version + 1


def test_a_child_of_a_fork_uses_the_store_and_leaves_its_parents_connections_alone(
    postgres_url: str,
) -> None:
    with closing(open_store(postgres_url)) as store:
        together(4, lambda k: store.append(append_of(f"s{k}", 0, "a")))
        together(4, lambda k: store.read(f"s{k}"))
        child = os.fork()
        if not child:
            code = 1
            try:
                code = store.append(append_of("s0", 1, "b")).version - 2
                store.close()
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        together(4, lambda k: store.append(append_of(f"s{k}", 2 if k == 0 else 1, "c")))
        assert texts(store.read("s0")) == ["a", "b", "c"]


def test_a_lock_held_beyond_the_timeout_is_store_busy_and_then_all_is_well(
    postgres_server: Server,
) -> None:
    url = postgres_server.url(postgres_server.new_database())
    with closing(PostgresStore(url, timeout=0.3)) as store:
        store.append(append_of("s", 0, "a"))
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("SET search_path = turnstream")
            with other.transaction():
                other.execute(LOCK_THE_LOG)
                refusal(StoreBusy, store.append, append_of("s", 1, "b"))
                assert texts(store.read("s")) == ["a"]
        assert store.append(append_of("s", 1, "b")).version == 2


@pytest.mark.slow
def test_what_somebody_still_may_read_is_not_called_gone(postgres_server: Server) -> None:
    url = postgres_server.url(postgres_server.new_database())
    with closing(PostgresStore(url, timeout=0.3)) as store:
        store.append(append_of("s", 0, *["x" * 1000] * 200))
        with psycopg.connect(url) as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT 1")
            store.delete("s")
            refusal(StoreBusy, store.compact)
        assert store.compact() > 100_000
