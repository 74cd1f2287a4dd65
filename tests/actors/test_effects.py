"""User code off the actors: one outcome for each effect, whatever the code does."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from turnstream.actors.effects import (
    Abandoned,
    Cancelled,
    EffectLoop,
    Effects,
    NotRun,
    Opens,
    Place,
    Raised,
    Returned,
    Running,
    Settled,
    TimedOut,
    current_session,
)
from turnstream.actors.gate import Gate

SECONDS = 10
GRACE = 0.05
KINDS = pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
BASE_EXCEPTIONS = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]


class Run:
    """An effect that was started, and what was posted for it."""

    def __init__(
        self,
        effects: Effects,
        fn: Callable[[], Any],
        *,
        is_async: bool = False,
        opens: Opens = "entry",
        timeout: float | None = None,
    ) -> None:
        self.gate, self.posted = Gate(), SimpleQueue[Settled]()
        self.running: Running = effects.run(
            fn,
            is_async=is_async,
            gate=self.gate,
            opens=opens,
            session_id="s",
            post=self.posted.put,
            timeout=timeout,
        )

    def outcome(self) -> Settled:
        return self.posted.get(timeout=SECONDS)


@pytest.fixture
def effects() -> Iterator[Effects]:
    effects = Effects(threads=8, grace=GRACE)
    yield effects
    assert effects.close(SECONDS)
    assert not ours()


def ours() -> list[Thread]:
    names = ("turnstream-call", "turnstream-effects")
    return [each for each in threading.enumerate() if each.name.startswith(names)]


def either(fn: Callable[[], Any], is_async: bool) -> Callable[[], Any]:
    """``fn``, or a coroutine function that does the same."""

    async def coroutine() -> Any:
        return fn()

    return coroutine if is_async else fn


def raiser(error: BaseException) -> Callable[[], Any]:
    def fail() -> None:
        raise error

    return fail


class Blocked:
    """A function that can't be stopped, until the test lets it return."""

    def __init__(self) -> None:
        self.entered, self.go = Event(), Event()

    def __call__(self) -> str:
        self.entered.set()
        assert self.go.wait(SECONDS)
        return "secret"


