"""Many sessions and many messages, while actors come and go all the time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, Turn
from turnstream.actors.testing import said
from turnstream.events import InputApplied, InputQueued, TurnStarted, UserMessage
from turnstream.stores import open_store

WAIT = 60
Run = Callable[..., ActorSystem]

# The first two send turns of their own, the other two join what runs.
POLICIES = ("wait", "wait", "queue", "steer")
WINDOW = 12  # turns a sender waits for at most, so that most sessions are idle at any moment
BLOCK = 40  # sessions that are spoken to in the same while: each is left, and wanted again soon


async def instant(request: ModelRequest) -> str:
    return f"step {request.step}"


class Sent(NamedTuple):
    """A message that was sent: by which sender, to which session, and its number there."""

    sender: int
    session: str
    number: int

    @property
    def text(self) -> str:
        return f"{self.sender}:{self.number}"


class Watched:
    """A real store that notes each time a session is read: once for each of its activations."""

    def __init__(self, address: str) -> None:
        self._store = open_store(address)
        self.activations: deque[str] = deque()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def replay(self, session_id: str, **places: Any) -> Any:
        self.activations.append(session_id)
        return self._store.replay(session_id, **places)


def messages_of(sender: int, messages: int, sessions: int) -> list[Sent]:
    """What one sender sends, in order: block by block, round and round in each."""
    each = messages // len(POLICIES) // sessions
    blocks = [range(first, min(first + BLOCK, sessions)) for first in range(0, sessions, BLOCK)]
    return [
        Sent(sender, f"s{block[(7 * place + sender) % len(block)]}", number)
        for block in blocks
        for number in range(each)
        for place in range(len(block))
    ]


class Crowd:
    """Senders, each on a thread of its own, and what became of what they sent."""

    def __init__(self, system: ActorSystem, messages: int, sessions: int) -> None:
        self._system = system
        self.sent = [messages_of(each, messages, sessions) for each in range(len(POLICIES))]
        self.answered: list[Sent] = []
        self.wrong: list[object] = []

    def run(self) -> None:
        threads = [Thread(target=self._send_all, args=(each,)) for each in range(len(POLICIES))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send_all(self, sender: int) -> None:
        waited: deque[tuple[Sent, Turn]] = deque()
        try:
            for sent in self.sent[sender]:
                turn = self._system.session(sent.session).send(sent.text, policy=POLICIES[sender])
                waited.append((sent, turn))
                if len(waited) == WINDOW:
                    self._collect(*waited.popleft())
            for each in waited:
                self._collect(*each)
        except BaseException as error:
            self.wrong.append(error)

    def _collect(self, sent: Sent, turn: Turn) -> None:
        if sent.text in said(turn.result(WAIT).new_messages):
            self.answered.append(sent)
        else:
            self.wrong.append(sent)

    def check(self) -> None:
        """All was answered, and is in its session: once, and in its sender's order."""
        assert self.wrong == []
        everything = [sent for each in self.sent for sent in each]
        assert Counter(self.answered) == Counter(everything)
        expected: dict[str, list[Sent]] = {}
        for sent in everything:
            expected.setdefault(sent.session, []).append(sent)
        for name, messages in expected.items():
            _check_session(self._system.session(name), messages)


def _check_session(session: Session, expected: Sequence[Sent]) -> None:
    users = [each for each in session.messages if isinstance(each, UserMessage)]
    texts = said(users)
    assert Counter(texts) == Counter(sent.text for sent in expected), session.id
    for sender in range(len(POLICIES)):
        mine = [text for text in texts if text.startswith(f"{sender}:")]
        assert mine == [sent.text for sent in expected if sent.sender == sender], session.id
    events = [each.event for each in session.events()]
    queued = [each.input_id for each in events if isinstance(each, InputQueued)]
    begun = [i for each in events if isinstance(each, TurnStarted) for i in each.input_ids]
    applied = [each.input_id for each in events if isinstance(each, InputApplied)]
    assert Counter([*begun, *applied]) == Counter(queued), session.id
    assert set(Counter(queued).values()) == {1}, session.id


