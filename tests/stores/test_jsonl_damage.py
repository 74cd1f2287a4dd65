"""Files that were cut, altered or lost: what is read is right, or what is wrong is named."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnstream.events.envelope import EncodedEvent, StoredRecord
from turnstream.events.errors import (
    CorruptEvent,
    SessionDeleted,
    StoreError,
    StoreUnavailable,
    WrongExpectedVersion,
)
from turnstream.stores import JSONLStore, SessionRow, Snapshot
from turnstream.stores.copying import fork_of
from turnstream.stores.jsonl.lines import FORMAT, Header, sealed
from turnstream.stores.jsonl.reading import Damage, read_records
from turnstream.stores.specimens import append_of, texts


class Shelf:
    """A store as it was written, and what was read from it then."""

    def __init__(self, place: Path) -> None:
        self.whole, self._copies, self._number = place / "whole", place / "copies", count()
        with closing(JSONLStore(self.whole)) as store:
            for n in range(4):
                store.append(append_of("plain", 3 * n, f"{n}.a", f'{{"n":{n}}}', f"{n}.ä😀"))
            store.append(append_of("gone", 0, "a", "b"))
            store.append(append_of("A/ä", 0, "x" * 500, "\0"))
            store.erase(append_of("A/ä", 2, "c"), {1: EncodedEvent("noted", b"erased")})
            store.append(fork_of("plain", 5, "fork", "y"))
            store.append(append_of("x" * 500, 0, "long"))
            store.delete("gone")
            store.snapshots.keep(Snapshot("plain", 3, 1, b"fold"))
            models = store.read_models
            models.advance(models.begin("usage", 1), {"a": b"1"}, 3)
            self.generation = store.next_generation()
            self.sessions = tuple(store.stream_ids())
            self.streams = {sid: store.read(sid) for sid in self.sessions}
            self.rows = {row.session_id: row for row in store.sessions()}
            self.log = store.read_all()
            # With all that is in the journal.
            shutil.copytree(self.whole, place / "open")
        self.open = place / "open"

    def copy(self, of: Path | None = None) -> Path:
        place = self._copies / str(next(self._number))
        shutil.copytree(of or self.whole, place)
        return place


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture
def quiet() -> Iterator[None]:
    """No warnings; there would be thousands."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def files(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


def opened(place: Path) -> JSONLStore | StoreError:
    try:
        return JSONLStore(place)
    except StoreError as error:
        return error


def outcome(store: JSONLStore, sid: str) -> tuple[StoredRecord, ...] | StoreError:
    try:
        return tuple(store.read(sid))
    except StoreError as error:
        return error


def right_or_named(shelf: Shelf, place: Path, name: str) -> None:
    """What a damaged copy says is what the whole one said, or it says that it is damaged."""
    store = opened(place)
    if isinstance(store, StoreError):
        assert str(place) in str(store)
        return
    with closing(store):
        failed: list[str] = []
        for sid in shelf.sessions:
            found = outcome(store, sid)
            if isinstance(found, StoreError):
                assert isinstance(found, CorruptEvent)
                assert found.session_id == sid and found.version > 0
                failed.append(sid)
            else:
                assert found == tuple(shelf.streams[sid])
        assert len(failed) <= (1 if name.startswith("sessions") else 0)
        logged(shelf, store, failed)
        rows = {row.session_id: row for row in store.sessions()}
        assert all(rows[sid] == shelf.rows[sid] for sid in rows)
        wrong = store.check()
        assert (not failed and rows.keys() == shelf.rows.keys()) or wrong
        with pytest.raises((SessionDeleted, CorruptEvent)):
            store.append(append_of("gone", 0, "again"))
        assert store.next_generation() > shelf.generation
        goes_on(store, shelf.rows, failed)


def logged(shelf: Shelf, store: JSONLStore, failed: list[str]) -> None:
    if failed:
        with suppress(CorruptEvent):
            store.read_all()
    else:
        assert list(store.read_all()) == list(shelf.log)