class Waiting:
    """A coroutine that waits, and may do so although it is cancelled."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.stubborn = stubborn
        self.entered, self.cleaned_up = Event(), Event()
        self.go: asyncio.Event
        self.loop: asyncio.AbstractEventLoop

    async def __call__(self) -> str:
        self.go, self.loop = asyncio.Event(), asyncio.get_running_loop()
        self.entered.set()
        while True:
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise
            else:
                return "secret"
            finally:
                self.cleaned_up.set()

    def let_go(self) -> None:
        self.loop.call_soon_threadsafe(self.go.set)


def test_a_gate_that_was_opened_can_not_be_cancelled_as_new() -> None:
    gate = Gate()
    assert gate.open()
    assert not gate.cancel_if_new()
    assert gate.open()
    assert not gate.cancelled


def test_nothing_comes_through_a_gate_that_was_cancelled_as_new() -> None:
    gate = Gate()
    assert gate.cancel_if_new()
    assert not gate.open()
    assert not gate.opened
    assert gate.cancelled


def test_cancelling_an_open_gate_lets_nothing_more_through_and_says_something_was() -> None:
    gate = Gate()
    gate.open()
    assert not gate.cancel()
    assert not gate.open()
    assert gate.opened
    assert gate.cancelled


def test_cancelling_a_new_gate_says_that_nothing_came_through_and_goes_on_saying_so() -> None:
    gate = Gate()
    assert gate.cancel()
    assert gate.cancel()
    assert not gate.cancel_if_new()


@pytest.mark.usefixtures("switching_often")
def test_of_those_who_race_for_a_gate_exactly_one_wins() -> None:
    gates = [Gate() for _ in range(10_000)]
    start, won = Barrier(3), list[tuple[str, list[bool]]]()

    def race(name: str, move: Callable[[Gate], bool]) -> None:
        start.wait(SECONDS)
        won.append((name, [move(gate) for gate in gates]))

    racers = [
        Thread(target=race, args=("opened", Gate.open)),
        Thread(target=race, args=("steered", Gate.cancel_if_new)),
        Thread(target=race, args=("steered too", Gate.cancel_if_new)),
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(SECONDS)
    assert all(sum(results) == 1 for results in zip(*(moves for _, moves in won), strict=True))
    opened = dict(won)["opened"]
    assert [gate.opened for gate in gates] == opened
    assert [gate.cancelled for gate in gates] == [not each for each in opened]


@KINDS
def test_what_it_returns_is_posted(effects: Effects, is_async: bool) -> None:
    assert Run(effects, either(lambda: 42, is_async), is_async=is_async).outcome() == Returned(42)


@KINDS
@pytest.mark.parametrize("error", [ValueError, *BASE_EXCEPTIONS])
def test_whatever_it_raises_is_posted_and_others_go_on(
    effects: Effects, is_async: bool, error: type[BaseException]
) -> None:
    raised = error()
    run = Run(effects, either(raiser(raised), is_async), is_async=is_async)
    assert run.outcome() == Raised(raised)
    assert Run(effects, either(lambda: 1, is_async), is_async=is_async).outcome() == Returned(1)


def test_a_function_that_gives_an_awaitable_runs_on_the_loop(effects: Effects) -> None:
    class Answer:
        def __await__(self) -> Iterator[None]:
            yield
            return 42  # type: ignore[return-value]

    assert Run(effects, Answer, is_async=True).outcome() == Returned(42)


@KINDS
def test_with_opens_entry_the_gate_is_open_when_user_code_runs(
    effects: Effects, is_async: bool
) -> None:
    run: Run
    ready = Event()

    def look() -> bool:
        assert ready.wait(SECONDS)
        return run.gate.opened

    run = Run(effects, either(look, is_async), is_async=is_async)
    ready.set()
    assert run.outcome() == Returned(True)


@KINDS
def test_with_opens_result_the_gate_opens_with_the_result(effects: Effects, is_async: bool) -> None:
    run: Run
    ready = Event()

    def look() -> bool:
        assert ready.wait(SECONDS)
        return run.gate.opened

    run = Run(effects, either(look, is_async), is_async=is_async, opens="result")
    ready.set()
    assert run.outcome() == Returned(False)
    assert run.gate.opened


@pytest.mark.parametrize("error", [None, ValueError()])
def test_a_result_that_comes_after_the_gate_was_cancelled_does_not_count(
    effects: Effects, error: Exception | None
) -> None:
    blocked = Blocked()

    def answer() -> str:
        blocked()
        if error is not None:
            raise error
        return "late"

    run = Run(effects, answer, opens="result")
    assert blocked.entered.wait(SECONDS)
    assert run.gate.cancel_if_new()
    blocked.go.set()
    assert run.outcome() == Cancelled()


@KINDS
def test_an_effect_whose_gate_was_cancelled_before_it_began_is_not_run(
    effects: Effects, is_async: bool
) -> None:
    ran, gate, posted = list[int](), Gate(), SimpleQueue[Settled]()
    gate.cancel_if_new()
    fn = either(lambda: ran.append(1), is_async)
    effects.run(fn, is_async=is_async, gate=gate, opens="result", session_id="s", post=posted.put)
    assert posted.get(timeout=SECONDS) == NotRun()
    assert ran == []


def test_a_post_that_raises_harms_nobody_and_is_logged(
    effects: Effects, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(settled: Settled) -> None:
        raise OSError

    effects.run(
        lambda: "secret", is_async=False, gate=Gate(), opens="entry", session_id="s", post=fail
    )
    assert Run(effects, lambda: 2).outcome() == Returned(2)
    assert effects.close(SECONDS)
    assert "an outcome for session 's' could not be posted" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("opens", ["entry", "result"])
def test_a_function_cancelled_while_it_waits_for_a_thread_is_never_run(opens: Opens) -> None:
    effects, ran, blocked = Effects(threads=1, grace=3600), list[int](), Blocked()
    first = Run(effects, blocked)
    assert blocked.entered.wait(SECONDS)
    second = Run(effects, lambda: ran.append(1), opens=opens)
    effects.cancel(second.running)
    assert second.outcome() == NotRun()
    blocked.go.set()
    assert first.outcome() == Returned("secret")
    assert effects.close(SECONDS)
    assert ran == []
    assert second.posted.empty()


@pytest.mark.parametrize("opens", ["entry", "result"])
def test_a_coroutine_cancelled_before_the_loop_came_to_it_is_never_run(
    effects: Effects, opens: Opens
) -> None:
    ran, blocked = list[int](), Blocked()
    effects.loop.call(blocked)
    assert blocked.entered.wait(SECONDS)
    run = Run(effects, either(lambda: ran.append(1), True), is_async=True, opens=opens)
    effects.cancel(run.running)
    assert run.outcome() == NotRun()
    blocked.go.set()
    assert Run(effects, either(lambda: 2, True), is_async=True).outcome() == Returned(2)
    assert ran == []
    assert run.posted.empty()


def test_a_coroutine_that_is_cancelled_has_ended_when_that_is_posted(effects: Effects) -> None:
    waiting = Waiting()
    run = Run(effects, waiting, is_async=True)
    assert waiting.entered.wait(SECONDS)
    effects.cancel(run.running)
    assert run.outcome() == Cancelled()
    assert waiting.cleaned_up.is_set()


def test_a_second_cancel_does_not_disturb_a_coroutine_that_cleans_up(effects: Effects) -> None:
    entered, cleaning, finished = Event(), Event(), Event()
    go = asyncio.Event()

    async def careful() -> None:
        try:
            entered.set()
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await go.wait()
            finished.set()

    run = Run(effects, careful, is_async=True)
    assert entered.wait(SECONDS)
    effects.cancel(run.running)
    assert cleaning.wait(SECONDS)
    effects.cancel(run.running)
    effects.loop.call(go.set)
    assert run.outcome() == Cancelled()
    assert finished.is_set()


def test_a_function_that_looks_at_its_gate_ends_as_cancelled(effects: Effects) -> None:
    entered, run = Event(), list[Run]()

    def polite() -> str:
        entered.set()
        while not run or not run[0].gate.cancelled:
            Event().wait(0.001)
        return "half done"

    run.append(Run(effects, polite))
    assert entered.wait(SECONDS)
    effects.cancel(run[0].running)
    assert run[0].outcome() == Cancelled()


def test_a_function_that_does_not_stop_is_abandoned_and_its_late_return_is_logged_and_dropped(
    effects: Effects, caplog: pytest.LogCaptureFixture
) -> None:
    blocked, thread = Blocked(), list[Thread]()

    def stuck() -> str:
        thread.append(threading.current_thread())
        return blocked()

    with caplog.at_level(logging.WARNING, "turnstream.effects"):
        run = Run(effects, stuck)
        assert blocked.entered.wait(SECONDS)
        effects.cancel(run.running)
        assert run.outcome() == Abandoned()
        assert not caplog.records
        blocked.go.set()
        assert effects.close(SECONDS)
    assert [record.name for record in caplog.records] == ["turnstream.effects"]
    assert "ended after it was given up" in caplog.text
    assert "secret" not in caplog.text
    assert run.posted.empty()
    assert not thread[0].is_alive()


def test_a_coroutine_that_does_not_stop_is_abandoned_and_its_late_return_is_logged_and_dropped(
    effects: Effects, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = Waiting(stubborn=True)
    with caplog.at_level(logging.WARNING, "turnstream.effects"):
        run = Run(effects, waiting, is_async=True)
        assert waiting.entered.wait(SECONDS)
        effects.cancel(run.running)
        assert run.outcome() == Abandoned()
        waiting.let_go()
        assert effects.close(SECONDS)
    assert "ended after it was given up" in caplog.text
    assert "secret" not in caplog.text
    assert run.posted.empty()


@KINDS
def test_cancelling_what_has_ended_changes_nothing(effects: Effects, is_async: bool) -> None:
    run = Run(effects, either(lambda: 1, is_async), is_async=is_async)
    assert run.outcome() == Returned(1)
    effects.cancel(run.running)
    assert not effects.loop.stalled(SECONDS)
    assert run.posted.empty()


@pytest.mark.usefixtures("switching_often")
@pytest.mark.parametrize("timeout", [None, 0.0005])
@KINDS
def test_where_end_cancel_and_timeout_race_there_is_one_outcome(
    is_async: bool, timeout: float | None
) -> None:
    effects, entered = Effects(threads=4, grace=0.0005), list[int]()
    runs, rounds = list[Run](), 500
    for number in range(rounds):
        fn = either(lambda number=number: entered.append(number), is_async)
        runs.append(Run(effects, fn, is_async=is_async, timeout=timeout))
        if number % 3:
            effects.cancel(runs[-1].running)
    outcomes = [run.outcome() for run in runs]
    assert effects.close(SECONDS)
    assert all(run.posted.empty() for run in runs)
    not_run = {number for number, each in enumerate(outcomes) if each == NotRun()}
    assert set(entered) == set(range(rounds)) - not_run


def test_a_coroutine_that_takes_too_long_is_cancelled(effects: Effects) -> None:
    waiting = Waiting()
    run = Run(effects, waiting, is_async=True, timeout=0.01)
    assert run.outcome() == TimedOut()
    assert waiting.cleaned_up.is_set()


def test_a_coroutine_that_takes_too_long_and_does_not_stop_is_given_up(effects: Effects) -> None:
    waiting = Waiting(stubborn=True)
    run = Run(effects, waiting, is_async=True, timeout=0.01)
    assert run.outcome() == TimedOut()
    waiting.let_go()
    assert effects.close(SECONDS)
    assert run.posted.empty()


def test_a_function_that_takes_too_long_is_given_up_at_once_and_its_late_return_is_dropped() -> (
    None
):
    effects, blocked = Effects(threads=2, grace=3600), Blocked()
    run = Run(effects, blocked, timeout=0.01)
    assert run.outcome() == TimedOut()
    assert run.gate.cancelled
    blocked.go.set()
    assert effects.close(SECONDS)
    assert run.posted.empty()


@KINDS
def test_what_ends_in_time_is_not_timed_out(effects: Effects, is_async: bool) -> None:
    run = Run(effects, either(lambda: 1, is_async), is_async=is_async, timeout=3600)
    assert run.outcome() == Returned(1)


def test_waiting_for_a_thread_does_not_count_as_taking_long() -> None:
    effects, blocked = Effects(threads=1, grace=GRACE), Blocked()
    Run(effects, blocked)
    assert blocked.entered.wait(SECONDS)
    second = Run(effects, lambda: 2, timeout=0.2)
    with pytest.raises(Empty):
        second.posted.get(timeout=0.3)
    blocked.go.set()
    assert second.outcome() == Returned(2)
    assert effects.close(SECONDS)


@KINDS
def test_nothing_of_an_effect_lives_on_until_its_timeout_would_come(
    effects: Effects, is_async: bool
) -> None:
    runs = [
        Run(effects, either(lambda: 1, is_async), is_async=is_async, timeout=3600)
        for _ in range(50)
    ]
    assert {run.outcome() for run in runs} == {Returned(1)}
    alive = [weakref.ref(run.posted) for run in runs]
    runs.clear()
    for _ in range(3):  # so that the loop and the threads let go of them
        Run(effects, either(lambda: 2, is_async), is_async=is_async).outcome()
        assert not effects.loop.stalled(SECONDS)
    gc.collect()
    assert not any(ref() for ref in alive)


@KINDS
def test_user_code_can_tell_which_session_it_runs_for(effects: Effects, is_async: bool) -> None:
    run = Run(effects, either(current_session.get, is_async), is_async=is_async)
    assert run.outcome() == Returned(effects.place("s"))
    assert current_session.get() is None


def test_tasks_that_user_code_starts_belong_to_its_session_too(effects: Effects) -> None:
    async def look() -> Place | None:
        return current_session.get()

    async def start() -> Place | None:
        return await asyncio.create_task(look())

    assert Run(effects, start, is_async=True).outcome() == Returned(effects.place("s"))


@KINDS
def test_context_variables_are_seen_by_user_code_and_not_changed_by_it(
    effects: Effects, is_async: bool
) -> None:
    variable = ContextVar("variable", default=0)
    variable.set(1)

    def add() -> int:
        variable.set(variable.get() + 1)
        return variable.get()

    for _ in range(3):
        run = Run(effects, either(add, is_async), is_async=is_async)
        assert run.outcome() == Returned(2)
    assert variable.get() == 1


def test_nothing_is_started_before_it_is_needed() -> None:
    effects = Effects()
    assert not ours()
    assert effects.close(SECONDS)


def test_closing_stops_what_runs_and_leaves_nothing_running() -> None:
    effects, waiting = Effects(grace=GRACE), Waiting()
    assert Run(effects, lambda: 1).outcome() == Returned(1)
    run = Run(effects, waiting, is_async=True)
    assert waiting.entered.wait(SECONDS)
    assert effects.close(SECONDS)
    assert run.outcome() == Cancelled()
    assert not ours()


def test_closing_stops_a_function_that_looks_at_its_gate() -> None:
    effects, entered, run = Effects(), Event(), list[Run]()

    def polite() -> None:
        entered.set()
        while not run or not run[0].gate.cancelled:
            Event().wait(0.001)

    run.append(Run(effects, polite))
    assert entered.wait(SECONDS)
    assert effects.close(SECONDS)
    assert run[0].outcome() == Cancelled()


def test_closing_never_runs_what_waits_for_a_thread() -> None:
    effects, blocked, ran = Effects(threads=1), Blocked(), list[int]()
    Run(effects, blocked)
    assert blocked.entered.wait(SECONDS)
    waiting = Run(effects, lambda: ran.append(1))
    assert not effects.close(0.05)
    assert waiting.outcome() == NotRun()
    blocked.go.set()
    assert effects.close(SECONDS)
    assert ran == []


def test_closing_ends_generators_that_user_code_left_open() -> None:
    effects, ended, left_open = Effects(), Event(), list[object]()

    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ended.set()

    async def begin() -> int:
        generator = generate()
        left_open.append(generator)
        return await anext(generator)

    assert Run(effects, begin, is_async=True).outcome() == Returned(1)
    assert not ended.is_set()
    assert effects.close(SECONDS)
    assert ended.is_set()


def test_closing_twice_is_closing_once() -> None:
    effects = Effects()
    assert Run(effects, either(lambda: 1, True), is_async=True).outcome() == Returned(1)
    assert effects.close(SECONDS)
    assert effects.close(SECONDS)


@KINDS
def test_what_is_run_after_the_end_is_not_run_and_says_so(is_async: bool) -> None:
    effects, ran = Effects(), list[int]()
    assert effects.close(SECONDS)
    run = Run(effects, either(lambda: ran.append(1), is_async), is_async=is_async)
    assert run.outcome() == NotRun()
    assert ran == []


def test_closing_abandons_a_function_that_does_not_return_and_says_so() -> None:
    effects, blocked = Effects(grace=3600), Blocked()
    run = Run(effects, blocked)
    assert blocked.entered.wait(SECONDS)
    assert not effects.close(0.05)
    assert run.outcome() == Abandoned()
    blocked.go.set()
    assert effects.close(SECONDS)
    assert not ours()
    assert run.posted.empty()


def test_closing_abandons_a_coroutine_that_does_not_end_and_says_so() -> None:
    effects, waiting = Effects(grace=3600), Waiting(stubborn=True)
    run = Run(effects, waiting, is_async=True)
    assert waiting.entered.wait(SECONDS)
    assert not effects.close(0.05)
    assert run.outcome() == Abandoned()
    waiting.let_go()
    assert effects.close(SECONDS)
    assert not ours()
    assert run.posted.empty()


def test_closing_does_not_hang_on_a_coroutine_that_blocks_the_loop() -> None:
    effects, blocked = Effects(grace=GRACE), Blocked()
    run = Run(effects, either(blocked, True), is_async=True)
    assert blocked.entered.wait(SECONDS)
    assert not effects.close(0.05)
    assert run.outcome() == Abandoned()
    blocked.go.set()
    assert effects.close(SECONDS)
    assert not ours()


def test_a_coroutine_that_closes_the_effects_it_runs_on_does_not_wait_for_itself() -> None:
    effects = Effects(grace=GRACE)
    run = Run(effects, either(lambda: effects.close(SECONDS), True), is_async=True)
    assert run.outcome() == Abandoned()
    assert effects.close(SECONDS)
    assert not ours()


STUCK = """
import threading
from turnstream.actors.effects import Effects
from turnstream.actors.gate import Gate

