"""A read model that is followed is up to date at any time, and says so where it can't be."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest
from tallies import Count, Fragile, Tally, fill, tallied

from turnstream.actors import ActorSystem, Agent, Projector
from turnstream.events import ReadModelFailed, StoreBusy, StoreClosed, StoreUnavailable
from turnstream.stores import EventStore, open_store

WAIT = 20


def test_a_follower_applies_events_as_they_come(opened: EventStore) -> None:
    fill(opened, 10)
    with Projector(opened, Tally()).follow() as follower:
        assert follower.wait(10, WAIT) and follower.rows() == tallied(opened)
        for _ in range(5):
            fill(opened, 7)
            assert follower.wait(opened.read_models.end(), WAIT)
            assert follower.rows() == tallied(opened)
        assert not follower.wait(10**6, 0)
    fill(opened, 1)
    assert follower.position == 45


def test_nobody_waits_for_a_follower_that_is_closed(opened: EventStore) -> None:
    fill(opened, 3)
    follower = Projector(opened, Tally()).follow()
    assert follower.wait(3, WAIT)
    closing = Thread(target=follower.close)
    closing.start()
    assert not follower.wait(4)
    closing.join(WAIT)
    assert follower.wait(3)


def test_a_follower_rebuilds_for_changed_code_and_then_follows(opened: EventStore) -> None:
    fill(opened, 30)
    Projector(opened, Tally()).catch_up()
    with Projector(opened, Tally(fold=2, step=10), batch=4).follow() as follower:
        fill(opened, 30)
        assert follower.wait(60, WAIT)
        assert follower.rows() == tallied(opened, step=10)


def test_what_ends_a_follower_is_told_to_who_waits(
    opened: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    fill(opened, 30, sessions=1)
    follower = Projector(opened, Fragile(17)).follow()
    with pytest.raises(ReadModelFailed):
        follower.wait(30, WAIT)
    assert isinstance(follower.failure, ReadModelFailed)
    assert "'tally' is no longer kept" in caplog.text
    follower.close()
    follower.close()


def test_a_follower_ends_with_its_store(store: str) -> None:
    opened = open_store(store)
    follower = Projector(opened, Tally()).follow()
    fill(opened, 3)
    assert follower.wait(3, WAIT)
    opened.close()
    follower.close()
    assert follower.failure is None
    with pytest.raises(StoreClosed):
        follower.catch_up()


def test_a_follower_waits_for_a_store_that_is_busy(
    opened: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstream.actors.projecting.RETRY_SECONDS", 0.01)
    follower = Projector(opened, Tally())
    refusals = iter([StoreBusy("held"), StoreUnavailable("away"), StoreBusy("held")])
    catch_up = follower.catch_up

    def busy_at_first(*args: Any) -> int:
        for refusal in refusals:
            raise refusal
        return catch_up(*args)

    monkeypatch.setattr(follower, "catch_up", busy_at_first)
    fill(opened, 3)
    with follower.follow():
        assert follower.wait(3, WAIT)


def test_a_system_gives_and_closes_what_keeps_its_read_models(store: str) -> None:
    with ActorSystem(Agent("echo", model=lambda request: "hi"), store=store) as system:
        follower = system.read_model(Tally()).follow()
        system.session("s").send("hello").result(WAIT)
        (*_, last) = system.events()
        assert follower.wait(last.position, WAIT)
        assert follower.get("s") == Count(last.version, last.version)
    assert follower.failure is None
