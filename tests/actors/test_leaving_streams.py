"""Leaving a stream early: the turn goes on, or is aborted where the reader asked for that."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import aclosing, closing, suppress
from threading import Thread
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Session, Turn

WAIT = 20
Run = Callable[..., ActorSystem]
Leave = Callable[[Turn, int, bool], None]

SHOWN = ("a", "b")  # after the item that says that the turn began


class Enough(Exception):
    """What the body of a loop raises."""


def by_break(turn: Turn, items: int, abort: bool) -> None:
    for place, _ in enumerate(turn.stream(abort_on_exit=abort), 1):
        if place == items:
            break


def by_a_bare_exception(turn: Turn, items: int, abort: bool) -> None:
    with suppress(Enough):
        for place, _ in enumerate(turn.stream(abort_on_exit=abort), 1):
            if place == items:
                raise Enough


def by_an_exception(turn: Turn, items: int, abort: bool) -> None:
    def body() -> None:
        with turn.stream(abort_on_exit=abort) as stream:
            for place, _ in enumerate(stream, 1):
                if place == items:
                    raise Enough

    with pytest.raises(Enough):
        body()


def by_the_end_of_a_with_block(turn: Turn, items: int, abort: bool) -> None:
    with turn.stream(abort_on_exit=abort) as stream:
        kept = iter(stream)
        for _ in range(items):
            next(kept)
    if abort:
        turn.result(WAIT)  # while the iterator is still there


def by_close(turn: Turn, items: int, abort: bool) -> None:
    iterator: Any = iter(turn.stream(abort_on_exit=abort))
    with closing(iterator) as stream:
        for _ in range(items):
            next(stream)


def by_dropping_the_iterator(turn: Turn, items: int, abort: bool) -> None:
    stream = iter(turn.stream(abort_on_exit=abort))
    for _ in range(items):
        next(stream)
    del stream
    gc.collect()


def on_a_loop(leave: Callable[[Turn, int, bool], Awaitable[None]]) -> Leave:
    """To leave on an event loop, which then goes on until the turn was aborted."""

    def run(turn: Turn, items: int, abort: bool) -> None:
        async def main() -> None:
            await leave(turn, items, abort)
            if abort:
                await asyncio.wait_for(turn, WAIT)

        asyncio.run(main())

    run.__name__ = f"{leave.__name__} on a loop"
    return run


@on_a_loop
async def by_async_break(turn: Turn, items: int, abort: bool) -> None:
    place = 0
    async for _ in turn.stream(abort_on_exit=abort):
        place += 1
        if place == items:
            break


@on_a_loop
async def by_an_exception_in_async_for(turn: Turn, items: int, abort: bool) -> None:
    async def body() -> None:
        async with turn.stream(abort_on_exit=abort) as stream:
            place = 0
            async for _ in stream:
                place += 1
                if place == items:
                    raise Enough

    with pytest.raises(Enough):
        await body()


@on_a_loop
async def by_the_end_of_an_async_with_block(turn: Turn, items: int, abort: bool) -> None:
    async with turn.stream(abort_on_exit=abort) as stream:
        kept = aiter(stream)
        for _ in range(items):
            await anext(kept)
    if abort:
        await asyncio.wait_for(turn, WAIT)


@on_a_loop
async def by_aclose(turn: Turn, items: int, abort: bool) -> None:
    stream: Any = aiter(turn.stream(abort_on_exit=abort))
    async with aclosing(stream):
        for _ in range(items):
            await anext(stream)


@on_a_loop
async def by_dropping_the_async_iterator(turn: Turn, items: int, abort: bool) -> None:
    stream = aiter(turn.stream(abort_on_exit=abort))
    for _ in range(items):
        await anext(stream)
    del stream
    gc.collect()


@on_a_loop
async def by_cancelling_the_reader(turn: Turn, items: int, abort: bool) -> None:
    read = asyncio.Semaphore(0)

    async def reading() -> None:
        async for _ in turn.stream(abort_on_exit=abort):
            read.release()

    reader = asyncio.create_task(reading())
    for _ in range(items):
        await read.acquire()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader


@on_a_loop
async def by_cancelling_the_reader_inside_async_with(turn: Turn, items: int, abort: bool) -> None:
    stream = turn.stream(abort_on_exit=abort)
    kept = aiter(stream)
    for _ in range(items):
        await anext(kept)

    async def reading() -> None:
        async with stream:
            await asyncio.Event().wait()

    reader = asyncio.create_task(reading())
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    if abort:
        await asyncio.wait_for(turn, WAIT)


LOOPS = [
    by_break,
    by_a_bare_exception,
    by_an_exception,
    by_async_break,
    by_an_exception_in_async_for,
]
DROPS = [by_dropping_the_iterator, by_dropping_the_async_iterator, by_cancelling_the_reader]
CLOSES = [
    by_close,
    by_aclose,
    by_the_end_of_a_with_block,
    by_the_end_of_an_async_with_block,
    by_cancelling_the_reader_inside_async_with,
]
EVERYWHERE = [
    *((leave, items) for leave in (*LOOPS, *DROPS) for items in (1, 2, 3)),
    *((leave, items) for leave in CLOSES for items in (0, 1, 2, 3)),
]
everywhere = pytest.mark.parametrize(
    ("leave", "items"), EVERYWHERE, ids=[f"{each.__name__}, {n} read" for each, n in EVERYWHERE]
)


def begin(run: Run, led: Any) -> tuple[Session, Turn, Any]:
    """A turn in the middle of an answer."""
    session = run([], model=led).session("s")
    turn = session.send("go")
    asked = led.asked()
    for text in SHOWN:
        assert asked.show(text)
    return session, turn, asked


@everywhere
def test_leaving_a_stream_aborts_its_turn_where_that_was_asked_for(
    run: Run, led: Any, leave: Leave, items: int
) -> None:
    session, turn, asked = begin(run, led)
    leave(turn, items, True)

    assert turn.result(WAIT).finish_reason == "aborted"
    assert asked.cancelled.wait(WAIT)
    again = session.send("again")
    led.asked().answer("hello")
    assert [each.text for each in again.result(WAIT).messages[1:]] == ["hello"]


@everywhere
def test_leaving_a_stream_stops_nothing_and_locks_nothing(
    run: Run, led: Any, leave: Leave, items: int
) -> None:
    session, turn, asked = begin(run, led)
    version = session.version
    leave(turn, items, False)

    later = session.send("later")
    asked.answer("whole")
    assert turn.result(WAIT).text == "whole"
    led.asked().answer("hello")
    assert later.result(WAIT).text == "hello"
    assert "turn_aborted" not in [each.topic for each in session.events(after=version)]


def test_iterators_that_are_kept_and_never_read_on_lock_nothing(run: Run, led: Any) -> None:
    session, turn, asked = begin(run, led)

    async def main() -> None:
        async with asyncio.timeout(WAIT):
            started, other = aiter(turn.stream()), aiter(turn.stream())
            never_started = aiter(turn.stream())
            await anext(started)
            await anext(other)
            later = session.send("later")
            asked.answer("whole")
            (await asyncio.to_thread(led.asked)).answer("hello")
            assert (await later).text == "hello"
            del started, other, never_started

    asyncio.run(main())
    assert turn.result(WAIT).text == "whole"


def test_a_stream_read_to_its_end_aborts_nothing(run: Run, led: Any) -> None:
    session, turn, asked = begin(run, led)
    asked.answer("whole")
    turn.result(WAIT)
    version = session.version
    with turn.stream(abort_on_exit=True) as stream:
        assert [item.type for item in stream][-1] == "turn.done"
    by_break(turn, 1, True)
    by_aclose(turn, 2, True)

    following = session.send("next")
    led.asked().answer("hello")
    following.result(WAIT)
    topics = [each.topic for each in session.events(after=version)]
    assert topics[0] == "input_queued" and "turn_aborted" not in topics
    assert turn.result(WAIT).text == "whole"


def test_the_other_readers_are_told_of_the_abort(run: Run, led: Any) -> None:
    _, turn, _ = begin(run, led)
    read: list[Any] = []
    reader = Thread(target=lambda: read.extend(turn.stream()), daemon=True)
    reader.start()
    by_break(turn, 1, True)
    reader.join(WAIT)

    assert [item.type for item in read] == ["turn.started", *["text.delta"] * 2, "turn.done"]
    assert (read[-1].finish_reason, read[-1].result) == ("aborted", turn.result(WAIT))


def test_leaving_one_turn_leaves_the_inputs_behind_it_to_run(run: Run, led: Any) -> None:
    session, turn, _ = begin(run, led)
    following = session.send("next")
    following.accepted().result(WAIT)
    by_break(turn, 1, True)
    led.asked().answer("hello")

    assert following.result(WAIT).text == "hello"
    assert turn.result(WAIT).finish_reason == "aborted"


@pytest.mark.parametrize("leave", [by_the_end_of_a_with_block, by_the_end_of_an_async_with_block])
def test_leaving_the_stream_of_an_input_that_waits_takes_the_input_back(
    run: Run, led: Any, leave: Leave
) -> None:
    session, turn, asked = begin(run, led)
    waiting = session.send("next")
    waiting.accepted().result(WAIT)
    leave(waiting, 0, True)

    assert waiting.result(WAIT).finish_reason == "aborted"
    asked.answer("whole")
    assert turn.result(WAIT).text == "whole"
    assert len(session.messages) == 2


def test_a_reader_that_is_cancelled_takes_no_other_with_it(run: Run, led: Any) -> None:
    _, turn, asked = begin(run, led)

    async def main() -> list[str]:
        async def reading() -> list[str]:
            return [item.type async for item in turn.stream()]

        readers = [asyncio.create_task(reading()) for _ in range(3)]
        waiter = asyncio.ensure_future(turn)
        await anext(aiter(turn.stream()))
        readers[0].cancel()
        waiter.cancel()
        await asyncio.wait([readers[0], waiter])
        asked.answer("whole")
        async with asyncio.timeout(WAIT):
            assert await readers[1] == await readers[2]
            assert (await turn).text == "whole"
        return readers[1].result()

    assert asyncio.run(main())[-2:] == ["model.turn", "turn.done"]
