"""The server goes away and comes back, in the middle of work."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic

import pytest
from servers import Server, programs

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, tool
from turnstream.events import (
    ModelTurn,
    StoreError,
    StoreUnavailable,
    ToolCall,
    TurnstreamError,
    UserMessage,
    verify,
)
from turnstream.stores import PostgresStore
from turnstream.stores.specimens import PATIENCE, append_of, following, texts, together

# A second of patience, two of a new connection, and a busy machine.
HANGING_SECONDS = 15
SLEEP = "SELECT 'well' FROM pg_sleep(2)"

Harm = Callable[[Server], object]
HARMS: dict[str, Harm] = {
    "connections cut": Server.cut_connections,
    "server crashed": Server.crash_and_start,
}


@pytest.fixture(scope="module")
def server(postgres_server: Server) -> Iterator[Server]:
    """A server that only these tests harm."""
    found = programs()
    assert found is not None
    own = Server(found)
    yield own
    own.close()


@pytest.fixture(params=HARMS.values(), ids=[*HARMS])
def harm(request: pytest.FixtureRequest) -> Harm:
    """What befalls the server."""
    befalls: Harm = request.param
    return befalls


@contextmanager
def away(server: Server) -> Iterator[None]:
    """The server does not run meanwhile."""
    server.stop()
    try:
        yield
    finally:
        server.start()


def store_in(server: Server, timeout: float = 15) -> PostgresStore:
    return PostgresStore(server.url(server.new_database()), timeout=timeout)


@pytest.mark.slow
def test_reads_and_appends_survive_between_two_of_them(server: Server, harm: Harm) -> None:
    with closing(store_in(server)) as store:
        for n in range(3):
            together(6, lambda k, n=n: store.append(append_of(f"s{k}", n, f"{n}")))
            together(6, lambda k, n=n: texts(store.read(f"s{k}")))
            harm(server)
        assert {row.version for row in store.sessions()} == {3}
        harm(server)
        assert store.append(append_of("s0", 3, "on")).version == 4
        harm(server)
        assert store.delete("s1", expected_version=3) == 3
        harm(server)
        assert store.next_generation() == 1
        assert [len(page.payloads) for page in store.replay("s0")] == [4]


@pytest.mark.slow
def test_under_load_each_append_is_answered_once_and_written_once(
    server: Server, harm: Harm
) -> None:
    over, reached = Event(), [0] * 8
    with closing(store_in(server)) as store, store.subscribe() as log:
        followed = SimpleQueue[int]()

        def follow() -> None:
            for record in log:
                followed.put(record.position)

        def work(number: int) -> None:
            while not over.is_set():
                text = f"{number}.{reached[number]}"
                reached[number] = store.append(
                    append_of(f"s{number}", reached[number], text)
                ).version
                assert len(store.read(f"s{number}")) == reached[number]

        def disturb() -> None:
            for _ in range(3):
                seen = sum(reached)
                harm(server)
                wait_for(lambda seen=seen: sum(reached) > seen + 50)
            over.set()

        threads = [Thread(target=each, daemon=True) for each in (follow, disturb)]
        for thread in threads:
            thread.start()
        together(8, work)
        threads[1].join(PATIENCE)
        for number, version in enumerate(reached):
            expected = [f"{number}.{n}" for n in range(version)]
            assert texts(store.read(f"s{number}")) == expected
        written = [record.position for record in store.read_all(limit=10**6)]
        assert [followed.get(timeout=PATIENCE) for _ in written] == written
        assert followed.empty()


@pytest.mark.slow
def test_a_server_that_stays_away_is_a_clear_error_in_time_and_then_all_goes_on(
    server: Server,
) -> None:
    with (
        ExitStack() as stopped,
        closing(store_in(server, timeout=1)) as store,
        store.subscribe() as log,
    ):
        store.append(append_of("s", 0, "a"))
        follower = iter(log)
        assert next(follower).payload == b"a"
        stopped.enter_context(away(server))
        calls = (lambda: store.append(append_of("s", 1, "b")), lambda: store.read("s"))
        for call in (*calls, store.next_generation):
            begun = monotonic()
            with pytest.raises(StoreUnavailable, match=str(server.port)) as refused:
                call()
            assert monotonic() - begun < 5
            assert "secret" not in str(refused.value)
        heard = SimpleQueue[bytes]()
        Thread(target=lambda: heard.put(next(follower).payload), daemon=True).start()
        stopped.close()
        assert store.append(append_of("s", 1, "b")).version == 2
        assert heard.get(timeout=PATIENCE) == b"b"
        assert texts(store.read("s")) == ["a", "b"]


@pytest.mark.slow
def test_a_server_that_hangs_is_a_clear_error_in_time_and_then_all_goes_on(server: Server) -> None:
    address = server.url(server.new_database())
    with closing(PostgresStore(address, timeout=1)) as store, store.subscribe() as log:
        store.append(append_of("s", 0, "a"))
        heard = following(log)
        assert heard.get(timeout=PATIENCE).payload == b"a"
        with server.frozen():
            calls: list[Callable[[], object]] = [lambda: store.append(append_of("s", 1, "b"))]
            calls += [lambda: store.read("s"), lambda: next(store.replay("s")), store.sessions]
            calls += [store.next_generation, lambda: PostgresStore(address, timeout=1)]
            for call in calls:
                begun = monotonic()
                with pytest.raises(StoreUnavailable, match=r"silent|timeout") as refused:
                    call()
                assert monotonic() - begun < HANGING_SECONDS
                assert "secret" not in str(refused.value)
        assert store.append(append_of("s", 1, "b")).version == 2
        assert heard.get(timeout=PATIENCE).payload == b"b"
        assert texts(store.read("s")) == ["a", "b"]
        assert heard.empty()


@pytest.mark.slow
def test_a_store_on_a_server_that_hangs_closes(server: Server) -> None:
    store = store_in(server, timeout=1)
    following(store.subscribe())
    outcomes = SimpleQueue[object]()
    with server.frozen():
        for n in range(3):
            store.submit(append_of(f"s{n}", 0, "a"), outcomes.put)
        begun = monotonic()
        store.close()
        assert monotonic() - begun < 3 * HANGING_SECONDS
    assert {type(outcomes.get(timeout=PATIENCE)) for _ in range(3)} == {StoreUnavailable}


@pytest.mark.slow
def test_a_server_that_takes_long_is_waited_for(server: Server) -> None:
    with closing(store_in(server, timeout=0.3)) as store:
        slept = store._opened().ask(lambda cursor: cursor.execute(SLEEP).fetchall())
        assert slept == [("well",)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "ask", [lambda session: session.send("look").result(PATIENCE), Session.events]
)
def test_a_system_on_a_server_that_hung_goes_on(
    server: Server, ask: Callable[[Session], object]
) -> None:
    agent = Agent("agent", model=reply, tools=[look])
    with closing(store_in(server, timeout=1)) as store, ActorSystem(agent, store=store) as system:
        session = system.session("s")
        assert session.send("look").result(PATIENCE).text == "done"
        with server.frozen(), pytest.raises(StoreUnavailable):
            ask(session)
        assert session.send("look").result(PATIENCE).text == "done"
        assert verify(store.read("s")) is None


@pytest.mark.slow
def test_a_subscription_whose_connection_is_cut_hears_of_other_processes_again(
    server: Server,
) -> None:
    database = server.url(server.new_database())
    one, other = PostgresStore(database), PostgresStore(database)
    with closing(one), closing(other), one.subscribe() as log:
        heard = following(log)
        for n in range(3):
            other.append(append_of("s", n, str(n)))
            record = heard.get(timeout=PATIENCE)
            assert record is not None and record.payload == str(n).encode()
            server.cut_connections()


def test_a_damaged_table_is_told_by_whoever_comes_upon_it(server: Server) -> None:
    database = server.new_database()
    with closing(PostgresStore(server.url(database))) as store:
        store.append(append_of("s", 0, *["x" * 500] * 50))
        assert list(store.check()) == []
        server.damage("turnstream.stored_events", database)
        assert store.check()
        with pytest.raises(StoreUnavailable, match="damaged"):
            store.read("s")


@tool
async def look() -> str:
    """Look."""
    return "seen"


def reply(request: ModelRequest) -> ModelTurn:
    if isinstance(request.messages[-1], UserMessage):
        return ModelTurn(tool_calls=(ToolCall(f"call-{request.turn_id}", "look", {}),))
    return ModelTurn("done")


@pytest.mark.slow
def test_a_running_system_answers_everybody_and_goes_on(server: Server, harm: Harm) -> None:
    over, answered, failed = Event(), [0] * 8, SimpleQueue[BaseException]()
    agent = Agent("agent", model=reply, tools=[look])
    with closing(store_in(server)) as store:
        with ActorSystem(agent, store=store) as system:

            def converse(number: int) -> None:
                while not over.is_set():
                    try:
                        turn = system.session(f"s{number}").send("look")
                        assert turn.result(PATIENCE).text == "done"
                        answered[number] += 1
                    except TurnstreamError as error:
                        failed.put(error)

            def disturb() -> None:
                for _ in range(3):
                    seen = sum(answered)
                    harm(server)
                    wait_for(lambda seen=seen: sum(answered) > seen + 30)
                over.set()

            disturber = Thread(target=disturb, daemon=True)
            disturber.start()
            together(8, converse)
            disturber.join(PATIENCE)
        for number, count in enumerate(answered):
            records = store.read(f"s{number}")
            assert verify(records) is None
            topics = [record.topic for record in records]
            assert topics.count("turn_finished") >= count
        assert all(isinstance(failed.get(), StoreError) for _ in range(failed.qsize()))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline
        Event().wait(0.02)
