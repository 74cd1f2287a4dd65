"""Closing a system while everything is in flight: nobody waits for ever, nothing is lost."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Thread
from typing import Any

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, ModelRequest, Turn
from turnstream.actors.testing import call, said
from turnstream.events import ModelTurn, SystemClosed, ToolMessage, TurnWithdrawn, UserMessage

pytestmark = on_durable_stores

WAIT = 20
KINDS = ("model", "function", "held", "held_sync")


class World:
    """One session of each kind in the middle of its turn, with inputs of each policy waiting."""

    def __init__(self, address: str, led: Any, held: Any, kinds: tuple[str, ...]) -> None:
        self.address, self.tools, self.kinds = address, held.tools, kinds
        self.go, entered = Event(), Event()
        self.before = set(threading.enumerate())

        def function(request: ModelRequest) -> ModelTurn:
            if request.session_id.startswith("held"):
                if not isinstance(request.messages[-1], ToolMessage):
                    return ModelTurn(tool_calls=(call(request.session_id, text="it"),))
            entered.set()
            self.go.wait(WAIT)
            return ModelTurn("done")

        agents = [
            Agent("led", model=led),
            Agent("function", model=function, tools=held.tools),
        ]
        self.system = ActorSystem(agents, store=self.address)
        self.turns: list[Turn] = []
        self.replies: list[Any] = []
        self._readers = ThreadPoolExecutor(8)
        self.reading = [self._begin(kind) for kind in kinds]
        if "model" in kinds:
            self.asked = led.asked()
        if "function" in kinds:
            assert entered.wait(WAIT)
        for kind in kinds:
            if kind.startswith("held"):
                held.begun("it")

    def _begin(self, kind: str) -> Any:
        session = self.system.session(kind, agent="led" if kind == "model" else "function")
        turns = [session.send("one"), *(session.send(p, policy=p) for p in ("wait", "queue"))]
        self.turns += turns
        self.replies += [turn.accepted() for turn in turns]
        return self._readers.submit(list, turns[0].stream())

    def ask_for_more(self) -> None:
        """Requests that are on their way when the system closes."""
        for kind in self.kinds:
            session = self.system.session(kind)
            self.turns.append(session.send("late", policy="steer"))
            self.replies.append(self.turns[-1].withdraw())
            self.replies.append(session.send("later").accepted())

    def outcomes(self) -> Counter[str]:
        """What everybody hears who waits for something."""
        return Counter(outcome(each) for each in (*self.turns, *self.replies))

    def nothing_runs(self) -> bool:
        """Whether all threads end, once user code has."""
        self._readers.shutdown()
        started = set(threading.enumerate()) - self.before
        for thread in started:
            thread.join(WAIT)
        return not any(thread.is_alive() for thread in started)


def outcome(asked: Any) -> str:
    try:
        asked.result(WAIT)
    except (SystemClosed, TurnWithdrawn) as error:
        return type(error).__name__
    return "result"


@pytest.mark.parametrize("kinds", [*((kind,) for kind in KINDS), KINDS], ids="+".join)
def test_closing_resolves_everything_and_says_whether_something_was_left_running(
    address: str, led: Any, held: Any, kinds: tuple[str, ...]
) -> None:
    world = World(address, led, held, kinds)
    world.ask_for_more()

    assert not world.system.close(timeout=0.05), "it was interrupted"
    assert set(world.outcomes()) <= {"SystemClosed", "TurnWithdrawn", "result"}
    assert all(turn.done() for turn in world.turns)
    for reading in world.reading:
        assert reading.result(WAIT)[-1].type == "turn.done"
    world.go.set()
    held.let("it")
    assert world.nothing_runs()


def test_closing_waits_for_steps_under_way_and_is_clean_where_they_end_in_time(
    address: str, led: Any, held: Any
) -> None:
    world = World(address, led, held, KINDS)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(world.system.close, WAIT)
        world.go.set()
        held.let("it")
        world.asked.answer("done")
        assert closing.result(WAIT) is True

    assert set(world.outcomes()) <= {"SystemClosed", "result"}
    assert world.nothing_runs()


@pytest.mark.slow
def test_what_was_accepted_before_closing_is_used_once_by_the_next_process(
    address: str, led: Any, held: Any
) -> None:
    world = World(address, led, held, KINDS)
    for reply in world.replies:
        reply.result(WAIT)
    world.system.close(timeout=0.05)
    world.go.set()
    held.let("it")
    assert world.nothing_runs()

    def model(request: ModelRequest) -> str:
        return "done"

    agents = [Agent(name, model=model, tools=held.tools) for name in ("led", "function")]
    with ActorSystem(agents, store=world.address) as system:
        for turn in system.resume_all():
            turn.result(WAIT)
        for kind in KINDS:
            system.session(kind).send("last").result(WAIT)
            messages = system.session(kind).messages
            texts = said([each for each in messages if isinstance(each, UserMessage)])
            assert texts == ["one", "queue", "wait", "last"], kind


@pytest.mark.usefixtures("switching_often")
@pytest.mark.parametrize("attempt", range(3))
def test_senders_that_race_with_closing_hear_of_it_and_nothing_accepted_is_lost(
    address: str, attempt: int
) -> None:
    lock, enough = Lock(), Event()
    sent: list[tuple[str, Turn]] = []
    chance = random.Random(attempt)

    async def model(request: ModelRequest) -> str:
        return "done"

    agent = Agent("agent", model=model)
    system = ActorSystem(agent, store=address, idle_timeout=0.001)

    def send(sender: int) -> None:
        number = 0
        while True:
            policy: Any = chance.choice(["wait", "queue", "steer"])
            text = f"{sender}:{number}"
            try:
                turn = system.session(f"s{chance.randrange(8)}").send(text, policy=policy)
            except SystemClosed:
                return
            number += 1
            with lock:
                sent.append((text, turn))
            if len(sent) > 200:
                enough.set()

    senders = [Thread(target=send, args=(n,)) for n in range(4)]
    for thread in senders:
        thread.start()
    assert enough.wait(WAIT)
    system.close()
    for thread in senders:
        thread.join()
    accepted = {text for text, turn in sent if outcome(turn.accepted()) == "result"}
    answered = {text for text, turn in sent if outcome(turn) == "result"}

    with ActorSystem(agent, store=address) as again:
        for turn in again.resume_all():
            turn.result(WAIT)
        names = [row.session_id for row in again.sessions()]
        for name in names:
            again.session(name).send("last").result(WAIT)
        messages = [m for name in names for m in again.session(name).messages]
    used = Counter(said([each for each in messages if isinstance(each, UserMessage)]))
    assert answered <= accepted <= used.keys() <= {*(text for text, _ in sent), "last"}
    assert {used[text] for text in used if text != "last"} == {1}
