"""The processes that are killed.

    python child.py          a process for each plan that is read from stdin, a fork of this one
    python child.py PLAN     one process, this one

A fork takes a few milliseconds and begins where a fresh interpreter is when everything is
imported: this process opens no store and starts no thread.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, cast

import msgspec
from plan import (
    SESSION,
    Accepted,
    Asked,
    AtAppend,
    AtMoment,
    Failed,
    Finished,
    InModel,
    InTool,
    KillPoint,
    Log,
    Plan,
    Ran,
    Shown,
    Talks,
    die,
    digest,
)
from talks import hold_all, recorded_agents

from turnstream.actors import (
    ActorSystem,
    Agent,
    Delta,
    ModelRequest,
    TextDelta,
    Tool,
    ToolContext,
    Turn,
    tool,
)
from turnstream.events import (
    AssistantMessage,
    ModelTurn,
    StoreError,
    ToolResultRecorded,
    TurnstreamError,
)
from turnstream.projections import check_transcript
from turnstream.stores import Append, Appended, EventStore, open_store

SECONDS = 25.0


class MortalStore:
    """A store whose process is killed at an append."""

    def __init__(self, address: str, kill: KillPoint | None) -> None:
        self._kept = open_store(address)
        self._kill = kill if isinstance(kill, AtAppend) else None
        self._count = count(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        side = self._fatal_side(append)
        if side == "before":
            die()

        def told(outcome: Appended | StoreError) -> None:
            if side == "after" and isinstance(outcome, Appended):
                die()
            done(outcome)

        self._kept.submit(append, told)

    def _fatal_side(self, append: Append) -> str:
        kill = self._kill
        if kill is None or not self._counts(append, kill.topic):
            return ""
        return kill.side if next(self._count) == kill.nth else ""

    def _counts(self, append: Append, topic: str) -> bool:
        return not topic or any(each.topic == topic for each in append.events)


def mortal(address: str, kill: KillPoint | None) -> EventStore:
    """The store at an address, as a process sees it that is killed there."""
    return cast("EventStore", MortalStore(address, kill))


class PlannedModel:
    """Answers by the script: the n-th answer where the conversation has n - 1 of them. Whoever
    asks with a conversation that no provider would accept gets an error."""

    id = "planned"

    def __init__(self, plan: Plan, log: Log) -> None:
        self._plan, self._log = plan, log
        self._asked = count(1)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelTurn]:
        messages, life = request.messages, self._plan.life
        self._log.write(
            Asked(life, request.session_id, request.turn_id, request.step, digest(messages))
        )
        check_transcript(messages)
        place = sum(isinstance(each, AssistantMessage) for each in messages)
        answer, dies = self._plan.script[place], InModel(next(self._asked)) == self._plan.kill
        half = len(answer.text) // 2
        yield TextDelta(answer.text[:half])
        if dies:
            die()
        yield TextDelta(answer.text[half:])
        yield answer


class Gates:
    """Lets calls end in the order of the plan, each when the result before it is durable."""

    def __init__(self, plan: Plan) -> None:
        self._before = dict(zip(plan.order[1:], plan.order, strict=False))
        self._recorded: defaultdict[object, threading.Event] = defaultdict(threading.Event)

    def wait(self, text: str) -> None:
        if text in self._before:
            self._recorded[self._before[text]].wait()

    def follow(self, system: ActorSystem) -> None:
        """Learn of each result as it becomes durable, those of earlier processes first."""
        with system.subscribe() as records:
            for record in records:
                if isinstance(record.event, ToolResultRecorded):
                    self._recorded[record.event.content].set()


def tools(plan: Plan, log: Log, gates: Gates) -> list[Tool]:
    """A sync and an async tool."""

    def begin(context: ToolContext, text: str) -> None:
        key = (context.session_id, context.turn_id, context.call_id, context.attempt)
        log.write(Ran(plan.life, *key, context.idempotency_key, text))
        if plan.kill == InTool(text):
            die()

    @tool
    def work(context: ToolContext, text: str) -> str:
        begin(context, text)
        if text in plan.holds:
            threading.Event().wait()
        gates.wait(text)
        return text

    @tool
    async def fetch(context: ToolContext, text: str) -> str:
        begin(context, text)
        if text in plan.holds:
            await asyncio.Event().wait()
        await asyncio.to_thread(gates.wait, text)
        return text

    return [each for each in (work, fetch) if each.name in plan.tools]


def live(plan: Plan) -> None:
    """Resume, send, and wait until everything is done."""
    log, gates = Log(Path(plan.folder, "log")), Gates(plan)
    agent = Agent(
        "agent",
        model=PlannedModel(plan, log),
        tools=tools(plan, log, gates),
        max_steps=plan.max_steps,
        token_budget=plan.token_budget,
    )
    with (
        closing(mortal(plan.store, plan.kill)) as store,
        ActorSystem(agent, store=store) as system,
    ):
        threading.Thread(target=gates.follow, args=(system,), daemon=True).start()
        session = system.session(SESSION)
        while plan.resumes and (resumed := session.resume()) is not None:
            watch(resumed, plan, log)
        turns = []
        for text in plan.inputs:
            turns.append(session.send(text, run_id=text if plan.named else None))
            if not plan.at_once:
                watch(turns[-1], plan, log)
        if plan.at_once:
            for turn in turns:
                watch(turn, plan, log)


def watch(turn: Turn, plan: Plan, log: Log) -> None:
    """Note what the sender is told."""
    life = plan.life
    try:
        log.write(Accepted(life, turn.accepted().result(SECONDS)))
        for item in turn.stream():
            if version := getattr(item, "version", 0):
                log.write(Shown(life, version))
        ended = turn.result(SECONDS)
    except TurnstreamError as error:
        log.write(Failed(life, error.code, str(error)))
    else:
        told = digest(ended.messages)
        log.write(
            Finished(life, ended.turn_id, ended.finish_reason, told, ended.steps, ended.usage)
        )


def live_talks(plan: Talks) -> None:
    """Hold every conversation to its end."""
    log = Log(Path(plan.folder, "log"))
    with (
        closing(mortal(plan.store, plan.kill)) as store,
        ActorSystem(recorded_agents(plan, log), store=store) as system,
    ):
        asyncio.run(hold_all(system, plan))


def run(plan: Plan | Talks) -> None:
    """Live, or say where it hangs."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    if isinstance(plan.kill, AtMoment):
        clock = threading.Timer(plan.kill.seconds, die)
        clock.daemon = True
        clock.start()
    if isinstance(plan, Plan):
        live(plan)
    else:
        live_talks(plan)


def forked(plan: Plan | Talks) -> int:
    """Run in a fork, and return how it ended (see ``os.waitpid``)."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        run(plan)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    decode = msgspec.json.Decoder(Plan | Talks).decode
    if sys.argv[1:]:
        run(decode(sys.argv[1]))
        return
    for line in sys.stdin:
        print(forked(decode(line)), flush=True)


if __name__ == "__main__":
    main()