entered = threading.Event()

def stuck():
    entered.set()
    threading.Event().wait()

async def stuck_too():
    threading.Event().wait()

effects = Effects()
for fn, is_async in ((stuck, False), (stuck_too, True)):
    effects.run(fn, is_async=is_async, gate=Gate(), opens="entry", session_id="s", post=print)
entered.wait()
print("main ends", flush=True)
"""


def test_a_process_ends_although_user_code_does_not() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "main ends\n")


def test_a_loop_that_goes_round_is_not_stalled(effects: Effects) -> None:
    assert not effects.loop.stalled(SECONDS)
    Run(effects, either(lambda: 1, True), is_async=True).outcome()
    assert not effects.loop.stalled(SECONDS)


def test_a_coroutine_that_blocks_the_loop_is_noticed(effects: Effects) -> None:
    blocked = Blocked()
    run = Run(effects, either(blocked, True), is_async=True)
    assert blocked.entered.wait(SECONDS)
    assert effects.loop.stalled(0.01)
    blocked.go.set()
    assert run.outcome() == Returned("secret")
    assert not effects.loop.stalled(SECONDS)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_task_of_user_code_can_not_end_the_loop_by_an_error(
    effects: Effects, error: type[BaseException]
) -> None:
    async def start() -> None:
        task = asyncio.ensure_future(either(raiser(error()), True)())
        with suppress(error):
            await task

    Run(effects, start, is_async=True).outcome()
    assert Run(effects, either(lambda: 1, True), is_async=True).outcome() == Returned(1)


def test_user_code_can_not_stop_the_loop(effects: Effects) -> None:
    Run(effects, either(lambda: asyncio.get_running_loop().stop(), True), is_async=True).outcome()
    assert Run(effects, either(lambda: 1, True), is_async=True).outcome() == Returned(1)


def test_a_task_nobody_refers_to_is_not_collected() -> None:
    loop, futures = EffectLoop(), SimpleQueue["weakref.ref[asyncio.Future[None]]"]()

    async def wait() -> None:
        future = asyncio.get_running_loop().create_future()
        futures.put(weakref.ref(future))
        await future

    assert loop.spawn(wait)
    alive = futures.get(timeout=SECONDS)
    assert not loop.stalled(SECONDS)
    gc.collect()
    assert alive() is not None
    assert loop.close(SECONDS)


def test_a_closed_loop_takes_nothing_more() -> None:
    loop = EffectLoop()
    assert loop.close(SECONDS)
    assert not loop.call(print)
    assert not ours()


def test_effects_are_run_on_one_loop_so_that_clients_can_be_shared(effects: Effects) -> None:
    def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    outcomes = [Run(effects, either(loop, True), is_async=True).outcome() for _ in range(3)]
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_an_effect_is_quick_to_start() -> None:
    """No figure, only that nothing polls: 200 round trips take far less than 200 ticks."""
    effects = Effects()
    began = time.monotonic()
    for _ in range(200):
        assert Run(effects, lambda: 1).outcome() == Returned(1)
        assert Run(effects, either(lambda: 1, True), is_async=True).outcome() == Returned(1)
    assert time.monotonic() - began < 2
    assert effects.close(SECONDS)
