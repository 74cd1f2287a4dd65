"""What becomes of files that were cut or damaged: put right, put aside, or named."""

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from turnstream.events.envelope import EncodedEvent
from turnstream.events.errors import CorruptEvent, WrongExpectedVersion
from turnstream.stores import JSONLStore
from turnstream.stores.jsonl.lines import FORMAT, Header, sealed
from turnstream.stores.jsonl.reading import Damage, read_records
from turnstream.stores.specimens import append_of, texts


def files(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


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
