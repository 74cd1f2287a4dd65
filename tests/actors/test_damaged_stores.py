"""Whatever is done to a store's file, ``audit_store`` names it, or it changed nothing."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from composing import AT, conversation, put
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from turnstream.actors import Finding, audit_store
from turnstream.events import StoreError
from turnstream.stores import SQLiteStore

ONCE_PER_FILE = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(path: Path, turns: int) -> Path:
    with closing(SQLiteStore(path)) as store:
        put(store, "long", conversation(turns))
        put(store, "short", conversation(3, AT + timedelta(hours=1)))
        put(store, "open", conversation(2)[:-1])
        put(store, "gone", conversation(1))
        store.delete("gone")
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of some hundred events."""
    return written(tmp_path_factory.mktemp("small") / "s.db", 40)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 10,000 events."""
    return written(tmp_path_factory.mktemp("large") / "s.db", 1425)


def faults(path: Path) -> list[Finding]:
    """What is found, and be it that the file can't be opened."""
    try:
        with closing(SQLiteStore(path, timeout=0)) as store:
            found = [each for audited in audit_store(store) for each in audited.findings]
            return [each for each in found if each.is_fault]
    except StoreError as error:
        return [Finding("unreadable", "", 0, str(error))]


def observed(path: Path) -> tuple[Sequence[Any], Sequence[Any], Sequence[str]]:
    """Everything that can be read of a store."""
    with closing(SQLiteStore(path, timeout=0)) as store:
        return (
            store.read_all(limit=10**9),
            [*store.sessions(), *map(store.session, ("long", "short", "open", "gone"))],
            store.stream_ids(limit=10**9),
        )


def copy(path: Path, tmp_path: Path) -> Path:
    damaged = tmp_path / "damaged.db"
    for each in tmp_path.glob("damaged.db*"):
        each.unlink()
    shutil.copy(path, damaged)
    return damaged


def flipped(path: Path, tmp_path: Path, where: float, bit: int) -> Path:
    damaged = copy(path, tmp_path)
    content = bytearray(damaged.read_bytes())
    content[min(int(where * len(content)), len(content) - 1)] ^= 1 << bit
    damaged.write_bytes(content)
    return damaged


def test_a_sound_store_has_no_faults(large: Path, small: Path, tmp_path: Path) -> None:
    for path in (large, small):
        with closing(SQLiteStore(copy(path, tmp_path))) as store:
            looked = list(audit_store(store))
        assert [each.findings for each in looked if each.findings] == []
        assert {each.session_id for each in looked} == {"", "long", "short", "open"}
    assert sum(each.events for each in looked) == 281 + 22 + 14


def check_a_flipped_bit(path: Path, tmp_path: Path, where: float, bit: int) -> None:
    damaged = flipped(path, tmp_path, where, bit)
    if not faults(damaged):
        assert observed(damaged) == observed(path)


flips = given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))


@pytest.mark.slow
@flips
@settings(ONCE_PER_FILE, max_examples=60)
def test_a_flipped_bit_is_found_or_changes_nothing(
    small: Path, tmp_path: Path, where: float, bit: int
) -> None:
    check_a_flipped_bit(small, tmp_path, where, bit)


@pytest.mark.slow
@flips
@settings(ONCE_PER_FILE, max_examples=150)
def test_a_flipped_bit_in_ten_thousand_events_is_found_or_changes_nothing(
    large: Path, tmp_path: Path, where: float, bit: int
) -> None:
    check_a_flipped_bit(large, tmp_path, where, bit)


@pytest.mark.slow
def test_every_byte_of_the_first_pages_may_be_flipped(small: Path, tmp_path: Path) -> None:
    length = small.stat().st_size
    for place in range(0, 4096, 5):
        check_a_flipped_bit(small, tmp_path, (place + 0.5) / length, place % 8)


@pytest.mark.slow
@given(version=st.integers(1, 9976), byte=st.integers(0, 10_000), mask=st.integers(1, 255))
@settings(ONCE_PER_FILE, max_examples=12)
def test_a_flipped_byte_of_an_event_is_named_with_its_version(
    large: Path, tmp_path: Path, version: int, byte: int, mask: int
) -> None:
    damaged = copy(large, tmp_path)
    with sql(damaged) as cursor:
        payload = bytearray(state_of(cursor, version))
        payload[byte % len(payload)] ^= mask
        cursor.execute(
            "UPDATE stored_events SET state = ? WHERE originator_id = 'long' "
            "AND originator_version = ?",
            (bytes(payload), version),
        )
    (found,) = faults(damaged)
    assert found.session_id == "long"
    assert found.version - version in (0, -1), found  # its link, or what it says


def sql(path: Path) -> closing[Any]:
    return closing(sqlite3.connect(path, isolation_level=None).cursor())


def state_of(cursor: sqlite3.Cursor, version: int) -> bytes:
    (state,) = cursor.execute(
        "SELECT state FROM stored_events WHERE originator_id = 'long' AND originator_version = ?",
        (version,),
    ).fetchone()
    return bytes(state)


