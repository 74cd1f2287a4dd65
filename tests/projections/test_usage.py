"""What a session used: the sum of what its events say, each counted once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import reduce
from operator import add
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, TextDelta, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    AnyEvent,
    Budget,
    ModelCallDiscarded,
    ModelFailed,
    ModelTurn,
    ModelTurnRecorded,
    Owner,
    TurnError,
    TurnFinished,
    TurnStarted,
    Usage,
)
from turnstream.projections import SessionUsage, View, evolve_usage, fold, fold_usage
from turnstream.stores import EventStore, open_store

WAIT = 20
AT = datetime(2026, 1, 1, tzinfo=UTC)
USED, WASTED = Usage(100, 10, 80, 5), Usage(7, 3, 2, 1)

counts = st.integers(0, 2**40)
usages = st.builds(Usage, counts, counts, counts, counts)


def total(usages: Sequence[Usage]) -> Usage:
    return reduce(add, usages, Usage())


@given(usages, usages, usages)
def test_usages_add_up_in_any_order(a: Usage, b: Usage, c: Usage) -> None:
    assert (a + b) + c == a + (b + c) == c + b + a
    assert a + Usage() == Usage() + a == a
    assert (a + b).total_tokens == a.total_tokens + b.total_tokens


def test_cached_and_reasoning_tokens_are_part_of_the_others_and_counted_once() -> None:
    assert Usage(100, 10, cached_input_tokens=80, reasoning_tokens=5).total_tokens == 110


recorded = st.builds(
    lambda usage, model: ModelTurnRecorded(
        at=AT, turn_id="t", step=1, text="hi", usage=usage, model=model
    ),
    usages,
    st.sampled_from(["m1", "m2"]),
)
discarded = st.builds(
    lambda usage, reason: ModelCallDiscarded(
        at=AT, turn_id="t", step=1, reason=reason, usage=usage
    ),
    st.none() | usages,
    st.sampled_from(["steered", "aborted", "stream-ended", "failed"]),
)
STARTED = TurnStarted(
    at=AT,
    turn_id="t",
    input_ids=(),
    agent="a",
    budget=Budget(max_steps=9),
    owner=Owner(1, "n"),
)
streams = st.lists(
    recorded | discarded | st.just(TurnFinished(at=AT, turn_id="t")) | st.just(STARTED)
)


def check(usage: SessionUsage, events: Sequence[AnyEvent]) -> None:
    """The usage is what these events say, and nothing else."""
    answers = [each for each in events if isinstance(each, ModelTurnRecorded)]
    wasted = [each.usage for each in events if isinstance(each, ModelCallDiscarded)]
    assert usage.recorded == total([each.usage for each in answers])
    assert usage.discarded == total([each for each in wasted if each is not None])
    assert usage.model_calls == len(answers)
    assert usage.by_model == {
        model: total([each.usage for each in answers if each.model == model])
        for model in {each.model for each in answers}
    }


@given(streams)
def test_the_total_is_the_sum_over_the_events_and_the_discarded_stand_apart(
    stream: list[AnyEvent],
) -> None:
    check(fold_usage(stream), stream)


@given(streams, st.data())
def test_it_makes_no_difference_where_a_fold_is_taken_up_again(
    stream: list[AnyEvent], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(stream)))

    assert reduce(evolve_usage, stream[place:], fold_usage(stream[:place])) == fold_usage(stream)


@tool
def work() -> str:
    """Work."""
    return "done"


class Priced(ConnectionError):
    """An error that tells what the call cost."""

    def __init__(self, usage: Any) -> None:
        super().__init__("down")
        self.usage = usage


class Hostile(ConnectionError):
    """An error that can't even be asked."""

    @property
    def usage(self) -> Usage:
        raise RuntimeError("do not touch")


