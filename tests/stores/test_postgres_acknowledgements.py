"""The server commits, and its answer never arrives: what was done is not done twice."""

import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from threading import Thread

import pytest
from servers import Server

from turnstream.stores import PostgresStore, Snapshot
from turnstream.stores.specimens import append_of, event, texts, together


class Relay:
    """Stands between a client and the server. Told to ``lose`` a word, it lets the next request
    with it through, and ends the connection when the answer comes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lost = b""
        self.losses = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def lose(self, word: bytes) -> None:
        """The answer to the next request with this word does not arrive."""
        self._lost = word

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._port)) as server:
            ends = [False]
            back = Thread(target=self._answer, args=(server, client, ends), daemon=True)
            back.start()
            with suppress(OSError):
                while request := client.recv(2**20):
                    if self._lost and self._lost in request:
                        self._lost, ends[0] = b"", True
                        self.losses += 1
                    server.sendall(request)
                server.shutdown(socket.SHUT_WR)
            back.join()

    def _answer(self, server: socket.socket, client: socket.socket, ends: list[bool]) -> None:
        with suppress(OSError):
            while (answer := server.recv(2**20)) and not ends[0]:
                client.sendall(answer)
            client.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def relay(postgres_server: Server) -> Iterator[Relay]:
    relay = Relay(postgres_server.port)
    yield relay
    relay.close()


@pytest.fixture
def store(postgres_server: Server, relay: Relay) -> Iterator[PostgresStore]:
    url = postgres_server.url(postgres_server.new_database())
    through = url.replace(f":{postgres_server.port}/", f":{relay.port}/")
    with closing(PostgresStore(through)) as store:
        store.append(append_of("s", 0, "a", "b"))
        store.append(append_of("t", 0, "a"))
        yield store


def test_an_append_is_not_written_twice_and_is_no_conflict(
    store: PostgresStore, relay: Relay
) -> None:
    relay.lose(b"the lost one")
    assert store.append(append_of("s", 2, "the lost one", "c")).version == 4
    assert relay.losses == 1
    assert texts(store.read("s")) == ["a", "b", "the lost one", "c"]


@pytest.mark.slow
def test_a_round_of_appends_is_not_written_twice(store: PostgresStore, relay: Relay) -> None:
    for n in range(10):
        relay.lose(b"COMMIT")
        together(8, lambda k, n=n: store.append(append_of(f"s{k}", n, f"{n}")))
    assert relay.losses > 0
    assert all(texts(store.read(f"s{k}")) == [str(n) for n in range(10)] for k in range(8))
    assert len(store.read_all()) == 83


def test_a_deletion_tells_how_many_events_went(store: PostgresStore, relay: Relay) -> None:
    relay.lose(b"COMMIT")
    assert store.delete("s") == 2
    relay.lose(b"COMMIT")
    assert store.delete("t", expected_version=1) == 1
    assert relay.losses == 2
    assert store.sessions() == []


def test_an_erasure_is_done_once(store: PostgresStore, relay: Relay) -> None:
    relay.lose(b"COMMIT")
    assert store.erase(append_of("s", 2, "c"), {1: event("[erased]")}).version == 3
    assert relay.losses == 1
    assert texts(store.read("s")) == ["[erased]", "b", "c"]


def test_a_table_that_was_swapped_in_is_not_taken_for_anothers(
    store: PostgresStore, relay: Relay
) -> None:
    tables = store.read_models
    tables.begin("usage", 1)
    rebuilt = tables.advance(tables.begin("usage", 2, live=False), {"a": b"1"}, 3)
    relay.lose(b"COMMIT")
    swapped = tables.swap(rebuilt)
    assert relay.losses == 1
    assert tables.find("usage") == swapped
    assert list(tables.rows("usage")) == [("a", b"1")]


def test_a_snapshot_is_kept(store: PostgresStore, relay: Relay) -> None:
    relay.lose(b"COMMIT")
    assert store.snapshots.keep(Snapshot("s", 2, 1, b"x"))
    assert relay.losses == 1
    assert store.snapshots.latest("s", fold=1) == Snapshot("s", 2, 1, b"x")
