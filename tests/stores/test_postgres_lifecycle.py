"""A PostgreSQL store from opening to closing: threads, connections, leftovers."""

import gc
import threading
from collections.abc import Callable
from contextlib import closing
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import Server

from turnstream.events.errors import StoreClosed
from turnstream.stores import PostgresStore
from turnstream.stores.postgres.text import restored, stored
from turnstream.stores.specimens import PATIENCE, append_of, following, texts, together


@pytest.fixture
def database(postgres_server: Server) -> str:
    """The name of an empty database."""
    return postgres_server.new_database()


def connections(server: Server, database: str) -> int:
    """How many clients the database has."""
    ((count,),) = server.execute(
        f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' "
        "AND backend_type = 'client backend'"
    )
    return int(str(count))


def comes_true(condition: Callable[[], bool]) -> bool:
    deadline = monotonic() + PATIENCE
    while not condition():
        if monotonic() > deadline:
            return False
        Event().wait(0.02)
    return True


def busy(store: PostgresStore) -> None:
    """Use everything a store can start or open."""
    together(8, lambda k: [store.append(append_of(f"s{k}", n, "x")) for n in range(5)])
    together(8, lambda k: [store.read(f"s{k}") for _ in range(5)])
    following(store.subscribe()).get(timeout=PATIENCE)


@pytest.mark.slow
def test_a_store_that_nobody_follows_any_more_listens_no_more(
    postgres_server: Server, database: str
) -> None:
    def listening() -> int:
        return sum(each.name == "turnstream-listener" for each in threading.enumerate())

    before, url = listening(), postgres_server.url(database)
    with closing(PostgresStore(url)) as store:
        for n in range(3):
            with store.subscribe() as one, store.subscribe(after=n) as other:
                one.close()
                read = following(other)
                store.append(append_of("s", n, "x"))
                assert read.get(timeout=PATIENCE).version == n + 1
                assert listening() == before + 1
            assert comes_true(lambda: listening() == before)
        with store.subscribe():
            pass  # and begin again while the one before is about to end
        with store.subscribe(after=3) as last, closing(PostgresStore(url)) as elsewhere:
            read = following(last)
            elsewhere.append(append_of("s", 3, "x"))
            assert read.get(timeout=PATIENCE).version == 4


def test_a_closed_store_leaves_no_thread_and_no_connection(
    postgres_server: Server, database: str
) -> None:
    before = {*threading.enumerate()}
    store = PostgresStore(postgres_server.url(database))
    read = following(store.subscribe())
    busy(store)
    assert connections(postgres_server, database) > 0
    store.close()
    while read.get(timeout=PATIENCE) is not None:
        pass
    assert comes_true(lambda: not connections(postgres_server, database))
    names = {thread.name for thread in {*threading.enumerate()} - before}
    assert not {name for name in names if name.startswith("turnstream")}


def test_a_store_that_nobody_closed_is_released_with_its_last_reference(
    postgres_server: Server, database: str
) -> None:
    store = PostgresStore(postgres_server.url(database))
    store.append(append_of("s", 0, "x"))
    store.read("s")
    with store.subscribe() as log:
        assert next(iter(log)).payload == b"x"
    del store, log
    assert comes_true(lambda: gc.collect() >= 0 and not connections(postgres_server, database))


def test_a_store_takes_no_more_connections_than_it_may(
    postgres_server: Server, database: str
) -> None:
    with closing(PostgresStore(postgres_server.url(database), pool=3)) as store:
        busy(store)
        together(16, lambda k: [store.sessions() for _ in range(10)])
        assert connections(postgres_server, database) <= 3 + 2


def test_a_store_closed_in_the_middle_of_work_answers_everybody(
    postgres_server: Server, database: str
) -> None:
    store, closing_now = PostgresStore(postgres_server.url(database)), Event()
    written = [0] * 8

    def work(number: int) -> None:
        try:
            while True:
                store.append(append_of(f"s{number}", written[number], "x"))
                written[number] += 1
                store.read(f"s{number}")
                if number == 0 and written[0] == 20:
                    closing_now.set()
        except StoreClosed:
            pass

    closer = Thread(target=lambda: closing_now.wait(PATIENCE) and store.close())
    closer.start()
    together(8, work)
    closer.join(PATIENCE)
    with closing(PostgresStore(postgres_server.url(database))) as again:
        assert [len(again.read(f"s{n}")) for n in range(8)] == written


def test_appends_submitted_before_closing_are_written(
    postgres_server: Server, database: str
) -> None:
    answers = SimpleQueue[object]()
    store = PostgresStore(postgres_server.url(database))
    together(8, lambda k: [store.submit(append_of(f"s{k}", n, "x"), answers.put) for n in range(9)])
    store.close()
    assert answers.qsize() == 72
    with closing(PostgresStore(postgres_server.url(database))) as again:
        assert [row.version for row in again.sessions()] == [9] * 8


def test_a_long_stream_that_is_not_read_to_its_end_keeps_no_connection(
    postgres_server: Server, database: str
) -> None:
    with closing(PostgresStore(postgres_server.url(database), pool=1, timeout=2)) as store:
        store.append(append_of("s", 0, *["x" * 100] * 5000))
        for _ in range(3):
            pages = store.replay("s")
            assert next(pages).payloads
            pages.close()
        assert len(texts(store.read("s"))) == 5000


@given(st.text() | st.text(alphabet="\0\x1a\ud800\udfff0a\\"))
def test_any_text_can_be_stored_and_comes_back(text: str) -> None:
    written = stored(text)
    assert "\0" not in written.encode().decode()
    assert restored(written) == text


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_text_that_is_printable_is_stored_as_it_is(text: str) -> None:
    assert stored(text) == text