class Streaming:
    """Gives what is in each line of its script, one a call: texts, usages, a turn, an error."""

    id = "streaming"

    def __init__(self, *script: Sequence[Any]) -> None:
        self._script = iter(script)

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | Usage | ModelTurn]:
        for item in next(self._script):
            if isinstance(item, Exception):
                raise item
            yield TextDelta(item) if isinstance(item, str) else item


DONE = ModelTurn("done", usage=USED)
CALLS = ModelTurn(tool_calls=(call("work"),), usage=USED)


@pytest.fixture
def shared() -> Iterator[EventStore]:
    with closing(open_store("memory://")) as store:
        yield store


def at_once(failures: int, retry_after: float | None) -> float:
    return 0


def system(store: EventStore, model: Any, **limits: Any) -> ActorSystem:
    model = ScriptedModel(model) if isinstance(model, list) else model
    agent = Agent("agent", model=model, tools=[work], retry_wait=at_once, **limits)
    return ActorSystem(agent, store=store, on_failure="keep")


def view(session: Session) -> View:
    return asyncio.run(session.view())


def run_to_its_end(session: Session) -> int:
    """Send, and resume after each failure; how many there were."""
    turn, failures = session.send("go"), 0
    while True:
        try:
            turn.result(WAIT)
        except TurnError:
            resumed = session.resume()
            assert resumed is not None
            turn, failures = resumed, failures + 1
        else:
            return failures


lines = st.one_of(
    st.builds(lambda usage: [ModelTurn(tool_calls=(call("work"),), usage=usage)], usages),
    st.builds(lambda usage: ["par", usage], usages),
    st.builds(lambda usage: [Priced(usage)], usages),
    st.just(["par"]),
    st.just([ConnectionError("down")]),
)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(lines, max_size=8), usages)
def test_of_any_run_the_total_is_the_sum_over_its_events(
    script: list[list[Any]], last: Usage
) -> None:
    """However its model calls failed and broke off."""
    end = [ModelTurn("done", usage=last)]
    with closing(open_store("memory://")) as store:
        with system(store, Streaming(*script, end)) as first:
            session = first.session("s")
            run_to_its_end(session)
            events = [each.event for each in session.events()]
            check(view(session).usage, events)
        answered = [line[0].usage for line in [*script, end] if isinstance(line[0], ModelTurn)]
        wasted = [line[-1] for line in script if line[0] == "par" and len(line) > 1]
        wasted += [line[0].usage for line in script if isinstance(line[0], Priced)]
        with system(store, []) as later:
            seen = view(later.session("s"))
        assert (seen.usage.recorded, seen.usage.discarded) == (total(answered), total(wasted))
        assert (seen.folded.usage, seen.folded.discarded_usage) == (total(answered), total(wasted))
        assert fold(events) == seen.folded


def test_what_a_failed_call_cost_is_kept_and_shown_apart(shared: EventStore) -> None:
    with system(shared, [CALLS, Priced(WASTED), DONE]) as running:
        session = running.session("s")
        assert run_to_its_end(session) == 1
        (kept,) = [e.event for e in session.events() if isinstance(e.event, ModelCallDiscarded)]
        usage = view(session).usage

        assert (kept.reason, kept.usage, kept.step) == ("failed", WASTED, 2)
        assert (usage.recorded, usage.discarded, usage.model_calls) == (USED + USED, WASTED, 2)
        assert session.usage == USED + USED


def test_what_a_stream_cost_that_broke_off_is_what_it_told_last(shared: EventStore) -> None:
    with system(shared, Streaming(["par", Usage(1, 1), WASTED], [DONE])) as running:
        result = running.session("s").send("go").result(WAIT)
        usage = view(running.session("s")).usage

    assert result.usage == usage.recorded == USED
    assert usage.discarded == WASTED


def test_a_stream_that_breaks_off_twice_costs_twice(shared: EventStore) -> None:
    with system(shared, Streaming([WASTED], [WASTED], [DONE])) as running:
        session = running.session("s")
        assert run_to_its_end(session) == 0, "it is asked for again as often"
        assert view(session).usage.discarded == WASTED + WASTED


