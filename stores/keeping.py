"""The part of the stores' suite that is about what is erased, looked over and given back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

from msgspec.structs import replace

from ..events.envelope import EncodedEvent
from ..events.errors import SessionDeleted, StoreClosed, WrongExpectedVersion
from ..events.terms import ForkOrigin
from .case import StoreCase
from .port import EventStore
from .specimens import ALIKE, PATIENCE, append_of, event, refusal, texts, together


class KeepingConformance(StoreCase):
    """Hold a store to what ``erase``, ``stream_ids``, ``check`` and ``compact`` ask for."""

    def test_erased_events_read_as_what_took_their_place(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "secret", "b", "another secret"))
            store.append(append_of("other", 0, "secret"))
            before = store.read_all()
            gone = {1: event("[erased]", "noted@2"), 3: event("")}
            ended = store.erase(append_of("s", 3, "said so"), gone)
            records = store.read("s")
            assert texts(records) == ["[erased]", "b", "", "said so"]
            assert [each.topic for each in records] == ["noted@2", "noted", "noted", "noted"]
            assert (ended.version, ended.position) == (4, records[-1].position)
            assert [each.position for each in store.read_all()][:4] == [
                each.position for each in before
            ]
            assert texts(store.read_all()) == ["[erased]", "b", "", "secret", "said so"]
            assert [each.payloads for each in store.replay("s", after=1)] == [
                [b"b", b"", b"said so"]
            ]

    def test_the_row_knows_what_an_erased_stream_weighs(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "12345", "b"))
            store.erase(append_of("s", 2, "xyz", status="failed"), {1: event("12")})
            row = store.session("s")
            assert row is not None
            assert (row.version, row.size, row.status) == (3, 6, "failed")

    def test_nothing_is_erased_where_the_append_is_refused(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a", "b"))
            erasure = append_of("s", 1, "c")
            refusal(WrongExpectedVersion, store.erase, erasure, {1: event("gone")})
            assert texts(store.read("s")) == ["a", "b"]
            store.delete("s")
            refusal(SessionDeleted, store.erase, append_of("s", 2, "c"), {1: event("gone")})
            assert not store.read("s")

    def test_only_what_is_there_can_be_erased(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a"))
            for version in (-1, 0, 2, 3):
                refusal(ValueError, store.erase, append_of("s", 1, "b"), {version: event("x")})
            assert texts(store.read("s")) == ["a"]

    def test_an_erasure_whose_acknowledgement_was_lost_is_recognised(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a"))
            first, second = (store.erase(append_of("s", 1, "b"), {1: event("x")}) for _ in range(2))
            assert first == second
            assert texts(store.read("s")) == ["x", "b"]

    def test_streams_are_listed_by_the_code_points_of_their_ids(self, tmp_path: Path) -> None:
        ids = sorted({*ALIKE, *(f"s{n}" for n in range(30))})
        with self.store(tmp_path) as store:
            assert list(store.stream_ids()) == []
            for each in reversed(ids):
                store.append(append_of(each, 0, "a", "b"))
            assert list(store.stream_ids()) == ids
            assert list(store.stream_ids(limit=0)) == []
            paged: list[str] = []
            while page := store.stream_ids(after=paged[-1] if paged else "", limit=7):
                assert len(page) <= 7
                paged += page
            assert paged == ids
            store.delete(ids[3])
            assert list(store.stream_ids(after=ids[2], limit=1)) == [ids[4]]

    def test_nothing_is_wrong_with_a_store_at_work(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            _busy(store)
            assert list(store.check()) == []

    def test_a_compacted_store_reads_as_before(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            _busy(store)
            seen = (store.read_all(limit=10_000), store.sessions(), store.stream_ids())
            assert store.compact() >= 0
            assert (store.read_all(limit=10_000), store.sessions(), store.stream_ids()) == seen
            assert list(store.check()) == []
            last = seen[0][-1].position
            assert store.append(append_of("next", 0, "x")).position > last

    def test_what_is_appended_while_a_store_is_compacted_is_kept(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            _busy(store)
            written, over = [0] * 4, Event()

            def work(number: int) -> None:
                while not over.is_set() or not written[number]:
                    store.append(append_of(f"w{number}", written[number], str(written[number])))
                    written[number] += 1

            def compact() -> None:
                try:
                    for _ in range(3):
                        store.compact()
                finally:
                    over.set()

            compactor = Thread(target=compact, daemon=True)
            compactor.start()
            together(4, work)
            compactor.join(PATIENCE)
            for number, count in enumerate(written):
                assert texts(store.read(f"w{number}")) == [str(n) for n in range(count)]
            assert list(store.check()) == []

    def test_a_closed_store_refuses_its_upkeep(self, tmp_path: Path) -> None:
        store = self.open_store(tmp_path)
        store.append(append_of("s", 0, "a"))
        store.close()
        calls: tuple[Callable[[], object], ...] = (
            store.compact,
            store.check,
            store.stream_ids,
            lambda: store.erase(append_of("s", 1, "b"), {1: EncodedEvent("noted", b"x")}),
        )
        for call in calls:
            refusal(StoreClosed, call)


def _busy(store: EventStore) -> None:
    """Streams that stayed, one that was copied, and the space of those that went."""
    for number in range(20):
        store.append(append_of(f"s{number}", 0, *["x" * 500] * 10))
    store.append(replace(append_of("copy", 5, "own"), copied=ForkOrigin("s1", 5)))
    for number in range(2, 18):
        store.delete(f"s{number}")
