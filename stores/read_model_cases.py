"""The part of the stores' suite that is about read models, and about rows that are put back."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from msgspec.structs import replace

from ..events.errors import StoreClosed
from ..events.read_model_errors import ReadModelMoved
from ..events.terms import ForkOrigin
from .case import StoreCase
from .copying import fork_of
from .port import EventStore, SessionRow
from .read_models import ReadModelTable
from .specimens import ALIKE, NOON, STRANGE, append_of, approval, refusal, together

KEYS = (
    "", "a", "a/", "a/b", "ab", "b", "ä", "\0", "a\0b", "日", "😀", "\ud83d", "%", "_", "*",
    "'", '"', "k' OR 1=1 --",
)  # fmt: skip
PAYLOADS = (b"", b"\0", b"\xff\xfe", b'{"a":1}')


class ReadModelConformance(StoreCase):
    """Hold a store to ``ReadModelTables``, and to what it says of rows that are put back."""

    def test_a_table_is_made_once_and_found_by_its_name(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            tables = store.read_models
            assert tables.find("usage") is None and tables.find("usage", live=False) is None
            table = tables.begin("usage", 3)
            assert (table.name, table.fold, table.position, table.live) == ("usage", 3, 0, True)
            assert tables.find("usage") == tables.begin("usage", 3) == tables.begin("usage", 4)
            assert tables.find("usage", live=False) is None
            others = [tables.begin(name, 1) for name in ALIKE]
            assert [tables.find(name) for name in ALIKE] == others
            assert tables.find("usage") == table

    def test_rows_come_back_by_key_and_in_the_order_of_their_keys(self, tmp_path: Path) -> None:
        rows = {key: PAYLOADS[n % len(PAYLOADS)] for n, key in enumerate(KEYS)}
        with self.store(tmp_path) as store:
            tables = store.read_models
            table = tables.advance(tables.begin("usage", 1), rows, 1)
            for place in ("usage", table.generation):
                assert {key: tables.get(place, key) for key in KEYS} == rows
                assert tables.get(place, "other") is None
                for prefix in KEYS:
                    named = sorted(key for key in KEYS if key.startswith(prefix))
                    assert list(tables.rows(place, prefix)) == [(key, rows[key]) for key in named]
            for nowhere in ("other", table.generation + 1):
                assert tables.get(nowhere, "a") is None
                assert list(tables.rows(nowhere)) == []

    def test_many_rows_are_written_read_and_removed_at_once(self, tmp_path: Path) -> None:
        rows = {f"{n % 7}/{n:05}": str(n).encode() * (n % 5) for n in range(3000)}
        with self.store(tmp_path) as store:
            tables = store.read_models
            table = tables.advance(tables.begin("usage", 1), rows, 5)
            assert list(tables.rows("usage")) == sorted(rows.items())
            gone = {key: None for n, key in enumerate(rows) if n % 3}
            tables.advance(table, {**gone, "0/00000": b"other", "never": None}, 6)
            left = {key: row for key, row in rows.items() if key not in gone}
            assert list(tables.rows("usage")) == sorted({**left, "0/00000": b"other"}.items())

    def test_rows_and_position_are_written_together_or_not_at_all(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            tables = store.read_models
            before = tables.begin("usage", 1)
            after = tables.advance(before, {"a": b"1"}, 7)
            assert after == replace(before, position=7) == tables.find("usage")
            error = refusal(ReadModelMoved, tables.advance, before, {"a": b"2", "b": b"2"}, 9)
            assert (error.name, error.expected, error.actual) == ("usage", 0, 7)
            assert tables.find("usage") == after
            assert list(tables.rows("usage")) == [("a", b"1")]

    def test_of_writers_that_race_for_a_position_one_wins(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            tables = store.read_models
            table = tables.begin("usage", 1)
            lost = SimpleQueue[ReadModelMoved]()

            def write(number: int) -> None:
                try:
                    tables.advance(table, {f"{number}": b"x"}, 5)
                except ReadModelMoved as error:
                    lost.put(error)

            together(8, write)
            assert lost.qsize() == 7
            assert len(tables.rows("usage")) == 1

    def test_a_table_begun_by_many_at_once_is_one(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            begun = SimpleQueue[ReadModelTable]()
            together(8, lambda n: begun.put(store.read_models.begin("usage", 1, live=n % 2 == 0)))
            generations = {begun.get().generation for _ in range(8)}
            assert len(generations) == 2

    def test_a_rebuilt_table_takes_the_place_of_the_live_one(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            tables = store.read_models
            live = tables.advance(tables.begin("usage", 1), {"old": b"1", "both": b"1"}, 4)
            rebuilt = tables.begin("usage", 2, live=False)
            assert tables.begin("usage", 2, live=False) == rebuilt
            rebuilt = tables.advance(rebuilt, {"new": b"2", "both": b"2"}, 4)
            assert list(tables.rows("usage")) == [("both", b"1"), ("old", b"1")]
            swapped = tables.swap(rebuilt)
            assert swapped == replace(rebuilt, live=True) == tables.find("usage")
            assert list(tables.rows("usage")) == [("both", b"2"), ("new", b"2")]
            assert tables.find("usage", live=False) is None
            assert list(tables.rows(live.generation)) == []
            for late in (
                partial(tables.advance, live, {"old": b"3"}, 5),
                partial(tables.advance, rebuilt, {"new": b"3"}, 5),
                partial(tables.swap, rebuilt),
            ):
                assert refusal(ReadModelMoved, late).actual is None
            assert tables.begin("usage", 2, live=False).generation > rebuilt.generation

    def test_a_table_that_fell_behind_takes_no_place(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            tables = store.read_models
            live = tables.begin("usage", 1)
            rebuilt = tables.advance(tables.begin("usage", 2, live=False), {"a": b"2"}, 4)
            live = tables.advance(live, {"a": b"1"}, 5)
            error = refusal(ReadModelMoved, tables.swap, rebuilt)
            assert (error.expected, error.actual) == (4, 5)
            assert tables.find("usage") == live
            assert tables.swap(tables.advance(rebuilt, {}, 5)).fold == 2

    def test_a_rebuild_with_another_fold_begins_anew(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            tables = store.read_models
            first = tables.advance(tables.begin("usage", 1, live=False), {"a": b"1"}, 4)
            second = tables.begin("usage", 2, live=False)
            assert (second.fold, second.position) == (2, 0)
            assert [*tables.rows(first.generation), *tables.rows(second.generation)] == []
            refusal(ReadModelMoved, tables.advance, first, {"a": b"2"}, 5)

    def test_a_table_is_dropped_and_disturbs_no_other(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            tables = store.read_models
            one, other = (tables.begin(name, 1) for name in ("one", "other"))
            for table in (one, other):
                tables.advance(table, {"a": table.name.encode()}, 1)
            tables.drop(one)
            tables.drop(one)
            assert tables.find("one") is None and list(tables.rows("one")) == []
            assert list(tables.rows("other")) == [("a", b"other")]
            assert tables.begin("one", 1).position == 0

    def test_the_end_of_the_log_is_where_its_last_event_is(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            assert store.read_models.end() == 0
            ended = store.append(append_of("s", 0, "a", "b"))
            assert store.read_models.end() == ended.position

    def test_tables_outlive_the_process(self, tmp_path: Path) -> None:
        self.needs_durability()
        with self.store(tmp_path) as store:
            table = store.read_models.advance(store.read_models.begin("u", 1), {"a": b"1"}, 3)
            with self.store(tmp_path) as other:
                assert other.read_models.find("u") == table
        with self.store(tmp_path) as store:
            assert store.read_models.find("u") == table
            assert store.read_models.get("u", "a") == b"1"

    def test_tables_of_a_closed_store_refuse_everything(self, tmp_path: Path) -> None:
        store = self.open_store(tmp_path)
        table = store.read_models.begin("u", 1)
        store.close()
        for call in (
            partial(store.read_models.find, "u"),
            partial(store.read_models.begin, "v", 1),
            partial(store.read_models.rows, "u"),
            partial(store.read_models.get, "u", "a"),
            partial(store.read_models.advance, table, {}, 1),
            store.read_models.end,
            partial(store.restore, row_of("s", 1)),
        ):
            refusal(StoreClosed, call)

    def test_a_copy_and_what_follows_it_stand_together_in_the_log(self, tmp_path: Path) -> None:
        """A read model that counts knows a copy by the event after it, and relies on that."""
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, *map(str, range(50))))

            def write(number: int) -> None:
                for n in range(15):
                    store.append(append_of(f"t{number}", n, "x"))
                    store.append(fork_of("s", 40, f"f{number}.{n}"))

            together(6, write)
            log = [each.session_id for each in store.read_all(limit=10**6)]
            for fork in {sid for sid in log if sid.startswith("f")}:
                first = log.index(fork)
                assert log[first : first + 41] == [fork] * 41

    def test_a_row_is_put_back_where_the_stream_ends_as_it_says(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a", "b", tenant="wrong"))
            row = row_of("s", 2)
            assert store.restore(row)
            found = store.session("s")
            assert repr(found) == repr(row)
            assert [repr(each) for each in store.sessions(forked_from="origin")] == [repr(row)]
            assert store.append(append_of("s", 2, "c")).version == 3
            for version in (2, 4):
                assert not store.restore(row_of("s", version))
            assert unchanged(store) == (3, "idle")

    def test_no_row_brings_a_deleted_or_unknown_session_back(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a"))
            store.delete("s")
            for sid, version in (("s", 1), ("s", 0), ("nobody", 1), ("nobody", 0)):
                assert not store.restore(row_of(sid, version))
            assert list(store.sessions()) == [] and store.session("s") is None


def row_of(session_id: str, version: int) -> SessionRow:
    """A row with something in every field."""
    return SessionRow(
        session_id,
        version,
        "awaiting-approval",
        "coder",
        "acme",
        NOON,
        NOON + timedelta(microseconds=1),
        tuple(approval(n, value) for n, value in enumerate(STRANGE)),
        "digest",
        12,
        ForkOrigin("origin", 1),
    )


def unchanged(store: EventStore) -> tuple[int, str] | None:
    row = store.session("s")
    return None if row is None else (row.version, row.status)