def test_what_a_stream_had_told_when_it_raised_is_kept(shared: EventStore) -> None:
    with system(shared, Streaming(["par", WASTED, ConnectionError("down")], [DONE])) as running:
        session = running.session("s")
        assert run_to_its_end(session) == 1
        assert view(session).usage.discarded == WASTED


def test_a_usage_before_the_answer_is_not_counted_beside_it(shared: EventStore) -> None:
    with system(shared, Streaming([USED, "do", "ne", DONE])) as running:
        running.session("s").send("go").result(WAIT)
        usage = view(running.session("s")).usage

    assert (usage.recorded, usage.discarded) == (USED, Usage())


def test_a_cost_that_nobody_told_counts_as_nothing(shared: EventStore) -> None:
    with system(shared, Streaming(["par"], [ConnectionError("down")], [DONE])) as running:
        session = running.session("s")
        run_to_its_end(session)
        usage = view(session).usage

    assert (usage.recorded, usage.discarded) == (USED, Usage())


def test_what_is_discarded_uses_up_no_budget(shared: EventStore) -> None:
    script = Streaming([Usage(10**6, 10**6)], [CALLS], [Priced(Usage(10**6))], [DONE])
    with system(shared, script, token_budget=300, session_token_budget=300) as running:
        session = running.session("s")
        run_to_its_end(session)
        assert view(session).messages[-1].text == "done"  # type: ignore[union-attr]


def test_a_dropped_turn_was_paid_for_all_the_same(shared: EventStore) -> None:
    with system(shared, [CALLS, Priced(WASTED)]) as running:
        session = running.session("s")
        with pytest.raises(ModelFailed):
            session.send("go").result(WAIT)
        assert session.discard_pending().result(WAIT) is True
        usage = view(session).usage

        assert list(session.messages) == []
        assert (usage.recorded, usage.discarded) == (USED, WASTED)


@pytest.mark.parametrize(
    "line",
    [
        [Hostile("down")],
        [Priced(Usage("many"))],  # type: ignore[arg-type]
        [Priced(Usage(-5))],
        [Priced(Usage(2**70))],
        [Priced({"input_tokens": 5})],
        [Priced(7)],
        [Usage("many"), ConnectionError("down")],  # type: ignore[arg-type]
    ],
    ids=["raises", "text", "negative", "too many", "a dict", "a number", "in the stream"],
)
def test_a_failed_call_with_usage_that_makes_no_sense_fails_its_turn_all_the_same(
    shared: EventStore, line: list[Any]
) -> None:
    with system(shared, Streaming(line, [DONE])) as running:
        session = running.session("s")
        with pytest.raises(ModelFailed, match="down"):
            session.send("go").result(WAIT)
        resumed = session.resume()
        assert resumed is not None and resumed.result(WAIT).text == "done"
        usage = view(session).usage

    assert (usage.recorded, usage.discarded) == (USED, Usage())


def test_a_stream_with_usage_that_makes_no_sense_is_asked_again(shared: EventStore) -> None:
    with system(shared, Streaming(["par", Usage("many")], [DONE])) as running:  # type: ignore[arg-type]
        assert running.session("s").send("go").result(WAIT).text == "done"
        assert view(running.session("s")).usage.discarded == Usage()


def test_usages_are_told_apart_by_model(shared: EventStore) -> None:
    answers: list[tuple[str, ModelTurn]] = [("m1", CALLS), ("m2", DONE)]
    for name, answer in answers:
        script: list[Any] = [answer, ConnectionError("down")]
        with system(shared, ScriptedModel(script, id=name)) as running:
            session = running.session("s")
            turn = session.resume() or session.send("go")
            if name == "m1":
                with pytest.raises(ModelFailed):
                    turn.result(WAIT)
            else:
                turn.result(WAIT)
    with system(shared, []) as later:
        usage = view(later.session("s")).usage

    assert usage.by_model == {"m1": USED, "m2": USED}
    assert usage.recorded == USED + USED
