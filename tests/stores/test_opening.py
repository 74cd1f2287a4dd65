"""Opening a SQLite store: new, old, newer, damaged, somebody else's."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from turnstream.events.errors import NotAStore, StoreBusy, StoreError, StoreTooNew, StoreUnavailable
from turnstream.stores import SQLiteStore, schema
from turnstream.stores.specimens import append_of, texts, together


def written(path: Path, *appended: str) -> None:
    """Make a store with one session in it."""
    with closing(SQLiteStore(path)) as store:
        store.append(append_of("s", 0, *appended or "abc"))


def refused(path: Path, kind: type[StoreError]) -> str:
    """What opening says; it must name the path and leave the file as it was."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(kind) as error:
        SQLiteStore(path)
    assert str(path) in str(error.value)
    assert before == (path.read_bytes() if path.is_file() else None)
    assert not Path(f"{path}-wal").exists()
    return str(error.value)


def foreign(path: Path, *statements: str) -> None:
    """Make a database of some other application."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@contextmanager
def without_privileges(*, owns: Path) -> Iterator[None]:
    """Be a user whom permissions bind, and who owns this directory and what is in it."""
    if os.geteuid() != 0:
        yield
        return
    for place in (owns, *owns.rglob("*")):
        os.chown(place, 65534, 65534)
    for parent in owns.parents:
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_missing_directories_are_made(tmp_path: Path) -> None:
    written(tmp_path / "a" / "b" / "streams.db")


@pytest.mark.slow
def test_a_new_file_may_be_opened_by_many_threads_at_once(tmp_path: Path) -> None:
    for n in range(10):
        path = tmp_path / str(n) / "streams.db"

        def use(number: int, path: Path = path) -> None:
            with closing(SQLiteStore(path)) as store:
                store.append(append_of(f"s{number}", 0, "a"))

        together(16, use)
        with closing(SQLiteStore(path)) as store:
            assert len(store.sessions()) == 16


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    written(path)


def test_a_text_file_is_no_store(path: Path) -> None:
    path.write_text("shopping list\n" * 1000)
    refused(path, NotAStore)


def test_a_short_text_file_is_no_store(path: Path) -> None:
    path.write_text("milk")
    refused(path, NotAStore)


def test_a_directory_is_no_store(path: Path) -> None:
    path.mkdir()
    refused(path, NotAStore)
    assert list(path.iterdir()) == []


def test_a_device_is_no_store() -> None:
    refused(Path(os.devnull), NotAStore)


def test_a_truncated_store_says_that_it_is_damaged(path: Path) -> None:
    written(path, *map(str, range(2000)))
    os.truncate(path, path.stat().st_size // 2)
    assert "damaged" in refused(path, StoreUnavailable)


def test_a_store_cut_within_its_header_says_that_it_is_damaged(path: Path) -> None:
    written(path)
    os.truncate(path, 50)
    assert "damaged" in refused(path, StoreUnavailable)


def test_a_page_overwritten_with_noise_is_a_store_error_on_reading(path: Path) -> None:
    written(path, *map(str, range(5000)))
    noise = bytearray(path.read_bytes())
    noise[4096 * 3 :] = os.urandom(len(noise) - 4096 * 3)
    path.write_bytes(noise)
    with closing(SQLiteStore(path)) as store, pytest.raises(StoreUnavailable) as error:
        store.read("s")
    assert str(path) in str(error.value)


def test_a_file_where_a_directory_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    path = tmp_path / "notes" / "streams.db"
    with pytest.raises(StoreUnavailable) as error:
        SQLiteStore(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE recipes (name)",),
        ("CREATE TABLE stored_events (originator_id)", "PRAGMA user_version = 1"),
        ("PRAGMA user_version = 7",),
        ("PRAGMA application_id = 7",),
    ],
)
def test_a_database_of_another_application_is_left_alone(
    statements: tuple[str, ...], path: Path
) -> None:
    foreign(path, *statements)
    assert "another application" in refused(path, NotAStore)


def test_a_newer_store_asks_for_an_upgrade_and_is_left_alone(path: Path) -> None:
    written(path)
    foreign(path, f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")
    with pytest.raises(StoreTooNew, match="upgrade turnstream"):
        SQLiteStore(path)


def test_the_last_migration_leaves_the_version_it_is_counted_as(path: Path) -> None:
    written(path)
    with closing(sqlite3.connect(path)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()
        application = connection.execute("PRAGMA application_id").fetchone()
    assert (version, application) == ((len(schema.MIGRATIONS),), (schema.APPLICATION_ID,))


def test_an_older_store_is_migrated_and_keeps_its_events(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(path)
    version = len(schema.MIGRATIONS) + 1
    step = ("ALTER TABLE sessions ADD note TEXT", f"PRAGMA user_version = {version}")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
    for _ in range(2):
        with closing(SQLiteStore(path)) as store:
            assert texts(store.read("s")) == ["a", "b", "c"]
    monkeypatch.undo()
    with pytest.raises(StoreTooNew):
        SQLiteStore(path)


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(path)
    step = ("ALTER TABLE sessions ADD note TEXT", "ALTER TABLE nowhere ADD note TEXT")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
    with pytest.raises(StoreError):
        SQLiteStore(path)
    monkeypatch.undo()
    with closing(SQLiteStore(path)) as store:
        assert store.append(append_of("s", 3, "d")).version == 4
    with closing(sqlite3.connect(path)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(sessions)")]
    assert "note" not in columns


def test_a_copy_without_a_write_ahead_log_gets_one(path: Path, tmp_path: Path) -> None:
    written(path)
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    with closing(SQLiteStore(copy)) as store:
        assert texts(store.read("s")) == ["a", "b", "c"]
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_file_that_another_program_holds_is_busy(path: Path) -> None:
    written(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusy, match=path.name):
            SQLiteStore(path, timeout=0.1)
    written(path.with_name("other.db"))


def test_a_file_without_read_permission_names_the_path_and_the_permission(
    path: Path, tmp_path: Path
) -> None:
    written(path)
    path.chmod(0)
    with without_privileges(owns=tmp_path), pytest.raises(StoreUnavailable) as error:
        SQLiteStore(path)
    assert str(path) in str(error.value)
    assert "permission" in str(error.value)


def test_a_directory_that_cannot_be_written_names_the_path(tmp_path: Path) -> None:
    place = tmp_path / "shelf"
    place.mkdir()
    place.chmod(0o555)
    with without_privileges(owns=tmp_path):
        for path in (place / "streams.db", place / "deeper" / "streams.db"):
            with pytest.raises(StoreUnavailable) as error:
                SQLiteStore(path)
            assert str(path) in str(error.value)


def test_a_read_only_file_can_be_read_and_refuses_appends(path: Path, tmp_path: Path) -> None:
    written(path)
    path.chmod(0o444)
    with without_privileges(owns=tmp_path), closing(SQLiteStore(path)) as store:
        assert texts(store.read("s")) == ["a", "b", "c"]
        assert [row.version for row in store.sessions()] == [3]
        for write in (
            lambda: store.append(append_of("s", 3, "d")),
            lambda: store.delete("s"),
            store.next_generation,
        ):
            with pytest.raises(StoreUnavailable, match="permission"):
                write()
        assert texts(store.read_all()) == ["a", "b", "c"]


def test_a_store_on_a_read_only_medium_can_be_read(mount: Callable[[str], Path]) -> None:
    path = mount("size=4m") / "streams.db"
    written(path)
    mount("remount,ro")
    with closing(SQLiteStore(path)) as store:
        assert texts(store.read("s")) == ["a", "b", "c"]
        with pytest.raises(StoreUnavailable, match="permission"):
            store.append(append_of("s", 3, "d"))
