"""A read model is the fold of the log, whatever comes in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from places import on_durable_stores, on_files_too
from tallies import Count, Fragile, Tally, fill, tallied

from turnstream.actors import ActorSystem, Agent, Projector
from turnstream.events import (
    CorruptEvent,
    ReadModelFailed,
    ReadModelTooNew,
    RecordedEvent,
    Unstorable,
)
from turnstream.projections import MemoryRows, Rows, project
from turnstream.stores import Append, EventStore, RowChange, open_store
from turnstream.stores.specimens import NOON, append_of, event, together

pytestmark = on_files_too

WAIT = 20


class Interrupts:
    """Interrupts the work after so many batches."""

    def __init__(self, after: int) -> None:
        self.left = after
        self.told: list[tuple[int, int]] = []

    def __call__(self, position: int, end: int) -> None:
        self.told.append((position, end))
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_rows_are_those_of_the_whole_log(opened: EventStore) -> None:
    fill(opened, 100)
    projector = Projector(opened, Tally(), batch=7)
    assert projector.position == 0 and projector.rows() == [] and projector.get("s0") is None
    assert projector.catch_up() == projector.position == opened.read_models.end()
    assert projector.rows() == tallied(opened)
    assert projector.get("s1") == Count(33, 33) and projector.get("nobody") is None
    assert projector.rows("s2") == [("s2", Count(33, 33))]
    fill(opened, 5)
    projector.catch_up()
    assert projector.rows() == tallied(opened)


def test_progress_says_how_far_it_is_and_where_it_ends(opened: EventStore) -> None:
    fill(opened, 30)
    told: list[tuple[int, int]] = []
    Projector(opened, Tally(), batch=7).catch_up(lambda *far: told.append(far))
    assert told == [(7, 30), (14, 30), (21, 30), (28, 30), (30, 30)]


@settings(max_examples=25)
@given(
    events=st.integers(1, 40),
    batch=st.integers(1, 9),
    interrupts=st.lists(st.integers(1, 4), max_size=5),
    url=st.sampled_from(["memory://", "sqlite://"]),
)
def test_work_that_is_interrupted_after_any_batch_goes_on_where_it_stood(
    events: int, batch: int, interrupts: list[int], url: str
) -> None:
    with closing(open_store(url)) as store:
        fill(store, events)
        for first in ("catch_up", "rebuild"):
            read = 0
            for after in interrupts:
                work = getattr(Projector(store, Tally(), batch=batch), first)
                interrupt = Interrupts(after)
                try:
                    work(interrupt)
                except KeyboardInterrupt:
                    assert interrupt.told[0][0] == min(read + batch, events)
                    read = interrupt.told[-1][0]
                else:
                    read = 0 if first == "rebuild" else events
            work = getattr(Projector(store, Tally(), batch=batch), first)
            assert work() == events
            assert Projector(store, Tally()).rows() == tallied(store)


def test_an_interrupted_projector_itself_goes_on_too(opened: EventStore) -> None:
    fill(opened, 40)
    projector = Projector(opened, Tally(), batch=7)
    for work in (projector.catch_up, projector.rebuild):
        with pytest.raises(KeyboardInterrupt):
            work(Interrupts(2))
        work()
        assert projector.rows() == tallied(opened)


def test_an_event_that_a_model_raises_on_stops_it_and_is_named(opened: EventStore) -> None:
    fill(opened, 30, sessions=1)
    fragile = Projector(opened, Fragile(17), batch=10)
    for _ in range(2):
        with pytest.raises(ReadModelFailed, match="'tally' raised LookupError") as failed:
            fragile.catch_up()
        error = failed.value
        assert (error.name, error.position, error.session_id, error.version) == (
            "tally",
            17,
            "s0",
            17,
        )
        assert fragile.position == 10
        assert fragile.rows() == [("s0", Count(10, 10))]
    mended = Projector(opened, Tally(), batch=10)
    mended.catch_up()
    assert mended.rows() == tallied(opened)


def test_an_event_that_cannot_be_read_stops_it_and_is_named(opened: EventStore) -> None:
    fill(opened, 2, sessions=1)
    opened.append(Append("broken", 0, (event("{", "turn_started"),), RowChange("idle", "a", NOON)))
    with pytest.raises(CorruptEvent, match="'broken', version 1"):
        Projector(opened, Tally(), batch=1).catch_up()
    assert Projector(opened, Tally()).position == 2


class Odd(Tally):
    """Puts a row that is not of its type."""

    def apply(self, event: RecordedEvent, rows: Rows[Any]) -> None:
        rows.put("odd", {"not": "a count"})


def test_a_row_that_could_not_be_read_back_is_not_written(opened: EventStore) -> None:
    fill(opened, 1)
    with pytest.raises(Unstorable) as refused:
        Projector(opened, Odd()).catch_up()
    assert refused.value.path == "odd"
    assert Projector(opened, Odd()).position == 0


def test_two_models_in_one_store_do_not_disturb_each_other(opened: EventStore) -> None:
    fill(opened, 20)
    one, other = (Projector(opened, Tally(name, step=n), batch=3) for n, name in enumerate("ab", 1))
    one.catch_up()
    assert (one.position, other.position) == (20, 0)
    assert other.rows() == []
    fill(opened, 20)
    other.catch_up()
    assert (one.position, other.position) == (20, 40)
    one.rebuild()
    assert one.rows() == tallied(opened) and other.rows() == tallied(opened, step=2)


def test_changed_code_rebuilds_beside_the_old_rows_which_can_be_read_meanwhile(
    opened: EventStore,
) -> None:
    fill(opened, 20)
    old = Projector(opened, Tally())
    old.catch_up()
    before = tallied(opened)
    fill(opened, 20)
    changed = Projector(opened, Tally(fold=2, step=10), batch=6)
    seen: list[Any] = []
    changed.catch_up(lambda *_: seen.append((changed.position, changed.rows())))
    assert seen == [(20, before)] * 7
    assert changed.rows() == tallied(opened, step=10)
    assert changed.position == 40
    with pytest.raises(ReadModelTooNew, match=r"fold 2, this is 1") as refused:
        old.catch_up()
    assert (refused.value.name, refused.value.stored, refused.value.fold) == ("tally", 2, 1)
    old.rebuild()
    assert old.rows() == tallied(opened)


def test_a_rebuild_of_changed_code_that_is_interrupted_leaves_the_old_rows(
    opened: EventStore,
) -> None:
    fill(opened, 20)
    Projector(opened, Tally()).catch_up()
    for after in (1, 2):
        changed = Projector(opened, Tally(fold=2, step=10), batch=4)
        with pytest.raises(KeyboardInterrupt):
            changed.catch_up(Interrupts(after))
        assert changed.rows() == tallied(opened)
    finishing = Interrupts(0)
    changed.catch_up(finishing)
    assert finishing.told == [(16, 20), (20, 20)]
    assert changed.rows() == tallied(opened, step=10)


def test_a_reader_sees_all_old_rows_or_all_new_ones_while_they_are_swapped(
    opened: EventStore,
) -> None:
    fill(opened, 60, sessions=20)
    Projector(opened, Tally()).catch_up()
    possible = [tallied(opened, step) for step in range(1, 30)]
    over, seen = Event(), []

    def read() -> None:
        reader = Projector(opened, Tally())
        while not over.is_set():
            seen.append(reader.rows())
            seen.append([*tallied(opened)] if reader.get("s0") else [])

    readers = [Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for step in range(2, 30):
        Projector(opened, Tally(fold=step, step=step), batch=25).catch_up()
    over.set()
    for reader in readers:
        reader.join(WAIT)
    assert all(rows in possible for rows in seen)


def test_a_rebuild_ends_where_the_last_events_were_deleted(opened: EventStore) -> None:
    fill(opened, 6, sessions=2)
    opened.append(append_of("gone", 0, "x"))
    projector = Projector(opened, Tally())
    projector.catch_up()
    opened.delete("gone")
    assert projector.rebuild() == projector.position == 7
    assert projector.rows() == tallied(opened)
    fill(opened, 2, sessions=2)
    projector.catch_up()
    assert projector.rows() == tallied(opened)


class Overtaken(Tally):
    """Lets something else happen at its first event."""

    def __init__(self, meanwhile: Callable[[], object], **options: Any) -> None:
        super().__init__(**options)
        self.meanwhile: list[Callable[[], object]] = [meanwhile]

    def apply(self, event: RecordedEvent, rows: Rows[Count]) -> None:
        while self.meanwhile:
            self.meanwhile.pop()()
        super().apply(event, rows)


def test_what_another_projector_applied_in_the_middle_of_a_batch_does_not_count_twice(
    opened: EventStore,
) -> None:
    fill(opened, 20)
    other = Projector(opened, Tally(), batch=3)
    with pytest.raises(KeyboardInterrupt):
        other.catch_up(Interrupts(2))
    overtaken = Projector(opened, Overtaken(other.catch_up))
    assert overtaken.catch_up() == 20
    assert overtaken.rows() == tallied(opened)


def test_a_rebuild_that_another_one_overtook_is_not_begun_again(opened: EventStore) -> None:
    fill(opened, 20)
    Projector(opened, Tally()).catch_up()
    other = Projector(opened, Tally(fold=2, step=2), batch=3)
    overtaken = Projector(opened, Overtaken(other.catch_up, fold=2, step=2))
    told = Interrupts(0)
    assert overtaken.catch_up(told) == 20
    assert told.told == []
    assert overtaken.rows() == tallied(opened, step=2)
    assert opened.read_models.find("tally", live=False) is None


def test_old_code_that_a_rebuild_overtook_writes_nothing(opened: EventStore) -> None:
    fill(opened, 20)
    changed = Projector(opened, Tally(fold=2, step=2))
    with pytest.raises(ReadModelTooNew):
        Projector(opened, Overtaken(changed.catch_up)).catch_up()
    assert changed.rows() == tallied(opened, step=2)


def test_of_projectors_that_race_each_event_is_applied_by_one(opened: EventStore) -> None:
    fill(opened, 300, sessions=97)
    together(4, lambda n: Projector(opened, Tally(), batch=50 + n).catch_up())
    assert Projector(opened, Tally()).rows() == tallied(opened)


def test_of_rebuilds_that_race_one_is_put_in_place(opened: EventStore) -> None:
    fill(opened, 100)
    Projector(opened, Tally()).catch_up()
    together(4, lambda n: Projector(opened, Tally(fold=2, step=2), batch=3 + n).catch_up())
    assert Projector(opened, Tally()).rows() == tallied(opened, step=2)
    assert opened.read_models.find("tally", live=False) is None


def test_a_model_without_a_name_or_a_number_is_refused(opened: EventStore) -> None:
    for model in (Tally(""), Tally("\ud83d"), Tally(fold=0), Tally(fold="1")):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="read model"):
            Projector(opened, model)


class Word(Struct, frozen=True):
    """A row that a model wrote into."""

    text: str


class Words:
    """Keeps the last text of each session, and removes and lists rows on the way."""

    name: str = "words"
    fold: int = 1
    row: Any = Word

    def apply(self, event: RecordedEvent, rows: Rows[Word]) -> None:
        text = event.event.raw.decode("utf-8", "surrogatepass")
        rows.put(f"{event.session_id}/{text}", Word(text))
        listed = list(rows.prefixed(f"{event.session_id}/"))
        assert [key for key, _ in listed] == sorted(key for key, _ in listed)
        if len(listed) > 2:
            rows.remove(listed[0][0])


@given(
    said=st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["a", "ä", "\ud83d", "b\0", "😀"]))),
    batch=st.integers(1, 5),
    url=st.sampled_from(["memory://", "sqlite://"]),
)
@settings(max_examples=40)
def test_rows_behave_the_same_in_memory_and_in_a_store(
    said: list[tuple[int, str]], batch: int, url: str
) -> None:
    with closing(open_store(url)) as store:
        for number, text in said:
            end = store.session(f"s{number}")
            payload = text.encode("utf-8", "surrogatepass")
            append = partial(Append, f"s{number}", end.version if end else 0)
            store.append(append((event()._replace(payload=payload),), RowChange("idle", "a", NOON)))
        projector = Projector(store, Words(), batch=batch)
        projector.catch_up()
        with ActorSystem(Agent("a", model=lambda request: ""), store=store) as system:
            expected: MemoryRows[Word] = project(Words(), system.events())
        assert projector.rows() == expected.prefixed()


@on_durable_stores
def test_a_store_opened_again_goes_on(address: str) -> None:
    for _ in range(3):
        with closing(open_store(address)) as store:
            fill(store, 10)
            projector = Projector(store, Tally(), batch=4)
            projector.catch_up()
            assert projector.rows() == tallied(store)
