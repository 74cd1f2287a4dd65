"""Async callers, from any event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, Turn
from turnstream.actors.testing import ScriptedModel, said

T = TypeVar("T")
WAIT = 20
Run = Callable[..., ActorSystem]
Cell = Callable[[Coroutine[Any, Any, Any]], Any]


def of_asyncio() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def of_uvloop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


LOOPS = [of_asyncio] if sys.platform == "win32" else [of_asyncio, of_uvloop]
every_loop = pytest.mark.parametrize("new_loop", LOOPS)


async def types(turn: Turn) -> list[str]:
    return [item.type async for item in turn.stream()]


@every_loop
def test_a_turn_is_sent_awaited_and_read_on_one_loop(
    store: str, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    agent = Agent("agent", model=ScriptedModel(["one", "two", ConnectionError("reset")]))

    async def main() -> None:
        async with ActorSystem(agent, store=store) as system:
            session = system.session("s")
            first, second = session.send("1"), session.send("2")
            accepted = await asyncio.gather(first.accepted(), second.accepted())
            assert accepted == [first.input_id, second.input_id]
            reading = asyncio.create_task(types(second))
            assert [each.text for each in await asyncio.gather(first, second)] == ["one", "two"]
            assert await reading == await types(second)
            assert (await types(session.send("3")))[-2:] == ["error", "turn.done"]
            assert (await session.view()).version == session.version

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(main(), WAIT))


@every_loop
def test_one_turn_is_awaited_in_one_run_after_another(
    run: Run, led: Any, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    def on_a_loop(task: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(task)

    async def send() -> Turn:
        turn = session.send("go")
        await turn.accepted()
        return turn

    async def give_up(turn: Turn) -> None:
        waits = [asyncio.ensure_future(turn), asyncio.create_task(types(turn))]
        await anext(aiter(turn.stream()))
        for each in waits:
            each.cancel()
        await asyncio.wait(waits)

    session = run([], model=led).session("s")
    turn = on_a_loop(send())
    on_a_loop(give_up(turn))
    led.asked().answer("late")  # wakes whoever waits, on loops that are no more

    async def both() -> tuple[str, list[str]]:
        return (await turn).text, await types(turn)

    assert on_a_loop(both()) == ("late", ["turn.started", "model.turn", "turn.done"])


@every_loop
def test_loops_in_several_threads_share_a_session_at_once(
    run: Run, new_loop: Callable[[], asyncio.AbstractEventLoop], switching_often: None
) -> None:
    session = run([], model=lambda request: said(request.messages)[-1]).session("s")
    shared = session.send("shared")
    together = threading.Barrier(3)
    heard: dict[int, list[str]] = {}

    async def talk(number: int) -> None:
        texts = [(await shared).text]
        for place in range(10):
            turn = session.send(f"{number}.{place}")
            assert (await types(turn))[-1] == "turn.done"
            texts.append((await turn).text)
        heard[number] = texts

    def caller(number: int) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            together.wait(WAIT)
            runner.run(asyncio.wait_for(talk(number), WAIT))

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(3)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert heard == {n: ["shared", *(f"{n}.{place}" for place in range(10))] for n in range(3)}


@pytest.fixture
def cell() -> Iterator[Cell]:
    """A loop that runs all the time, and cells of a notebook that run inside of it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield lambda code: asyncio.run_coroutine_threadsafe(code, loop).result(WAIT)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(WAIT)
    loop.close()


def test_a_notebook_awaits_from_cell_to_cell(cell: Cell, store: str) -> None:
    model = ScriptedModel(["one", "two"])
    kept: list[Any] = []

    async def opens() -> None:
        system = ActorSystem(Agent("agent", model=model), store=store)
        kept.extend([system, system.session("s")])

    async def sends() -> None:
        kept.append(kept[1].send("1"))

    async def waits() -> Any:
        return await kept[2]

    async def goes_on() -> Any:
        return [item.type async for item in kept[1].send("2").stream()], kept[2].result().text

    async def closes() -> bool:
        return await asyncio.to_thread(kept[0].close)

    cell(opens())
    cell(sends())
    assert cell(waits()).text == "one"
    assert cell(goes_on()) == (["turn.started", "text.delta", "model.turn", "turn.done"], "one")
    assert cell(closes()) is True


