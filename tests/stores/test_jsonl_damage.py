"""Files that were cut, altered or lost: what is read is right, or what is wrong is named."""

import logging
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
)
from turnstream.stores import JSONLStore, SessionRow, Snapshot
from turnstream.stores.copying import fork_of
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


@pytest.mark.slow
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


def test_a_store_whose_identity_is_damaged_is_named(shelf: Shelf) -> None:
    place = shelf.copy()
    (place / "store.json").write_text("{}")
    with pytest.raises(StoreUnavailable) as error:
        JSONLStore(place)
    assert str(place / "store.json") in str(error.value)
