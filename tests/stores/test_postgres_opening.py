"""Opening a PostgreSQL store: made once, migrated, refused, and never with the password told."""

import re
from contextlib import closing
from urllib.parse import quote

import pytest
from servers import NUMBERS, PASSWORD, Server

from turnstream.events.errors import (
    NotAStore,
    NotSupported,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
)
from turnstream.stores import PostgresStore, open_store
from turnstream.stores.postgres.schema import MIGRATIONS
from turnstream.stores.specimens import append_of, texts, together

QUOTED = quote(PASSWORD, safe="")


@pytest.fixture
def database(postgres_server: Server) -> str:
    """The name of an empty database."""
    return postgres_server.new_database()


def refused(kind: type[StoreError] | type[NotSupported], url: str) -> str:
    """What a store's opener says, without any secret."""
    with pytest.raises(kind) as refusal:
        open_store(url)
    causes: list[BaseException | None] = [refusal.value]
    while (last := causes[-1]) is not None:
        causes.append(last.__cause__)
    told = "\n".join(f"{each!r} {each}" for each in causes)
    assert PASSWORD not in told and QUOTED not in told and "secret" not in told
    return str(refusal.value)


def test_a_store_is_made_where_there_is_none_and_found_again(
    postgres_server: Server, database: str
) -> None:
    url = postgres_server.url(database)
    for n in range(2):
        with closing(open_store(url)) as store:
            assert store.append(append_of("s", n, str(n))).version == n + 1
    assert postgres_server.execute(
        "SELECT version FROM turnstream.turnstream_schema", database
    ) == [(len(MIGRATIONS),)]


def test_schemas_are_stores_of_their_own(postgres_server: Server, database: str) -> None:
    urls = [postgres_server.url(database, f"?schema={name}&timeout=9") for name in ("one", "_2")]
    with closing(open_store(urls[0])) as one, closing(open_store(urls[1])) as other:
        one.append(append_of("s", 0, "a"))
        assert texts(other.read_all()) == []
        assert [each.next_generation() for each in (one, other)] == [1, 1]


def test_many_that_open_a_new_store_at_once_make_it_once(
    postgres_server: Server, database: str
) -> None:
    def work(number: int) -> None:
        with closing(PostgresStore(postgres_server.url(database))) as store:
            store.append(append_of(f"s{number}", 0, "a"))

    together(8, work)
    with closing(PostgresStore(postgres_server.url(database))) as store:
        assert len(store.sessions()) == 8


def test_a_newer_schema_is_refused_and_left_alone(postgres_server: Server, database: str) -> None:
    url = postgres_server.url(database)
    open_store(url).close()
    postgres_server.execute("UPDATE turnstream.turnstream_schema SET version = 99", database)
    assert "upgrade turnstream" in refused(StoreTooNew, url)
    left = postgres_server.execute("SELECT version FROM turnstream.turnstream_schema", database)
    assert left == [(99,)]


def test_another_applications_tables_are_left_alone(postgres_server: Server, database: str) -> None:
    postgres_server.execute("CREATE TABLE public.sessions (id text)", database)
    assert "?schema=" in refused(NotAStore, postgres_server.url(database, "?schema=public"))
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    assert postgres_server.execute(tables, database) == [(1,)]
    open_store(postgres_server.url(database)).close()
    assert postgres_server.execute(tables, database) == [(1,)]


def test_a_migration_that_fails_leaves_nothing(
    postgres_server: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (*MIGRATIONS[0], "SELECT 1 / 0")
    monkeypatch.setattr("turnstream.stores.postgres.schema.MIGRATIONS", (broken,))
    with pytest.raises(StoreError):
        open_store(postgres_server.url(database))
    monkeypatch.undo()
    found = "SELECT count(*) FROM pg_namespace WHERE nspname = 'turnstream'"
    assert postgres_server.execute(found, database) == [(0,)]
    open_store(postgres_server.url(database)).close()


def test_a_database_in_another_encoding_is_refused(postgres_server: Server) -> None:
    name = f"test_{next(NUMBERS)}"
    postgres_server.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0")
    assert "UTF8" in refused(NotSupported, postgres_server.url(name))


def test_what_keeps_a_store_from_being_reached_is_told_without_the_password(
    postgres_server: Server,
) -> None:
    url = postgres_server.url()
    told = {
        url.replace(QUOTED, "wrong-secret"): "authentication failed",
        postgres_server.url("no_such_database"): "no_such_database",
        re.sub(r":\d+/", ":1/", url): "refused",
        url.replace("127.0.0.1", "no-such-host.invalid"): "no-such-host.invalid",
        postgres_server.url(options="?sslmode=require"): "SSL",
    }
    for wrong, reason in told.items():
        assert reason in refused(StoreUnavailable, wrong)


@pytest.mark.parametrize(
    "options",
    ["?schema=a-b", "?schema=", "?schema=pg_x", "?timeout=soon", "?pool=0", "?pool=x", "?x=1"],
)
def test_an_address_that_is_none_is_refused_without_the_password(options: str) -> None:
    refused(NotAStore, f"postgresql://user:{QUOTED}@localhost:1/x{options}")


def test_an_address_with_a_password_that_is_not_quoted_is_not_told() -> None:
    refused(NotAStore, f"postgresql://user:{PASSWORD}@localhost:port/x")


def test_who_may_only_read_can_read_and_is_told_why_not_more(
    postgres_server: Server, database: str
) -> None:
    with closing(open_store(postgres_server.url(database))) as store:
        store.append(append_of("s", 0, "a"))
    reader = f"reader_{next(NUMBERS)}"
    for statement in (
        f"CREATE ROLE {reader} LOGIN PASSWORD '{PASSWORD}'",
        f"GRANT USAGE ON SCHEMA turnstream TO {reader}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA turnstream TO {reader}",
    ):
        postgres_server.execute(statement, database)
    with closing(open_store(postgres_server.url(database, user=reader))) as store:
        assert texts(store.read("s")) == ["a"]
        for call in (
            lambda: store.append(append_of("s", 1, "b")),
            lambda: store.delete("s"),
            store.next_generation,
        ):
            with pytest.raises(StoreUnavailable, match="permission"):
                call()
    postgres_server.execute(f"REVOKE ALL ON SCHEMA turnstream FROM {reader}", database)
    assert "grant" in refused(StoreUnavailable, postgres_server.url(database, user=reader))
    assert "permission" in refused(
        StoreUnavailable, postgres_server.url(database, "?schema=other", user=reader)
    )


def test_a_read_only_database_is_told(postgres_server: Server, database: str) -> None:
    open_store(postgres_server.url(database)).close()
    postgres_server.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    with closing(open_store(postgres_server.url(database))) as store:
        assert store.sessions() == []
        with pytest.raises(StoreUnavailable, match="read-only"):
            store.append(append_of("s", 0, "a"))


def test_another_default_isolation_changes_nothing(postgres_server: Server, database: str) -> None:
    postgres_server.execute(
        f"ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'"
    )
    with closing(open_store(postgres_server.url(database))) as store:
        together(8, lambda k: [store.append(append_of(f"s{k}", n, "x")) for n in range(10)])
        assert {row.version for row in store.sessions()} == {10}
