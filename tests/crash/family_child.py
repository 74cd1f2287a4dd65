"""A boss, its worker and that one's helper, in processes that are killed at an append.

A line of stdin, ``STORE DIRECTORY APPEND WHEN WHAT``, is a process. It dies by SIGKILL just
``before`` or ``after`` that append, counted from 1 over all sessions; 0 is never. ``WHAT`` is
``begin`` or ``go-on``, which resumes and approves until nothing is left to do. What models and
tools did is in the files beside the store, whatever becomes of the process.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from turnstream.actors import ActorSystem, Agent, ModelRequest, ToolContext, tool
from turnstream.actors.testing import call
from turnstream.events import ModelTurn, StoreError, ToolMessage, TurnstreamError, Usage
from turnstream.stores import Append, Appended, EventStore, open_store

WAIT = 30
SESSION = "s"


def note(directory: Path, file: str, line: str) -> None:
    """Add a line in one write, which outlives this process."""
    descriptor = os.open(directory / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def family(directory: Path) -> Agent:
    """The boss looks and asks the worker, which asks the helper, which removes when it may."""

    @tool(name="look")
    def look(context: ToolContext, path: str) -> str:
        note(directory, "ran", f"look {context.idempotency_key}")
        return f"saw {path}"

    @tool(name="remove", needs_approval=True)
    def remove(context: ToolContext, path: str) -> str:
        note(directory, "ran", f"remove {context.idempotency_key}")
        return f"removed {path}"

    def model(name: str, *calls: Any) -> Callable[[ModelRequest], ModelTurn]:
        def answer(request: ModelRequest) -> ModelTurn:
            note(directory, "asked", f"{name} {request.session_id} {request.step}")
            results = [str(e.content) for e in request.messages if isinstance(e, ToolMessage)]
            if results:
                return ModelTurn(f"{name}: {'; '.join(results)}", usage=Usage(10, 1))
            return ModelTurn(tool_calls=calls, usage=Usage(10, 1))

        return answer

    to_helper = (call("look", "h1", path="h"), call("remove", "h2", path="x"))
    helper = Agent("helper", model=model("helper", *to_helper), tools=[look, remove])
    to_worker = (call("helper", "w1", input="help"), call("look", "w2", path="w"))
    worker = Agent("worker", model=model("worker", *to_worker), tools=[look, helper.as_tool()])
    to_boss = (call("worker", "b1", input="work"), call("look", "b2", path="b"))
    return Agent("boss", model=model("boss", *to_boss), tools=[look, worker.as_tool()])


def dying(store: EventStore, at: int, when: str) -> EventStore:
    """The store, which kills the process at that append."""
    submit, numbers = store.submit, count(1)

    def submit_or_die(append: Append, done: Callable[[Appended | StoreError], object]) -> None:
        fatal = next(numbers) == at
        if fatal and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)

        def done_or_die(outcome: Appended | StoreError) -> None:
            if fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            done(outcome)

        submit(append, done_or_die)

    store.submit = submit_or_die  # type: ignore[method-assign]
    return store


def go_on(system: ActorSystem) -> None:
    """Resume and approve until nothing is left to do."""
    while any(row.status != "idle" for row in system.sessions()):
        turns = [*system.resume_all(), *(system.approve(e.id) for e in system.approvals())]
        for turn in turns:
            with suppress(TurnstreamError):  # it was paused or decided on meanwhile
                turn.result(WAIT)


def run(address: str, directory: str, at: str, when: str, what: str) -> None:
    """Be the process that is killed."""
    store = dying(open_store(address), int(at), when)
    with ActorSystem(family(Path(directory)), store=store, on_failure="keep") as system:
        if what == "begin":
            system.session(SESSION).send("go", key="k").result(WAIT)
        go_on(system)
    store.close()


def main() -> None:
    """Run a fork of this process, which has opened nothing yet, for each line of stdin, and say
    what it ended with."""
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            try:
                run(*line.split())
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
