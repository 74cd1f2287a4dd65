"""A node among several on one store: sends, steers and decides at random until it is told to
stop. What it did is in the files beside the store, whatever becomes of the process.

``python node_child.py STORE DIRECTORY NAME SESSIONS LEASE``
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import deque
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

from turnstream.actors import ActorSystem, Agent, ModelRequest, Turn, tool
from turnstream.actors.testing import call
from turnstream.events import ModelTurn, TurnstreamError, UserMessage

POLICIES: Any = ("wait", "queue", "steer")
stopping = Event()
node = ""


def note(directory: Path, file: str, line: str) -> None:
    """Add a line in one write, which outlives this process."""
    descriptor = os.open(directory / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def make_agent(directory: Path) -> Agent:
    """Tools that leave a trace of each run, and a model that says where it was asked."""

    @tool(name="act")
    def act(number: int) -> str:
        note(directory, "effects", f"{number}")
        time.sleep(random.uniform(0, 0.05))
        return node

    @tool(name="guarded", needs_approval=True)
    def guarded(number: int) -> str:
        note(directory, "effects", f"{number}")
        return node

    def model(request: ModelRequest) -> ModelTurn:
        note(directory, "asked", f"{request.session_id} {request.turn_id} {request.step}")
        time.sleep(random.uniform(0, 0.03))
        if isinstance(request.messages[-1], UserMessage):
            number = random.getrandbits(60)
            name = "guarded" if number % 7 == 0 else "act"
            return ModelTurn(node, (call(name, number=number),))
        return ModelTurn(node)

    return Agent("agent", model=model, tools=[act, guarded])


def main() -> None:
    """Run the node."""
    global node
    store, directory, name, sessions, lease = sys.argv[1:]
    place, waiting = Path(directory), deque[Turn]()
    with ActorSystem(
        make_agent(place), store=store, on_failure="keep", lease=float(lease)
    ) as system:
        node = system._runtime.owner.node
        print("ready", flush=True)
        for number in range(10**9):
            if stopping.is_set():
                break
            act_at_random(system, place, f"{name}-{number}", int(sessions), waiting)


def act_at_random(
    system: ActorSystem, directory: Path, text: str, sessions: int, waiting: deque[Turn]
) -> None:
    """Send something somewhere, or decide on something."""
    try:
        if random.random() < 0.15:
            for approval in random.sample(system.approvals(), k=min(1, len(system.approvals()))):
                decide = random.choice((system.approve, system.reject))
                decide(approval.id, by=text).accepted().result(10)
            return
        session = system.session(f"s{random.randrange(sessions)}")
        turn = session.send(text, policy=random.choice(POLICIES))
        turn.accepted().result(10)
        note(directory, "accepted", text)
        waiting.append(turn)
        if len(waiting) > 8:
            waiting.popleft().result(0.2)
    except (TurnstreamError, TimeoutError):
        pass


def stop(number: int, frame: FrameType | None) -> None:
    """Be done soon."""
    stopping.set()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    main()