def goes_on(store: JSONLStore, rows: dict[str, SessionRow], failed: list[str]) -> None:
    last = store.read_models.end()
    for sid, row in rows.items():
        if sid not in failed:
            try:
                ended = store.append(append_of(sid, row.version, "on"))
            except CorruptEvent:
                assert any(repr(sid) in line for line in store.check())
            else:
                assert ended.version == row.version + 1 and ended.position > last
                assert texts(store.read(sid, after=row.version)) == ["on"]


def altered(content: bytes, at: int, how: str, byte: int) -> bytes:
    lines = content.splitlines(keepends=True)
    match how:
        case "cut":
            return content[:at]
        case "flip":
            return content[:at] + bytes([content[at] ^ byte]) + content[at + 1 :]
        case "drop a line":
            del lines[at % len(lines)]
            return b"".join(lines)
        case "repeat a line":
            return b"".join([*lines[: at % len(lines) + 1], *lines[at % len(lines) :]])
        case _:
            return content[:at] + content[at + 1 + byte :]


HOW = st.sampled_from(["cut", "flip", "drop a line", "repeat a line", "cut out"])


def damage_anywhere(shelf: Shelf, state: Path, choose: st.DataObject) -> None:
    place = shelf.copy(state)
    name = choose.draw(st.sampled_from([each for each in files(place) if each != "lock"]), "file")
    content = (place / name).read_bytes()
    if content:
        at = choose.draw(st.integers(0, len(content) - 1), "at")
        how, byte = choose.draw(HOW, "how"), choose.draw(st.integers(1, 255), "byte")
        (place / name).write_bytes(altered(content, at, how, byte))
    right_or_named(shelf, place, name)
    shutil.rmtree(place)


ANY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.usefixtures("quiet")
@settings(ANY, max_examples=60)
@given(choose=st.data())
def test_whatever_is_done_to_a_file_what_is_read_is_right_or_is_named(
    shelf: Shelf, choose: st.DataObject
) -> None:
    damage_anywhere(shelf, shelf.whole, choose)


@pytest.mark.usefixtures("quiet")
@settings(ANY, max_examples=30)
@given(choose=st.data())
def test_so_it_is_with_a_store_that_was_not_closed(shelf: Shelf, choose: st.DataObject) -> None:
    damage_anywhere(shelf, shelf.open, choose)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quiet")
@settings(ANY, max_examples=1500)
@given(choose=st.data(), closed=st.booleans())
def test_whatever_is_done_to_a_file_at_length(
    shelf: Shelf, choose: st.DataObject, closed: bool
) -> None:
    damage_anywhere(shelf, shelf.whole if closed else shelf.open, choose)


def test_each_file_may_be_lost(shelf: Shelf) -> None:
    for name in files(shelf.whole):
        place = shelf.copy()
        (place / name).unlink()
        right_or_named(shelf, place, name)


def test_a_log_that_was_lost_is_made_again_and_says_the_same(shelf: Shelf) -> None:
    place = shelf.copy()
    (place / "log.jsonl").unlink()
    with closing(JSONLStore(place)) as store:
        assert list(store.read_all()) == list(shelf.log)
        assert {row.session_id: row for row in store.sessions()} == shelf.rows
        assert list(store.check()) == []
        with pytest.raises(SessionDeleted):
            store.append(append_of("gone", 0, "x"))


def test_positions_are_not_given_out_again_after_the_log_was_lost(tmp_path: Path) -> None:
    place = tmp_path / "streams"
    with closing(JSONLStore(place)) as store:
        last = store.append(append_of("s", 0, "a", "b")).position
        store.delete("s")
    (place / "log.jsonl").unlink()
    with closing(JSONLStore(place)) as store:
        assert store.append(append_of("t", 0, "a")).position > last


