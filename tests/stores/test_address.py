"""Addresses of stores."""

import sys
from pathlib import Path

import pytest

from turnstream.events.errors import NotAStore, NotSupported
from turnstream.stores import EventStore, JSONLStore, MemoryStore, SQLiteStore, open_store
from turnstream.stores.specimens import append_of, texts


def closed(store: EventStore) -> EventStore:
    store.close()
    return store


def test_memory_is_a_memory_store() -> None:
    assert isinstance(closed(open_store("memory://")), MemoryStore)


def test_sqlite_without_a_path_is_in_memory_and_every_one_is_another() -> None:
    one, other = open_store("sqlite://"), open_store("sqlite://")
    one.append(append_of("s", 0, "a"))
    assert (len(one.read("s")), len(other.read("s"))) == (1, 0)
    assert not one.durable
    one.close()
    other.close()


def test_three_slashes_are_a_relative_path_and_four_an_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    closed(open_store("sqlite:///near/streams.db"))
    closed(open_store(f"sqlite:///{tmp_path}/far/streams.db"))
    assert (tmp_path / "near/streams.db").is_file()
    assert (tmp_path / "far/streams.db").is_file()


def test_a_relative_path_stays_where_it_was_when_the_process_changes_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///streams.db")
    monkeypatch.chdir("/")
    store.append(append_of("s", 0, "a"))
    assert texts(store.read("s")) == ["a"]
    store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["streams.db"]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a b.db", "a b.db"),
        ("ä-日本-😀.db", "ä-日本-😀.db"),
        ("a%20b.db", "a b.db"),
        ("100%25.db", "100%.db"),
        ("100%.db", "100%.db"),
        ("why%3F.db", "why?.db"),
        ("a#b.db", "a#b.db"),
        ("a'b\"c;d.db", "a'b\"c;d.db"),
        ("file:x.db", "file:x.db"),
        ("x.db%3Fmode=memory", "x.db?mode=memory"),
    ],
)
def test_any_name_of_a_file_can_be_written(written: str, name: str, tmp_path: Path) -> None:
    for n in range(2):
        store = open_store(f"sqlite:///{tmp_path}/{written}?timeout=1")
        store.append(append_of("s", n, str(n)))
        assert len(store.read("s")) == n + 1
        store.close()
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(("option", "level"), [("", 2), ("?synchronous=full", 2)])
def test_full_synchronisation_is_the_default(option: str, level: int, tmp_path: Path) -> None:
    assert synchronous(f"sqlite:///{tmp_path}/x.db{option}") == level


def test_normal_synchronisation_can_be_chosen(tmp_path: Path) -> None:
    assert synchronous(f"sqlite:///{tmp_path}/x.db?synchronous=normal&timeout=0.5") == 1


@pytest.mark.parametrize("options", ["", "?sync=full", "?sync=none&timeout=0.5"])
def test_jsonl_names_a_directory(options: str, tmp_path: Path) -> None:
    for n in range(2):
        store = open_store(f"jsonl:///{tmp_path}/a/b%3F{options}")
        assert isinstance(store, JSONLStore)
        store.append(append_of("s", n, str(n)))
        assert len(store.read("s")) == n + 1
        store.close()
    assert (tmp_path / "a" / "b?" / "sessions" / "s.jsonl").is_file()


def synchronous(url: str) -> int:
    store = open_store(url)
    assert isinstance(store, SQLiteStore)
    levels: list[int] = []
    store.recorder.datastore.writes.write(
        lambda cursor: levels.extend(cursor.execute("PRAGMA synchronous").fetchone())
    )
    store.close()
    return levels[0]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "streams.db",
        "/var/streams.db",
        "sqlite:streams.db",
        "sqlite:/streams.db",
        "sqlite://streams.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///a%00b.db",
        "sqlite:///x.db?synchronous=off",
        "sqlite:///x.db?timeout=soon",
        "sqlite:///x.db?timeout=-1",
        "sqlite:///x.db?timeout=nan",
        "sqlite:///x.db?mode=ro",
        "jsonl://",
        "jsonl:///",
        "jsonl://streams",
        "jsonl:///a%00b",
        "jsonl:///streams?sync=maybe",
        "jsonl:///streams?synchronous=full",
        "memory://x",
        "memory://?timeout=1",
        "mysql://root:secret@host/db",
        "SQLITE:///x.db",
    ],
)
def test_what_is_no_address_is_refused_with_the_forms_there_are(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotAStore) as refused:
        open_store(url)
    assert "secret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_address_is_answered_with_every_form() -> None:
    with pytest.raises(NotAStore) as refused:
        open_store("mysql://host/db")
    for form in (
        *("memory://", "sqlite:///", "sqlite:////", "sqlite://"),
        *("jsonl:///", "postgresql://"),
    ):
        assert form in str(refused.value)


def test_without_its_client_a_postgresql_store_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in [name for name in sys.modules if name.startswith("turnstream.stores.postgres")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(NotSupported, match=r"turnstream\[postgres\]") as refused:
        open_store("postgresql://user:secret@host/db")
    assert "secret" not in str(refused.value)