def test_a_stream_begun_in_one_task_is_read_in_another_and_closed_in_a_third(
    run: Run, led: Any
) -> None:
    session = run([], model=led).session("s")

    async def main() -> None:
        turn = session.send("go")
        asked = await asyncio.to_thread(led.asked)
        streams: list[Any] = []

        async def begins() -> str:
            streams.append(aiter(turn.stream()))
            return (await anext(streams[0])).type

        async def reads_on() -> str:
            return (await anext(streams[0])).type

        async def closes() -> None:
            async with aclosing(streams[0]):
                pass

        assert await asyncio.create_task(begins()) == "turn.started"
        reading = asyncio.create_task(reads_on())
        await asyncio.to_thread(asked.show, "a")
        assert await reading == "text.delta"
        await asyncio.create_task(closes())
        asked.answer("a")
        following = session.send("next")
        (await asyncio.to_thread(led.asked)).answer("b")
        assert (await following).text == "b"

    asyncio.run(asyncio.wait_for(main(), WAIT))


@on_durable_stores
def test_nothing_has_to_be_loaded_before_a_session_goes_on(store: str) -> None:

    async def talk(*texts: str) -> list[list[str]]:
        model = ScriptedModel(["ok"] * len(texts))
        async with ActorSystem(Agent("agent", model=model), store=store) as system:
            session = system.session("s")
            session.resume()
            turns = [session.send(text) for text in texts]
            turns[-1].accepted()
            await turns[-1]
        return [said(request.messages) for request in model.requests]

    asyncio.run(talk("1", "2", "3"))
    assert asyncio.run(talk("4")) == [["1", "ok", "2", "ok", "3", "ok", "4"]]


def test_asyncio_has_nothing_to_complain_about_in_debug_mode(tmp_path: Path) -> None:
    """In a process of its own, to its very end."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", CARELESS]
    child = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)

    assert (child.stdout.split(), child.stderr, child.returncode) == (["done"], "", 0)


CARELESS = """
import asyncio, gc, logging
from turnstream import ActorSystem, Agent, ModelTurn, TextDelta

# How long a callback takes depends on the machine.
logging.getLogger("asyncio").addFilter(lambda record: "Executing" not in record.getMessage())
# Nor is it asyncio's complaint that a model ended at the moment it was stopped.
logging.getLogger("turnstream.effects").setLevel(logging.ERROR)

class Model:
    id = "model"

    async def stream(self, request):
        for piece in "abc":
            yield TextDelta(piece)
            await asyncio.sleep(0)
        if "fail" in request.messages[-1].content:
            raise ConnectionError("reset")
        yield ModelTurn("abc")

async def read(stream, items):
    place = 0
    async for _ in stream:
        if place == items:
            break
        place += 1

async def main():
    async with ActorSystem(Agent("agent", model=Model()), on_failure="drop") as system:
        session = system.session()
        for abort in (False, True):
            for items in range(6):
                turn = session.send("go")
                stream = aiter(turn.stream(abort_on_exit=abort))
                for _ in range(items):
                    await anext(stream, None)
                await stream.aclose()
                await read(session.send("go").stream(abort_on_exit=abort), items)
                await read(session.send("fail").stream(abort_on_exit=abort), items)
                reader = asyncio.create_task(read(session.send("go").stream(), 9))
                await turn
                reader.cancel()
                dropped = aiter(session.send("go").stream(abort_on_exit=abort))
                await anext(dropped)
                del dropped, stream
                gc.collect()
        session.send("fail").accepted()
        await asyncio.gather(session.send("fail"), return_exceptions=True)
        kept = aiter(session.send("go").stream())
        await anext(kept)
    asyncio.ensure_future(session.view())
    return kept

kept = asyncio.run(main())
print("done")
"""
