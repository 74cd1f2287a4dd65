"""The suite every store passes. Subclass it in a test file, and say how your store is opened::

    class TestMyStore(StoreConformance):
        durable = True

        def open_store(self, tmp_path):
            return MyStore(tmp_path / "streams")

pytest finds the tests by their names; nothing here needs it to be installed.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from itertools import product
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ..events.envelope import EncodedEvent
from ..events.errors import (
    InvalidSessionId,
    SessionDeleted,
    StoreClosed,
    StoreError,
    WrongExpectedVersion,
)
from ..events.session import Status
from .copying import CopyConformance
from .keeping import KeepingConformance
from .port import Append, Appended, RowChange
from .read_model_cases import ReadModelConformance
from .snapshotting import SnapshotConformance
from .specimens import (
    ALIKE,
    NO_IDS,
    NOON,
    PATIENCE,
    STRANGE,
    append_of,
    approval,
    event,
    following,
    refusal,
    take,
    texts,
    together,
)


class StoreConformance(
    CopyConformance, KeepingConformance, SnapshotConformance, ReadModelConformance
):
    """Hold the store that ``open_store`` opens to the contract of ``EventStore``.

    ``durable`` says whether opening with the same ``tmp_path`` again, also while it is open,
    gives the same streams.
    """

    def test_an_append_returns_the_new_version_and_the_last_position(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            ends = [store.append(append_of("s", 0, "a", "b")), store.append(append_of("s", 2, "c"))]
            records = store.read("s")
            assert [end.version for end in ends] == [2, 3]
            assert [end.position for end in ends] == [r.position for r in records[1:]]
            assert records[2] == (ends[1].position, "s", 3, "noted", b"c")

    def test_events_keep_the_order_of_their_appends_when_the_clock_stands_still(
        self, tmp_path: Path
    ) -> None:
        with self.store(tmp_path) as store:
            expected: dict[str, list[str]] = {"a": [], "b": []}
            for n in range(300):
                sid, stream = ("a", expected["a"]) if n % 2 else ("b", expected["b"])
                added = [f"{n}.{i}" for i in range(2 + n % 4)]
                store.append(append_of(sid, len(stream), *added))
                stream += added
            for sid, stream in expected.items():
                for _ in range(20):
                    records = store.read(sid)
                    assert texts(records) == stream
                    assert [r.version for r in records] == [*range(1, len(stream) + 1)]

    def test_any_payload_and_topic_comes_back_as_it_was(self, tmp_path: Path) -> None:
        payloads = (b"", b"\0", b"\xff\xfe\0\x80", b'{"a":"\xc3\xa4"}', bytes(range(256)) * 4000)
        topics = ("noted", "noted@2", "", "a'b\"c", "ä\x1f,\0;")
        with self.store(tmp_path) as store:
            events = tuple(EncodedEvent(t, p) for t in topics for p in payloads)
            store.append(Append("s", 0, events, RowChange("idle", "planner", NOON)))
            assert [(r.topic, r.payload) for r in store.read("s")] == list(events)
            (page,) = store.replay("s")
            assert [*zip(page.topics, page.payloads, strict=True)] == list(events)

    def test_a_range_of_versions_can_be_read(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, *"abcde"))
            for after in range(-1, 7):
                for upto in (None, *range(7)):
                    expected = "abcde"[max(after, 0) : upto]
                    assert texts(store.read("s", after=after, upto=upto)) == [*expected]
            assert list(store.read("nobody")) == []

    def test_long_streams_are_read_whole(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            written = [str(n) * (n % 50) for n in range(3000)]
            store.append(append_of("s", 0, *written))
            store.append(append_of("t", 0, "other"))
            assert texts(store.read("s", after=100, upto=2900)) == written[100:2900]
            assert texts(store.read_all(limit=9999)) == [*written, "other"]
            for n in (0, 1, 64, 3000):
                assert texts(store.read("s", after=n)) == written[n:]
                pages = store.replay("s", after=n)
                assert [each.decode() for page in pages for each in page.payloads] == written[n:]

    def test_the_log_is_read_page_by_page_in_the_order_of_the_appends(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            for n in range(20):
                store.append(append_of(f"s{n % 3}", n // 3, str(n)))
            pages, after = [], 0
            while page := store.read_all(after=after, limit=7):
                pages.append(texts(page))
                after = page[-1].position
            assert [len(page) for page in pages] == [7, 7, 6]
            assert [text for page in pages for text in page] == [str(n) for n in range(20)]
            assert list(store.read_all(limit=0)) == []

    def test_what_was_read_cannot_be_changed(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a"))
            (record,) = store.read("s")
            refusal(AttributeError, setattr, record, "version", 7)
            assert type(record.payload) is bytes
            for read in (store.read("s"), store.read_all(), store.sessions()):
                if isinstance(read, list):
                    read.clear()
            assert (len(store.read("s")), len(store.sessions())) == (1, 1)

    def test_an_append_at_another_version_is_refused_whole_and_names_both(
        self, tmp_path: Path
    ) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a", "b"))
            for sid, expected, actual in (("s", 0, 2), ("s", 1, 2), ("s", 3, 2), ("new", 1, 0)):
                write = append_of(sid, expected, "x", "y", status="failed")
                error = refusal(WrongExpectedVersion, store.append, write)
                assert (error.session_id, error.expected, error.actual) == (sid, expected, actual)
            assert texts(store.read_all()) == ["a", "b"]
            row = store.session("s")
            assert row is not None
            assert (row.version, row.status) == (2, "idle")
            assert store.session("new") is None

    def test_an_append_whose_acknowledgement_was_lost_succeeds_again(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            first = store.append(append_of("s", 0, "a", "b"))
            assert store.append(append_of("s", 0, "a", "b")) == first
            store.append(append_of("s", 2, "c"))
            assert store.append(append_of("s", 0, "a", "b")) == first
            for other in (("a",) * 2, ("a", "b", "c", "d")):
                write = append_of("s", 0, *other)
                refusal(WrongExpectedVersion, store.append, write)
            assert texts(store.read("s")) == ["a", "b", "c"]

    def test_an_append_that_says_nothing_is_refused(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            refusal(ValueError, store.append, append_of("s", 0))
            refusal(ValueError, store.append, append_of("s", -1, "a"))

    def test_sessions_with_ids_that_look_alike_never_touch_each_other(self, tmp_path: Path) -> None:
        before = sorted(tmp_path.parent.iterdir())
        with self.store(tmp_path) as store:
            for sid in ALIKE:
                store.append(append_of(sid, 0, sid))
            for n, sid in enumerate(ALIKE):
                assert texts(store.read(sid)) == [sid]
                assert store.delete(sid) == 1
                rest = {*ALIKE[n + 1 :]}
                assert {row.session_id for row in store.sessions()} == rest
                assert {*texts(store.read_all())} == rest
        assert sorted(tmp_path.parent.iterdir()) == before

    def test_what_is_no_id_is_refused_before_anything_is_written(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            for sid in NO_IDS:
                write = append_of(sid, 0, "a")
                refusal(InvalidSessionId, store.append, write)
                refusal(InvalidSessionId, store.submit, write, print)
                for call in (store.read, store.session, store.delete):
                    refusal(InvalidSessionId, call, sid)
            assert list(store.read_all()) == []

    def test_a_row_says_what_the_last_append_made_of_it(self, tmp_path: Path) -> None:
        later = NOON + timedelta(microseconds=1)
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a", tenant="t"))
            store.append(append_of("s", 1, "b", status="running", agent="coder", at=later))
            row = store.session("s")
            assert row is not None
            assert (row.version, row.status, row.agent, row.tenant) == (2, "running", "coder", "")
            assert (row.created, row.updated) == (NOON, later)
            assert list(store.sessions()) == [row]

    def test_a_row_holds_the_approvals_of_its_last_append(self, tmp_path: Path) -> None:
        waiting = tuple(approval(n, value) for n, value in enumerate(STRANGE))
        with self.store(tmp_path) as store:
            for version, held in enumerate((waiting, (), waiting[:1])):
                row = RowChange("awaiting-approval", "planner", NOON, approvals=held)
                store.append(Append("s", version, (event(),), row))
                found = store.session("s")
                assert found is not None
                assert repr(found.approvals) == repr(held)
                assert [repr(each) for each in store.sessions()] == [repr(found)]
            store.delete("s")
            assert not store.sessions()

    def test_every_filter_given_must_match(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            statuses: tuple[Status, ...] = ("idle", "running")
            kinds = product(statuses, ("p", "q"), ("", "a", "b"))
            for n, (status, agent, tenant) in enumerate(kinds):
                row = RowChange(status, agent, NOON + timedelta(seconds=n), tenant)
                store.append(Append(f"s{n}", 0, (EncodedEvent("noted", b"x"),), row))

            def ids(**filters: Any) -> list[str]:
                return [row.session_id for row in store.sessions(**filters)]

            assert ids() == [f"s{n}" for n in reversed(range(12))]
            assert ids(status="running", agent="p", tenant="a") == ["s7"]
            assert ids(tenant="") == ["s9", "s6", "s3", "s0"]
            assert ids(tenant="a", limit=2) == ["s10", "s7"]
            assert ids(agent="p' OR 1=1 --") == ids(tenant="%") == ids(limit=0) == []
            refusal(TypeError, lambda: ids(user="a"))

    def test_a_deleted_session_is_gone_and_its_id_is_not_used_again(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            last = store.append(append_of("s", 0, "a", "b"))
            assert (store.delete("s"), store.delete("s"), store.delete("nobody")) == (2, 0, 0)
            for expected in (0, 1, 2, 3):
                write = append_of("s", expected, "a", "b")
                error = refusal(SessionDeleted, store.append, write)
                assert error.session_id == "s"
            assert store.session("s") is None
            assert [*store.read("s"), *store.read_all(), *store.sessions()] == []
            assert store.append(append_of("t", 0, "c")).position > last.position

    def test_a_stream_that_went_on_is_not_deleted_by_who_expects_less(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, "a", "b"))
            for expected in (0, 1, 3):
                error = refusal(
                    WrongExpectedVersion, partial(store.delete, "s", expected_version=expected)
                )
                assert (error.expected, error.actual) == (expected, 2)
            assert texts(store.read("s")) == ["a", "b"]
            assert store.delete("s", expected_version=2) == 2
            refusal(SessionDeleted, partial(store.delete, "s", expected_version=2))
            assert store.delete("nobody", expected_version=0) == 0

    def test_a_row_knows_the_head_and_the_size_of_its_stream(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            for version, texts_ in enumerate(("a", "bcd", "")):
                change = RowChange("idle", "planner", NOON, head=f"digest-{version}")
                store.append(Append("s", version, (event(texts_),), change))
            row = store.session("s")
            assert row is not None
            assert (row.head, row.size, row.forked_from) == ("digest-2", 4, None)

    def test_generations_only_rise(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            drawn = SimpleQueue[int]()
            together(40, lambda _: drawn.put(store.next_generation()))
            generations = [drawn.get() for _ in range(40)]
            assert len({*generations}) == 40
            assert store.next_generation() > max(generations)

    def test_of_writers_that_race_for_a_version_one_wins(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            lost = SimpleQueue[WrongExpectedVersion]()

            def write(number: int) -> None:
                try:
                    store.append(append_of("s", 0, f"{number}", f"{number}"))
                except WrongExpectedVersion as error:
                    lost.put(error)

            together(16, write)
            first, second = texts(store.read("s"))
            assert first == second
            assert lost.qsize() == 15

    def test_writers_that_decide_anew_after_a_conflict_lose_nothing(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:

            def write(number: int) -> None:
                version = 0
                for n in range(10):
                    while True:
                        try:
                            version = store.append(append_of("s", version, f"{number}.{n}")).version
                            break
                        except WrongExpectedVersion as error:
                            version = error.actual

            together(8, write)
            records = store.read("s")
            assert [r.version for r in records] == [*range(1, 81)]
            assert sorted(texts(records)) == sorted(f"{k}.{n}" for k in range(8) for n in range(10))

    def test_a_submission_is_answered_exactly_once(self, tmp_path: Path) -> None:
        answers = SimpleQueue[tuple[str, Appended | StoreError]]()
        with self.store(tmp_path) as store:
            store.append(append_of("gone", 0, "x"))
            store.delete("gone")

            def answered(sid: str, answer: Appended | StoreError) -> None:
                answers.put((sid, answer))

            def submit(number: int) -> None:
                for n in range(20):
                    for sid in (f"s{number}", "gone"):
                        store.submit(append_of(sid, n, f"{n}"), partial(answered, sid))

            together(8, submit)
        told = [answers.get(timeout=PATIENCE) for _ in range(8 * 20 * 2)]
        assert answers.empty()
        for number in range(8):
            versions = [a.version for s, a in told if s == f"s{number}" and isinstance(a, Appended)]
            assert versions == [*range(1, 21)]
        assert all(isinstance(answer, SessionDeleted) for sid, answer in told if sid == "gone")

    def test_a_callback_may_submit_append_and_read(self, tmp_path: Path) -> None:
        seen = SimpleQueue[object]()
        with self.store(tmp_path) as store:

            def then(outcome: Appended | StoreError) -> None:
                seen.put(outcome)
                if isinstance(outcome, Appended) and outcome.version < 4:
                    store.append(append_of("t", outcome.version - 1, "b"))
                    store.submit(append_of("s", outcome.version, "a"), then)
                    seen.put(len(store.read("t")))

            together(4, lambda n: store.submit(append_of(f"r{n}", 0, "x"), seen.put))
            store.submit(append_of("s", 0, "a"), then)
            for _ in range(11):
                seen.get(timeout=PATIENCE)
            assert (len(store.read("s")), len(store.read("t"))) == (4, 3)

    def test_a_subscription_misses_nothing_from_wherever_it_starts(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            first = [store.append(append_of("early", n, "x")).position for n in range(3)]
            follower = store.subscribe(after=first[1])

            def write(number: int) -> None:
                for n in range(40):
                    store.append(append_of(f"s{number}", n, "y"))

            writers = Thread(target=together, args=(6, write))
            writers.start()
            positions = [record.position for record in take(241, follower)]
            writers.join(PATIENCE)
            follower.close()
            everything = [record.position for record in store.read_all(after=first[1])]
            assert positions == everything

    def test_a_subscription_ends_when_it_is_closed(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            follower = store.subscribe()
            read = following(follower)
            store.append(append_of("s", 0, "a"))
            assert read.get(timeout=PATIENCE)
            follower.close()
            assert read.get(timeout=PATIENCE) is None
            follower.close()

    def test_a_subscription_ends_when_its_store_is_closed(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            read = following(store.subscribe())
            store.append(append_of("s", 0, "a"))
            assert read.get(timeout=PATIENCE)
        assert read.get(timeout=PATIENCE) is None

    def test_a_subscription_goes_on_where_it_was_left(self, tmp_path: Path) -> None:
        with self.store(tmp_path) as store:
            store.append(append_of("s", 0, *"abc"))
            with store.subscribe() as follower:
                assert texts(take(1, follower)) == ["a"]
                assert texts(take(2, follower)) == ["b", "c"]
            assert list(follower) == []

    def test_a_closed_store_refuses_everything(self, tmp_path: Path) -> None:
        store = self.open_store(tmp_path)
        store.append(append_of("s", 0, "a"))
        assert store.durable is self.durable
        store.close()
        store.close()
        answers = SimpleQueue[object]()
        store.submit(append_of("s", 1, "b"), answers.put)
        assert isinstance(answers.get(timeout=PATIENCE), StoreClosed)
        refusal(StoreClosed, store.append, append_of("s", 1, "b"))
        for call in (store.read, store.session, store.delete):
            refusal(StoreClosed, call, "s")
        for idle in (store.read_all, store.subscribe, store.sessions, store.next_generation):
            refusal(StoreClosed, idle)

    def test_a_store_opened_again_has_everything(self, tmp_path: Path) -> None:
        self.needs_durability()
        with self.store(tmp_path) as store:
            store.append(append_of("gone", 0, "x"))
            store.delete("gone")
            for n in range(50):
                store.submit(append_of("s", n, str(n)), lambda _: None)
            generation = store.next_generation()
        with self.store(tmp_path) as store:
            assert texts(store.read("s")) == [str(n) for n in range(50)]
            assert [row.version for row in store.sessions()] == [50]
            assert store.next_generation() > generation
            refusal(SessionDeleted, store.append, append_of("gone", 0, "x"))

    def test_stores_open_at_once_see_each_other(self, tmp_path: Path) -> None:
        self.needs_durability()
        with self.store(tmp_path) as one, self.store(tmp_path) as other, other.subscribe() as log:
            one.append(append_of("s", 0, "a"))
            assert texts(other.read("s")) == ["a"]
            refusal(WrongExpectedVersion, other.append, append_of("s", 0, "b"))
            follower = iter(log)
            assert next(follower).payload == b"a"
            one.append(append_of("s", 1, "c"))
            assert next(follower).payload == b"c"
            assert one.next_generation() < other.next_generation()