GAP = """
DELETE FROM stored_events WHERE originator_id = 'long' AND originator_version = {at};
"""
REMOVE = f"""{GAP}
UPDATE stored_events SET originator_version = -originator_version
WHERE originator_id = 'long' AND originator_version > {{at}};
UPDATE stored_events SET originator_version = -originator_version - 1
WHERE originator_version < 0;
"""
SWAP = """
UPDATE stored_events SET originator_version = -{at}
WHERE originator_id = 'long' AND originator_version = {at};
UPDATE stored_events SET originator_version = {at}
WHERE originator_id = 'long' AND originator_version = {at} + 1;
UPDATE stored_events SET originator_version = {at} + 1 WHERE originator_version = -{at};
"""
DUPLICATE = """
UPDATE stored_events SET originator_version = -originator_version - 1
WHERE originator_id = 'long' AND originator_version > {at};
UPDATE stored_events SET originator_version = -originator_version WHERE originator_version < 0;
INSERT INTO stored_events (originator_id, originator_version, topic, state)
SELECT originator_id, originator_version + 1, topic, state FROM stored_events
WHERE originator_id = 'long' AND originator_version = {at};
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "done", [REMOVE, SWAP, DUPLICATE, GAP], ids=["removed", "swapped", "repeated", "a gap"]
)
@pytest.mark.parametrize(
    "mended",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["row as it was", "row mended"],
)
@given(at=st.integers(1, 9975))
@example(at=1)
@example(at=9975)
@settings(ONCE_PER_FILE, max_examples=4)
def test_a_removed_swapped_or_repeated_event_is_named(
    large: Path, tmp_path: Path, done: str, mended: bool, at: int
) -> None:
    damaged = copy(large, tmp_path)
    with sql(damaged) as cursor:
        cursor.executescript(done.format(at=at))
        if mended:
            cursor.execute(
                "UPDATE sessions SET version = (SELECT max(originator_version) FROM stored_events "
                "WHERE originator_id = id), size = (SELECT sum(length(state)) FROM stored_events "
                "WHERE originator_id = id) WHERE id = 'long'"
            )
    found = faults(damaged)
    assert [each.session_id for each in found] == ["long"]
    assert found[0].kind == "chain"
    assert found[0].version in (at, at + 1), found


def test_a_missing_end_is_noticed_by_the_digest_in_the_row(small: Path, tmp_path: Path) -> None:
    damaged = copy(small, tmp_path)
    with sql(damaged) as cursor:
        cursor.execute(
            "DELETE FROM stored_events WHERE originator_id = 'long' AND originator_version > 100"
        )
        cursor.execute("UPDATE sessions SET version = 100 WHERE id = 'long'")
    (found,) = faults(damaged)
    assert (found.kind, found.version) == ("chain", 100)


ROW_DAMAGE = (
    "version = version - 1",
    "version = version + 1",
    "status = 'failed'",
    "agent = 'another'",
    "tenant = 'another'",
    "head = 'x' || substr(head, 2)",
    "size = size + 1",
    "created = created + 1",
    "updated = updated + 1",
    "status = 'no status'",
    "approvals = 'no json'",
    "parent = 'short', shared = 3",
    "deleted = 1",
)


@pytest.mark.parametrize("change", ROW_DAMAGE)
def test_a_row_that_says_something_else_than_its_stream_is_named(
    small: Path, tmp_path: Path, change: str
) -> None:
    damaged = copy(small, tmp_path)
    with sql(damaged) as cursor:
        cursor.execute(f"UPDATE sessions SET {change} WHERE id = 'long'")
    assert {each.session_id for each in faults(damaged)} - {""} == {"long"}


def test_streams_without_rows_and_rows_without_streams_are_named(
    small: Path, tmp_path: Path
) -> None:
    damaged = copy(small, tmp_path)
    with sql(damaged) as cursor:
        cursor.execute("DELETE FROM sessions WHERE id = 'long'")
        cursor.execute("DELETE FROM stored_events WHERE originator_id = 'short'")
    assert {(each.kind, each.session_id) for each in faults(damaged)} == {
        ("row", "long"),
        ("row", "short"),
    }


def test_snapshots_of_nobody_are_named(small: Path, tmp_path: Path) -> None:
    damaged = copy(small, tmp_path)
    with sql(damaged) as cursor:
        cursor.execute("INSERT INTO snapshots VALUES ('gone', 1, 1, x'00')")
    (found,) = faults(damaged)
    assert (found.kind, found.session_id) == ("medium", "")


@pytest.mark.slow
def test_the_work_grows_with_the_events_and_not_with_their_square(
    small: Path, large: Path, tmp_path: Path
) -> None:
    def seconds(path: Path) -> float:
        with closing(SQLiteStore(path)) as store:
            best = 99.0
            for _ in range(3):
                begun = process_time()
                for _ in audit_store(store):
                    pass
                best = min(best, process_time() - begun)
            return best

    few, many = 281 + 36, 9976 + 36
    ratio = seconds(copy(large, tmp_path)) / seconds(copy(small, tmp_path))
    assert ratio < 4 * many / few


@pytest.mark.slow
def test_ten_thousand_events_take_less_than_a_second(large: Path, tmp_path: Path) -> None:
    """With room for slow machines: 0.3 s where this was written."""

    def looks() -> Iterator[float]:
        with closing(SQLiteStore(copy(large, tmp_path))) as store:
            for _ in range(3):
                begun = process_time()
                assert sum(each.events for each in audit_store(store)) > 10_000
                yield process_time() - begun

    assert min(looks()) < 1