@pytest.mark.parametrize("length", [1, 30, 90, 140, 200, -1])
def test_a_torn_tail_is_put_aside_and_told_and_the_session_goes_on(
    length: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "streams"
    file, torn = place / "sessions" / "s.jsonl", place / "sessions" / "s.jsonl.torn"
    with closing(JSONLStore(place)) as store:
        store.append(append_of("s", 0, "a", "b"))
    before = file.read_bytes()
    shutil.copytree(place, tmp_path / "other")
    with closing(JSONLStore(tmp_path / "other")) as store:
        store.append(append_of("s", 2, "c", "d"))
    tail = (tmp_path / "other" / "sessions" / "s.jsonl").read_bytes()[len(before) :][:length]
    file.write_bytes(before + tail)
    with closing(JSONLStore(place)) as store:
        assert texts(store.read("s")) == ["a", "b"]
        assert (file.read_bytes(), torn.read_bytes()) == (before, tail)
        assert [str(torn) in line for line in store.check()] == [True]
        assert f"its last {len(tail)} bytes" in caplog.text and str(file) in caplog.text
        assert store.append(append_of("s", 2, "on")).version == 3
        assert texts(store.read("s")) == ["a", "b", "on"]
    torn.unlink()
    with closing(JSONLStore(place)) as store:
        assert list(store.check()) == []


def test_a_tail_that_is_torn_while_the_store_is_open_is_cut_before_the_next_append(
    tmp_path: Path,
) -> None:
    with closing(JSONLStore(tmp_path / "streams")) as store:
        store.append(append_of("s", 0, "a"))
        with (tmp_path / "streams" / "sessions" / "s.jsonl").open("ab") as file:
            file.write(b'{"version":2,"posi')
        assert texts(store.read("s")) == ["a"]
        store.append(append_of("s", 1, "b"))
        assert texts(store.read("s")) == ["a", "b"]
    with closing(JSONLStore(tmp_path / "streams")) as store:
        assert texts(store.read("s")) == ["a", "b"]


def test_damage_in_the_middle_names_session_version_file_and_line(tmp_path: Path) -> None:
    place = tmp_path / "streams"
    file = place / "sessions" / "s.jsonl"
    with closing(JSONLStore(place)) as store:
        for n in range(5):
            store.append(append_of("s", n, '"payload"'))
    lines = file.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5].replace(b"payload", b"pay!oad")
    file.write_bytes(b"".join(lines))
    with closing(JSONLStore(place)) as store:
        with pytest.raises(CorruptEvent) as error:
            store.read("s")
        assert (error.value.session_id, error.value.version) == ("s", 3)
        assert str(file) in str(error.value)
        with pytest.raises(CorruptEvent):
            list(store.replay("s"))
        (wrong,) = store.check()
        assert str(file) in wrong and "line 6" in wrong and "version 3" in wrong
        assert texts(store.read("s", upto=0)) == []


def test_damage_that_the_journal_knows_is_put_right_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "streams" / "sessions" / "s.jsonl"
    with closing(JSONLStore(tmp_path / "streams")) as store:
        store.append(append_of("s", 0, '"payload"'))
        file.write_bytes(file.read_bytes().replace(b':"payload"', b':"pay!oad"'))
        assert texts(store.read("s")) == ['"payload"']
        assert str(file) in caplog.text
        assert list(store.check()) == []


def test_a_file_that_was_cut_is_never_a_shorter_stream(tmp_path: Path) -> None:
    place = tmp_path / "streams"
    file = place / "sessions" / "s.jsonl"
    with closing(JSONLStore(place)) as store:
        store.append(append_of("s", 0, "a"))
        length = file.stat().st_size
        store.append(append_of("s", 1, "b"))
        store.append(append_of("t", 0, "c"))
    with file.open("ab") as cut:
        cut.truncate(length)
    with closing(JSONLStore(place)) as store:
        with pytest.raises(CorruptEvent):
            store.read("s")
        with pytest.raises(CorruptEvent):
            store.append(append_of("s", 1, "other"))
        with pytest.raises(CorruptEvent):
            store.append(append_of("s", 2, "other"))
        assert texts(store.read("t")) == ["c"]
        assert "version 1" in store.check()[0]
    (place / "log.jsonl").unlink()
    with closing(JSONLStore(place)) as store:
        assert texts(store.read("s")) == ["a"], "the loss was accepted"


def test_a_file_of_another_session_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    place = tmp_path / "streams"
    with closing(JSONLStore(place)) as store:
        for sid in ("s", "t"):
            store.append(append_of(sid, 0, sid))
    with closing(JSONLStore(place)) as store:
        shutil.copy(place / "sessions" / "s.jsonl", place / "sessions" / "t.jsonl")
        with pytest.raises(CorruptEvent):
            store.read("t")
        assert "session 's'" in store.check()[0]


