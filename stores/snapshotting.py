"""The part of the stores' suite that is about snapshots."""

from __future__ import annotations

from pathlib import Path

from ..events.errors import StoreClosed
from .case import StoreCase
from .port import Snapshot
from .specimens import append_of, refusal


class SnapshotConformance(StoreCase):
    """Hold a store to what ``EventStore.snapshots`` asks for."""

    def test_the_latest_snapshot_up_to_a_version_is_found(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, *"abcdefgh"))
            store.append(append_of("t", 0, *"abcdefgh"))
            kept = [Snapshot("s", version, 1, bytes([version])) for version in (5, 2, 8)]
            assert all(store.snapshots.keep(each) for each in kept)
            found = [store.snapshots.latest("s", fold=1, upto=upto) for upto in (1, 2, 4, 5, 7, 8)]
            assert found == [None, kept[1], kept[1], kept[0], kept[0], kept[2]]
            assert store.snapshots.latest("s", fold=1) == kept[2]
            assert store.snapshots.latest("t", fold=1) is None

    def test_any_bytes_come_back_as_they_were(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("a'b", 0, "x"))
            for payload in (b"", b"\0\xff", bytes(range(256)) * 4000):
                snapshot = Snapshot("a'b", 1, 1, payload)
                assert store.snapshots.keep(snapshot)
                assert store.snapshots.latest("a'b", fold=1) == snapshot

    def test_a_snapshot_is_for_the_code_that_made_it(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, *"abc"))
            old, new = Snapshot("s", 3, 1, b"old"), Snapshot("s", 2, 2, b"new")
            store.snapshots.keep(old)
            assert store.snapshots.latest("s", fold=2) is None
            store.snapshots.keep(new)
            assert store.snapshots.latest("s", fold=2) == new
            assert store.snapshots.latest("s", fold=1) is None, "older code's are in the way"
            store.snapshots.keep(old)
            assert store.snapshots.latest("s", fold=2) == new, "and older code puts none in its way"

    def test_no_snapshot_is_ahead_of_its_stream_or_outlives_it(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, *"abc"))
            for version, session_id in ((4, "s"), (1, "nobody")):
                assert not store.snapshots.keep(Snapshot(session_id, version, 1, b"x"))
                assert store.snapshots.latest(session_id, fold=1) is None
            assert store.snapshots.keep(Snapshot("s", 3, 1, b"x"))
            store.delete("s")
            assert store.snapshots.latest("s", fold=1) is None
            assert not store.snapshots.keep(Snapshot("s", 1, 1, b"x"))

    def test_dropped_snapshots_are_gone(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            for session_id in ("s", "S"):
                store.append(append_of(session_id, 0, "a"))
                store.snapshots.keep(Snapshot(session_id, 1, 1, b"x"))
            store.snapshots.drop("s")
            store.snapshots.drop("nobody")
            assert store.snapshots.latest("s", fold=1) is None
            assert store.snapshots.latest("S", fold=1) is not None

    def test_snapshots_outlive_the_store_that_took_them(self, tmp_path: Path) -> None:
        self.needs_durability()
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a"))
            store.snapshots.keep(Snapshot("s", 1, 1, b"x"))
            snapshots = store.snapshots
        refusal(StoreClosed, lambda: snapshots.latest("s", fold=1))
        with self.store(tmp_path) as store:
            assert store.snapshots.latest("s", fold=1) == Snapshot("s", 1, 1, b"x")