def storm(address: str, messages: int, sessions: int, idle_timeout: float) -> None:
    """Send, check, and make sure that actors came and went meanwhile."""
    store: Any = Watched(address)
    with closing(store):
        agent = Agent("agent", model=instant)
        with ActorSystem(agent, store=store, idle_timeout=idle_timeout) as system:
            crowd = Crowd(system, messages, sessions)
            crowd.run()
            activations = len(store.activations)
            crowd.check()
    assert activations > 2 * sessions, "they hardly ever left: nothing was raced with"


@pytest.mark.slow
@pytest.mark.usefixtures("switching_often")
def test_no_message_is_lost_doubled_or_out_of_order_while_sessions_come_and_go(store: str) -> None:
    storm(store, messages=1600, sessions=40, idle_timeout=0.0005)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_none_of_a_hundred_thousand_messages_to_a_thousand_sessions_is_lost_or_doubled() -> None:
    storm("memory://", messages=100_000, sessions=1000, idle_timeout=0.005)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("switching_often")
def test_none_of_five_thousand_messages_to_sessions_in_a_file_is_lost_or_doubled(
    tmp_path: Path,
) -> None:
    storm(f"sqlite:///{tmp_path}/s.db", messages=5000, sessions=50, idle_timeout=0.0005)


def test_sessions_wait_for_their_models_all_at_once_and_on_few_threads(run: Run) -> None:
    sessions, threads = 300, list[int]()
    inside, all_inside = 0, asyncio.Event()

    async def model(request: ModelRequest) -> str:
        nonlocal inside
        inside += 1
        if inside == sessions:
            threads.append(threading.active_count())
            all_inside.set()
        await all_inside.wait()
        return "ok"

    before = threading.active_count()
    system = run([], model=model)
    turns = [system.session(f"s{n}").send("hello") for n in range(sessions)]

    assert {turn.result(WAIT).text for turn in turns} == {"ok"}
    assert threads[0] - before < 50


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_thousand_sessions_that_each_wait_a_second_for_their_model_take_under_five(
    tmp_path: Path,
) -> None:
    async def model(request: ModelRequest) -> str:
        await asyncio.sleep(1)
        return "ok"

    async def ask(system: ActorSystem) -> float:
        start = time.monotonic()
        turns = (system.session(f"s{n}").send("hello") for n in range(1000))
        results = await asyncio.gather(*turns)
        taken = time.monotonic() - start
        assert [result.text for result in results] == ["ok"] * 1000
        return taken

    def attempt(number: int) -> float:
        address = f"sqlite:///{tmp_path}/{number}.db?synchronous=full"
        with ActorSystem(Agent("agent", model=model), store=address) as system:
            return asyncio.run(ask(system))

    # A machine that does other things as well may need a second attempt, or a third.
    assert any(attempt(number) < 5 for number in range(3))


IDLE = """
import asyncio, gc, os, sys, threading
from pathlib import Path

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

interpreter = resident()

from turnstream.actors import ActorSystem, Agent

async def model(request):
    return "hello to you"

async def greet(system, sessions):
    for first in range(0, sessions, 200):
        some = range(first, min(first + 200, sessions))
        await asyncio.gather(*(system.session(f"s{n}").send("hello") for n in some))

address, sessions = sys.argv[1], int(sys.argv[2])
with ActorSystem(Agent("agent", model=model), store=address, idle_timeout=3600) as system:
    asyncio.run(greet(system, sessions))
    gc.collect()
    print(len(system._runtime.directory), threading.active_count(), resident() - interpreter)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells memory by /proc")
@pytest.mark.parametrize("sessions", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_idle_sessions_take_few_threads_and_little_memory(tmp_path: Path, sessions: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IDLE, f"sqlite:///{tmp_path}/s.db", str(sessions)],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT,
    )
    live, threads, megabytes = map(float, done.stdout.split())

    assert live == sessions
    assert threads < 50
    assert megabytes < 100
