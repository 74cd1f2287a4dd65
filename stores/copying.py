"""The part of the stores' suite that is about streams that begin as copies of others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue

from ..events.envelope import EncodedEvent, StoredRecord
from ..events.errors import SessionDeleted, StoreError, WrongExpectedVersion
from ..events.terms import ForkOrigin
from .case import StoreCase
from .port import Append, RowChange
from .specimens import NOON, append_of, event, refusal, texts, together


def fork_of(origin: str, version: int, session_id: str, *added: str) -> Append:
    """A stream that begins as another one does."""
    events = tuple(event(text) for text in added or ("forked",))
    change = RowChange("idle", "planner", NOON, head="digest")
    return Append(session_id, version, events, change, ForkOrigin(origin, version))


def as_stored(records: Sequence[StoredRecord]) -> list[tuple[int, str, bytes]]:
    return [(each.version, each.topic, each.payload) for each in records]


class CopyConformance(StoreCase):
    """Hold a store to what ``Append.copied`` asks for."""

    def test_a_copied_prefix_stands_as_it_is_stored_before_what_is_new(
        self, tmp_path: Path
    ) -> None:
        payloads = (b"", b"\0", b"\xff\xfe", b'{"a":1}')
        with self.store(tmp_path) as store:
            stored = tuple(EncodedEvent(f"noted@{n}", each) for n, each in enumerate(payloads, 1))
            store.append(Append("s", 0, stored, RowChange("idle", "planner", NOON)))
            for upto in range(1, 5):
                before = store.read("s")
                ended = store.append(fork_of("s", upto, f"fork-{upto}", "x", "y"))
                copy = store.read(f"fork-{upto}")
                assert as_stored(copy[:upto]) == as_stored(before[:upto])
                assert texts(copy[upto:]) == ["x", "y"]
                assert (ended.version, ended.position) == (upto + 2, copy[-1].position)
                assert store.read("s") == before
                assert [*store.read_all()][-upto - 2 :] == [*copy]

    def test_a_copy_goes_on_by_itself(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a", "b"))
            store.append(fork_of("s", 1, "f"))
            store.append(append_of("s", 2, "of s"))
            store.append(append_of("f", 2, "of f"))
            store.delete("s")
            assert texts(store.read("f")) == ["a", "forked", "of f"]

    def test_a_row_says_where_its_stream_was_copied_from(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "abc", "de"))
            store.append(fork_of("s", 1, "f", "xyzw"))
            store.append(append_of("f", 2, "12"))
            store.append(fork_of("f", 3, "g"))
            row = store.session("f")
            assert row is not None
            assert (row.forked_from, row.size, row.version) == (ForkOrigin("s", 1), 9, 3)
            assert [each.session_id for each in store.sessions(forked_from="s")] == ["f"]
            assert [each.session_id for each in store.sessions(forked_from="f")] == ["g"]
            assert [each.forked_from for each in store.sessions(forked_from="g")] == []

    def test_a_stream_brought_as_a_copy_says_where_it_comes_from_and_since_when(
        self, tmp_path: Path
    ) -> None:
        origin, later = ForkOrigin("elsewhere", 7), NOON + timedelta(days=1)
        row = RowChange("idle", "planner", later, created=NOON, forked_from=origin)
        with self.store(tmp_path) as store:
            store.append(Append("s", 0, (event(),), row))
            store.append(append_of("s", 1, "b", at=later))
            found = store.session("s")
            assert found is not None
            assert (found.created, found.updated) == (NOON, later)
            assert found.forked_from == origin
            assert [each.session_id for each in store.sessions(forked_from="elsewhere")] == ["s"]

    def test_nothing_is_copied_over_a_stream_that_exists(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a", "b"))
            store.append(append_of("t", 0, "c"))
            error = refusal(WrongExpectedVersion, store.append, fork_of("s", 1, "t"))
            assert (error.session_id, error.expected, error.actual) == ("t", 0, 1)
            refusal(WrongExpectedVersion, store.append, fork_of("s", 2, "s"))
            store.delete("t")
            refusal(SessionDeleted, store.append, fork_of("s", 1, "t"))
            assert texts(store.read_all()) == ["a", "b"]

    def test_what_is_not_there_is_not_copied(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a", "b"))
            for origin, version, actual in (("s", 3, 2), ("nobody", 1, 0)):
                error = refusal(WrongExpectedVersion, store.append, fork_of(origin, version, "f"))
                assert (error.session_id, error.expected, error.actual) == (
                    origin,
                    version,
                    actual,
                )
            store.delete("s")
            assert refusal(SessionDeleted, store.append, fork_of("s", 1, "f")).session_id == "s"
            assert store.session("f") is None

    def test_a_copy_whose_acknowledgement_was_lost_is_recognised(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a", "b"))
            fork = fork_of("s", 1, "f")
            assert store.append(fork) == store.append(fork)
            refusal(WrongExpectedVersion, store.append, fork_of("s", 1, "f", "other"))
            assert texts(store.read("f")) == ["a", "forked"]

    def test_of_copies_that_race_for_a_name_one_wins(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, *map(str, range(300))))
            lost = SimpleQueue[StoreError]()

            def copy(number: int) -> None:
                try:
                    store.append(fork_of("s", 300, "f", f"{number}"))
                except WrongExpectedVersion as error:
                    lost.put(error)

            together(8, copy)
            assert lost.qsize() == 7
            assert as_stored(store.read("f")[:300]) == as_stored(store.read("s"))
