"""Opening a directory as a store: new, newer, somebody else's; and media that fail."""

import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from queue import SimpleQueue

import pytest

from turnstream.events.errors import NotAStore, StoreError, StoreTooNew, StoreUnavailable
from turnstream.stores import Append, Appended, JSONLStore, RowChange
from turnstream.stores.jsonl import journal, opening
from turnstream.stores.jsonl.lines import sealed
from turnstream.stores.jsonl.opening import FORMAT, Identity
from turnstream.stores.specimens import (
    NOON,
    PATIENCE,
    append_of,
    approval,
    event,
    texts,
    together,
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "streams"


def written(place: Path, *appended: str) -> None:
    with closing(JSONLStore(place)) as store:
        store.append(append_of("s", 0, *appended or "abc"))


def content_of(place: Path) -> dict[str, bytes]:
    files = [path for path in place.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in files}


def refused(place: Path, kind: type[StoreError]) -> str:
    """What opening says; it must name the path and leave everything as it was."""
    before = content_of(place.parent)
    with pytest.raises(kind) as error:
        JSONLStore(place)
    assert str(place) in str(error.value)
    assert content_of(place.parent) == before
    return str(error.value)


def test_missing_directories_are_made(tmp_path: Path) -> None:
    written(tmp_path / "a" / "b" / "streams")


def test_an_empty_directory_becomes_a_store(place: Path) -> None:
    place.mkdir()
    written(place)


def test_a_new_directory_may_be_opened_by_many_threads_at_once(tmp_path: Path) -> None:
    for n in range(5):
        place = tmp_path / str(n) / "streams"

        def use(number: int, place: Path = place) -> None:
            with closing(JSONLStore(place, timeout=30)) as store:
                store.append(append_of(f"s{number}", 0, "a"))

        together(16, use)
        with closing(JSONLStore(place)) as store:
            assert len(store.sessions()) == 16
            assert list(store.check()) == []


def test_a_file_where_the_directory_should_be_is_no_store(place: Path) -> None:
    place.write_text("milk")
    refused(place, NotAStore)


def test_a_directory_with_other_files_is_left_alone(place: Path) -> None:
    place.mkdir()
    (place / "notes.txt").write_text("milk")
    assert "notes.txt" in refused(place, NotAStore)


def test_a_file_where_a_parent_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    refused(tmp_path / "notes" / "streams", StoreUnavailable)


def test_a_newer_store_asks_for_an_upgrade_and_is_left_alone(place: Path) -> None:
    written(place)
    (place / "store.json").write_bytes(sealed(Identity(FORMAT + 1)))
    assert "upgrade turnstream" in refused(place, StoreTooNew)


def test_a_store_without_its_identity_is_not_taken_for_a_new_one(place: Path) -> None:
    written(place)
    (place / "store.json").unlink()
    shutil.rmtree(place / "snapshots", ignore_errors=True)
    refused(place, StoreUnavailable)


@contextmanager
def without_privileges(*, owns: Path) -> Iterator[None]:
    """Be a user whom permissions bind, and who owns this directory and what is in it."""
    if os.geteuid() != 0:
        yield
        return
    for each in (owns, *owns.rglob("*")):
        os.chown(each, 65534, 65534)
    for parent in owns.parents:
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def only_readable(place: Path) -> None:
    for each in (*place.rglob("*"), place):
        each.chmod(0o555 if each.is_dir() else 0o444)


def test_a_read_only_store_can_be_read_and_refuses_appends(place: Path, tmp_path: Path) -> None:
    written(place)
    only_readable(place)
    with without_privileges(owns=tmp_path), closing(JSONLStore(place)) as store:
        assert texts(store.read("s")) == ["a", "b", "c"]
        assert [row.version for row in store.sessions()] == [3]
        for write in (
            lambda: store.append(append_of("s", 3, "d")),
            lambda: store.delete("s"),
            store.next_generation,
            store.compact,
        ):
            with pytest.raises(StoreUnavailable, match="permission"):
                write()
        assert texts(store.read_all()) == ["a", "b", "c"]
        assert list(store.check()) == []


def test_a_store_on_a_read_only_medium_can_be_read(mount: Callable[[str], Path]) -> None:
    place = mount("size=4m") / "streams"
    written(place)
    mount("remount,ro")
    with closing(JSONLStore(place)) as store:
        assert texts(store.read("s")) == ["a", "b", "c"]
        with pytest.raises(StoreUnavailable, match="permission"):
            store.append(append_of("s", 3, "d"))


def test_a_directory_that_cannot_be_written_names_the_path(tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    shelf.chmod(0o555)
    with without_privileges(owns=tmp_path):
        for place in (shelf, shelf / "deeper"):
            with pytest.raises(StoreUnavailable) as error:
                JSONLStore(place)
            assert str(place) in str(error.value)


def test_a_directory_that_vanished_is_named_and_nothing_is_told_to_be_written(place: Path) -> None:
    with closing(JSONLStore(place)) as store:
        store.append(append_of("s", 0, "a"))
        shutil.rmtree(place)
        for call in (
            lambda: store.append(append_of("s", 1, "b")),
            lambda: store.read("s"),
            store.read_all,
            store.next_generation,
        ):
            with pytest.raises(StoreUnavailable) as error:
                call()
            assert str(place) in str(error.value)


def test_a_directory_that_was_replaced_is_not_written_to(place: Path) -> None:
    with closing(JSONLStore(place)) as store:
        store.append(append_of("s", 0, "a"))
        shutil.rmtree(place)
        written(place)
        with pytest.raises(StoreUnavailable, match="replaced"):
            store.append(append_of("s", 1, "b"))
    with closing(JSONLStore(place)) as store:
        assert texts(store.read("s")) == ["a", "b", "c"]


def test_too_many_open_files_are_named_and_later_the_store_goes_on(place: Path) -> None:
    with closing(JSONLStore(place)) as store:
        store.append(append_of("s", 0, "a"))
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        with ExitStack() as held:
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
            held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
            with suppress(OSError):
                while True:
                    held.enter_context(Path(os.devnull).open("rb"))
            for call in (lambda: store.append(append_of("s", 1, "b")), lambda: store.read("s")):
                with pytest.raises(StoreUnavailable, match="too many open files"):
                    call()
        assert texts(store.read("s")) == ["a"]
        assert store.append(append_of("s", 1, "b")).version == 2
        assert list(store.check()) == []


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def fill(store: JSONLStore) -> tuple[int, StoreUnavailable]:
    """Append until the disk is full; how many events were acknowledged, and the error."""
    row = store.session("s")
    for version in count(row.version if row else 0):
        try:
            store.append(append_of("s", version, "x" * 3000))
        except StoreUnavailable as error:
            return version, error
    raise AssertionError


def check(store: JSONLStore, acknowledged: int) -> None:
    assert texts(store.read("s")) == ["x" * 3000] * acknowledged
    row = store.session("s")
    assert row is not None
    assert row.version == acknowledged
    assert list(store.check()) == []


def test_a_full_disk_is_named_and_once_freed_the_same_store_goes_on(
    mount: Callable[[str], Path],
) -> None:
    medium = mount("size=1m")
    ballast = medium / "ballast"
    ballast.write_bytes(b"x" * 300_000)
    place = medium / "streams"
    with closing(JSONLStore(place)) as store:
        acknowledged, error = fill(store)
        assert acknowledged > 10
        assert str(place) in str(error) and "full" in str(error)
        check(store, acknowledged)
        with pytest.raises(StoreUnavailable, match="full"):
            store.append(append_of("new", 0, "x" * 100_000))
        assert store.session("new") is None and list(store.read("new")) == []
        ballast.unlink()
        store.append(append_of("s", acknowledged, "x" * 3000))
        check(store, acknowledged + 1)
    with closing(JSONLStore(place)) as store:
        check(store, acknowledged + 1)


@pytest.mark.parametrize("largest", [4_000_000, 20_000])
def test_a_file_that_may_not_grow_is_named_and_later_the_same_store_goes_on(
    place: Path, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is the journal, once the session's file."""
    monkeypatch.setattr(journal, "LARGEST", largest)
    with closing(JSONLStore(place)) as store:
        store.append(append_of("s", 0, "x" * 3000))
        with files_limited_to(200_000):
            acknowledged, error = fill(store)
            assert str(place) in str(error)
            check(store, acknowledged)
        store.append(append_of("s", acknowledged, "x" * 3000))
        check(store, acknowledged + 1)
    with closing(JSONLStore(place)) as store:
        check(store, acknowledged + 1)


def test_every_append_of_a_round_that_does_not_fit_is_told(place: Path) -> None:
    answers = SimpleQueue[object]()
    with closing(JSONLStore(place)) as store:
        store.append(append_of("first", 0, "x"))
        appends = [append_of(f"s{n}", 0, "x" * 3000) for n in range(50)]

        def submit_rest(_: object) -> None:
            for append in appends:
                store.submit(append, answers.put)

        with files_limited_to(8_000):
            store.submit(append_of("first", 1, "y"), submit_rest)
            told = [answers.get(timeout=PATIENCE) for _ in appends]
        assert StoreUnavailable in {type(answer) for answer in told}
        stored = {record.session_id for record in store.read_all()} - {"first"}
        assert stored == {
            append.session_id
            for append, answer in zip(appends, told, strict=True)
            if isinstance(answer, Appended)
        }
        assert list(store.check()) == []


def test_opening_a_store_on_a_full_disk_names_the_path(mount: Callable[[str], Path]) -> None:
    medium = mount("size=100k")
    (medium / "ballast").write_bytes(b"x" * 100 * 1024)
    with pytest.raises(StoreUnavailable) as error:
        JSONLStore(medium / "streams")
    assert str(medium) in str(error.value)


def test_an_erasure_that_does_not_fit_changes_nothing(mount: Callable[[str], Path]) -> None:
    medium = mount("size=1m")
    with closing(JSONLStore(medium / "streams")) as store:
        store.append(append_of("s", 0, "x" * 200_000, "b"))
    with closing(JSONLStore(medium / "streams")) as store:
        (medium / "ballast").write_bytes(b"x" * 600_000)
        with pytest.raises(StoreUnavailable, match="full"):
            store.erase(append_of("s", 2, "c"), {2: append_of("s", 0, "gone").events[0]})
        assert texts(store.read("s")) == ["x" * 200_000, "b"]
        (medium / "ballast").unlink()
        store.erase(append_of("s", 2, "c"), {2: append_of("s", 0, "gone").events[0]})
        assert texts(store.read("s")) == ["x" * 200_000, "gone", "c"]
        assert list(store.check()) == []


def test_what_was_erased_is_in_no_file_once_the_store_was_compacted(place: Path) -> None:
    with closing(JSONLStore(place)) as store:
        store.append(append_of("s", 0, "a secret", "b"))
        store.append(append_of("gone", 0, "a secret"))
        store.erase(append_of("s", 2, "c"), {1: append_of("s", 0, "gone").events[0]})
        store.delete("gone")
        store.compact()
        held = b"".join(content_of(place).values())
        assert b"a secret" not in held and b"YSBzZWNyZXQ" not in held


def test_what_a_question_held_goes_with_an_erasure(place: Path) -> None:
    """Its arguments may be what is erased, and rows stand in the files."""
    row = RowChange("awaiting-approval", "a", NOON, approvals=(approval(1, {"x": "a secret"}),))
    with closing(JSONLStore(place)) as store:
        store.append(Append("s", 0, (event("a"),), row))
        store.append(append_of("s", 1, "b"))
        store.erase(append_of("s", 2, "c"), {1: event("gone")})
        store.compact()
        assert b"a secret" not in b"".join(content_of(place).values())
        assert texts(store.read("s")) == ["gone", "b", "c"]


def test_a_store_that_another_process_makes_meanwhile_is_opened(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_free = opening._check_free

    def while_another_makes_it(there: Path) -> None:
        monkeypatch.setattr(opening, "_check_free", check_free)
        with closing(JSONLStore(there)) as other:
            other.append(append_of("s", 0, "a"))
        check_free(there)

    monkeypatch.setattr(opening, "_check_free", while_another_makes_it)
    with closing(JSONLStore(place)) as store:
        assert texts(store.read("s")) == ["a"]
