"""Model calls that are made once more: how often, after what wait, and what ends the wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, ModelRequest
from turnstream.actors.backing_off import FIRST_WAIT, LONGEST_ASKED_FOR, LONGEST_WAIT, backoff
from turnstream.actors.testing import ScriptedModel, call, said
from turnstream.events import (
    ContextTooLong,
    InvalidAgent,
    ModelCallDiscarded,
    ModelFailed,
    ModelRefused,
    ModelStreamEnded,
    ModelUnavailable,
    TurnFailed,
    Usage,
)
from turnstream.projections import fold_usage
from turnstream.stores import open_store

WAIT = 20
Run = Callable[..., ActorSystem]


def at_once(failures: int, retry_after: float | None) -> float:
    return 0


class Patience:
    """A wait that only ends when it is ended. ``begun`` is set when one begins."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def __call__(self, failures: int, retry_after: float | None) -> float:
        self.begun.set()
        return 3600

    def wait(self) -> None:
        assert self.begun.wait(WAIT)


def away(*, retry_after: float | None = None, usage: Usage | None = None) -> ModelUnavailable:
    error = ModelUnavailable("overloaded (status 503)", retry_after=retry_after)
    if usage is not None:
        error.usage = usage  # type: ignore[attr-defined]
    return error


def discards(session: Any) -> list[tuple[str, Usage | None]]:
    events = [each.event for each in session.events()]
    return [(e.reason, e.usage) for e in events if isinstance(e, ModelCallDiscarded)]


def test_a_provider_that_is_away_for_a_while_costs_a_wait_and_not_the_turn(run: Run) -> None:
    waits = []

    def note(failures: int, retry_after: float | None) -> float:
        waits.append((failures, retry_after))
        return 0

    script = [away(), away(retry_after=7.5), "here again"]
    session = run(script, retry_wait=note).session("s")

    assert session.send("hi").result(WAIT).text == "here again"
    assert waits == [(1, None), (2, 7.5)]
    assert discards(session) == [("retried", None), ("retried", None)]


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_a_provider_that_stays_away_fails_the_turn_after_so_many_retries(
    run: Run, retries: int
) -> None:
    model = ScriptedModel([away(retry_after=3)] * 9)
    session = run([], model=model, model_retries=retries, retry_wait=at_once).session("s")

    with pytest.raises(ModelUnavailable, match="503") as failure:
        session.send("hi").result(WAIT)
    assert failure.value.turn_id == "turn-1" and failure.value.retry_after == 3
    assert len(model.requests) == retries + 1
    assert len(discards(session)) == retries


def test_each_step_has_its_retries(run: Run) -> None:
    script = [away(), away(), [call("add", a=1, b=2)], away(), away(), "3"]
    session = run(script, retry_wait=at_once).session("s")
    assert session.send("1 + 2?").result(WAIT).text == "3"


def test_what_failed_attempts_cost_is_counted_apart(run: Run) -> None:
    script = [away(usage=Usage(5, 1)), away(), away(usage=Usage(7, 2))]
    session = run(script, retry_wait=at_once).session("s")
    with pytest.raises(ModelUnavailable):
        session.send("hi").result(WAIT)

    assert [reason for reason, _ in discards(session)] == ["retried", "retried", "failed"]
    usage = fold_usage([each.event for each in session.events()])
    assert (usage.discarded, usage.recorded) == (Usage(12, 3), Usage())


@pytest.mark.parametrize(
    "error", [ModelRefused("no such model"), ContextTooLong("too long"), ValueError("no")]
)
def test_what_would_fail_again_is_not_repeated(run: Run, error: Exception) -> None:
    model = ScriptedModel([error] * 3)
    session = run([], model=model, retry_wait=at_once).session("s")
    with pytest.raises(ModelFailed) as failure:
        session.send("hi").result(WAIT)

    expected = type(error) if isinstance(error, ModelFailed) else ModelFailed
    assert type(failure.value) is expected
    assert len(model.requests) == 1
    (failed,) = [e.event for e in session.events() if isinstance(e.event, TurnFailed)]
    assert failed.code == expected.code


@pytest.mark.slow
@on_durable_stores
@pytest.mark.parametrize("error", [away(), ModelRefused("no"), ContextTooLong("too long")])
def test_a_caller_of_another_process_gets_an_error_of_the_same_class(
    led: Any, address: str, error: ModelFailed
) -> None:
    agent = Agent("agent", model=led, model_retries=0)
    with ActorSystem(agent, store=address) as one, ActorSystem(agent, store=address) as other:
        here = one.session("s").send("hi", key="k")
        here.accepted().result(WAIT)
        asked = led.asked()
        there = other.session("s").send("hi", key="k")
        there.accepted().result(WAIT)
        asked.fail(error)
        for turn in (here, there):
            with pytest.raises(type(error)) as failure:
                turn.result(WAIT)
            assert failure.value.code == error.code