def test_a_store_whose_identity_is_damaged_is_named(shelf: Shelf) -> None:
    place = shelf.copy()
    (place / "store.json").write_text("{}")
    with pytest.raises(StoreUnavailable) as error:
        JSONLStore(place)
    assert str(place / "store.json") in str(error.value)


def test_a_log_that_is_cut_while_the_store_is_open_loses_nothing(tmp_path: Path) -> None:
    place = tmp_path / "streams"
    with closing(JSONLStore(place)) as store:
        store.append(append_of("s", 0, "a"))
        length = (place / "log.jsonl").stat().st_size
        last = store.append(append_of("t", 0, "b")).position
        os.truncate(place / "log.jsonl", length)
        assert store.append(append_of("u", 0, "c")).position > last
        assert texts(store.read_all()) == ["a", "b", "c"]
        assert [row.session_id for row in store.sessions()] == ["s", "t", "u"]
        assert list(store.check()) == []
    with closing(JSONLStore(place)) as store:
        assert texts(store.read_all()) == ["a", "b", "c"]


def test_a_log_that_is_damaged_while_the_store_is_open_is_made_again(tmp_path: Path) -> None:
    place = tmp_path / "streams"
    with closing(JSONLStore(place)) as store, closing(JSONLStore(place)) as other:
        store.append(append_of("s", 0, "a"))
        content = (place / "log.jsonl").read_bytes()
        store.append(append_of("t", 0, "b"))
        (place / "log.jsonl").write_bytes(content + b"milk\n")
        assert texts(other.read_all()) == ["a", "b"]
        assert store.append(append_of("s", 1, "c")).version == 2
        assert texts(other.read_all()) == ["a", "b", "c"]
    with closing(JSONLStore(place)) as store:
        assert [".torn" in line for line in store.check()] == [True]


def test_what_a_killed_writer_left_is_finished_by_who_comes_next(tmp_path: Path) -> None:
    """The journal holds an append that is in no file yet; the lock says that it was under way."""
    place = tmp_path / "streams"
    with closing(JSONLStore(place)) as store:
        store.append(append_of("s", 0, "a"))
        before = {name: (place / name).read_bytes() for name in files(place)}
        store.append(append_of("s", 1, "b"))
        entry = (place / "journal").read_bytes()
    for name, content in before.items():
        (place / name).write_bytes(content)
    with closing(JSONLStore(place)) as store:
        assert texts(store.read("s")) == ["a"]
        (place / "journal").write_bytes(entry)
        (place / "lock").write_bytes(b"1")
        assert texts(store.read("s")) == ["a"], "a reader does not wait for it"
        with pytest.raises(WrongExpectedVersion):
            store.append(append_of("s", 1, "other"))
        assert texts(store.read("s")) == ["a", "b"]
        assert list(store.check()) == []


def test_a_reader_notices_that_a_file_was_written_anew(tmp_path: Path) -> None:
    """Else it could read what is there from places that were elsewhere."""
    with closing(JSONLStore(tmp_path / "streams")) as store:
        store.append(append_of("s", 0, "secret", "b"))
        before = store._directory.index.extract("s", 0, 2)
        assert before is not None
        store.erase(append_of("s", 2, "c"), {1: EncodedEvent("noted", b"erased")})
        with pytest.raises(Damage, match="edition 2"):
            read_records(tmp_path / "streams" / "sessions" / "s.jsonl", before)


def test_a_file_of_a_newer_format_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "streams" / "sessions" / "s.jsonl"
    with closing(JSONLStore(tmp_path / "streams")) as store:
        store.append(append_of("s", 0, "a"))
    _, *rest = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([sealed(Header(FORMAT + 1, "s", 1)), *rest]))
    (tmp_path / "streams" / "log.jsonl").unlink()
    with closing(JSONLStore(tmp_path / "streams")) as store:
        with pytest.raises(CorruptEvent, match="newer turnstream"):
            store.read("s")
        assert "newer turnstream" in store.check()[0]