def test_an_abort_ends_the_wait(run: Run) -> None:
    patience = Patience()
    session = run([away(), "late"], retry_wait=patience).session("s")
    turn = session.send("hi")
    patience.wait()

    turn.abort().result(WAIT)
    assert turn.result(WAIT).finish_reason == "aborted"
    assert session.send("again").result(WAIT).text == "late"


def test_a_steer_ends_the_wait_and_goes_along(run: Run) -> None:
    patience, model = Patience(), ScriptedModel([away(), "both"])
    turn = run([], model=model, retry_wait=patience).session("s").send("one")
    patience.wait()

    assert turn.steer("two").result(WAIT).text == "both"
    assert said(model.requests[-1].messages) == ["one", "two"]


@on_durable_stores
def test_closing_ends_the_wait_and_the_turn_can_be_resumed(address: str) -> None:
    patience = Patience()
    model = ScriptedModel([away(), "here again"])
    system = ActorSystem(Agent("agent", model=model, retry_wait=patience), store=address)
    system.session("s").send("hi")
    patience.wait()
    begun = time.monotonic()
    assert system.close(), "nothing had to be interrupted"
    assert time.monotonic() - begun < 5

    with ActorSystem(Agent("agent", model=model, retry_wait=patience), store=address) as system:
        resumed = system.session("s").resume()
        assert resumed is not None and resumed.result(WAIT).text == "here again"


@on_durable_stores
def test_a_process_that_is_lost_in_the_wait_does_not_begin_to_count_anew(address: str) -> None:
    patience = Patience()
    model = ScriptedModel([away() for _ in range(9)])
    agent = Agent("agent", model=model, model_retries=1, retry_wait=patience)
    with closing(open_store(address)) as kept:
        lost = ActorSystem(agent, store=address)
        lost.session("s").send("hi")
        patience.wait()
        lost.close()

        with ActorSystem(agent, store=address) as system:
            resumed = system.session("s").resume()
            assert resumed is not None
            with pytest.raises(ModelUnavailable):
                resumed.result(WAIT)
            assert len(model.requests) == 2
            assert len(discards(system.session("s"))) == 1
        assert kept.session("s") is not None


def test_a_failed_turn_that_is_resumed_has_its_retries_anew(store: str) -> None:
    model = ScriptedModel([away(), away(), away(), "at last"])
    agent = Agent("agent", model=model, model_retries=1, retry_wait=at_once)
    with ActorSystem(agent, store=store, on_failure="keep") as system:
        session = system.session("s")
        with pytest.raises(ModelUnavailable):
            session.send("hi").result(WAIT)
        resumed = session.resume()
        assert resumed is not None and resumed.result(WAIT).text == "at last"


def test_a_plain_function_is_asked_again_too(run: Run) -> None:
    answers: list[Any] = [away(), "here again"]

    def model(request: ModelRequest) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    session = run([], model=model, retry_wait=at_once).session("s")
    assert session.send("hi").result(WAIT).text == "here again"


def test_a_wait_that_is_no_number_fails_the_turn(run: Run) -> None:
    session = run([away(), "x"], retry_wait=lambda *_: "soon").session("s")
    with pytest.raises(ModelFailed):
        session.send("hi").result(WAIT)


@pytest.mark.parametrize("retries", [-1, 1.5, None, True])
def test_retries_are_a_whole_number(retries: Any) -> None:
    with pytest.raises(InvalidAgent, match="model_retries"):
        Agent("agent", model=ScriptedModel([]), model_retries=retries)


asked_for = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@given(st.integers(1, 10**6), asked_for)
def test_the_wait_is_bounded_and_grows(failures: int, retry_after: float | None) -> None:
    wait = backoff(failures, retry_after)
    assert FIRST_WAIT / 2 <= wait <= LONGEST_ASKED_FOR
    if retry_after is None:
        assert wait <= min(FIRST_WAIT * 2 ** min(failures - 1, 50), LONGEST_WAIT)
    elif 0 < retry_after <= LONGEST_ASKED_FOR:
        assert wait >= retry_after


def test_sessions_that_failed_together_do_not_come_back_together() -> None:
    assert len({backoff(3, None) for _ in range(20)}) > 15


def test_a_broken_stream_is_told_from_a_provider_that_is_away(run: Run) -> None:
    script = [ModelStreamEnded("cut"), away(), "whole"]
    session = run(script, retry_wait=at_once).session("s")
    session.send("hi").result(WAIT)
    assert [reason for reason, _ in discards(session)] == ["stream-ended", "retried"]
