"""One input, sent under one key or run id by many callers in several processes at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any, TypeAlias

import pytest
from places import on_durable_stores

from turnstream.events import (
    CODEC,
    InputQueued,
    ModelTurnRecorded,
    ToolCallStarted,
    ToolResultRecorded,
    TurnFinished,
    TurnStarted,
)
from turnstream.stores import open_store

pytestmark = on_durable_stores

Child: TypeAlias = "subprocess.Popen[str]"
PROCESSES, CALLERS = 4, 5

SENDING = f"""
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from turnstream.actors import ActorSystem, Agent, tool
from turnstream.actors.testing import call
from turnstream.events import ModelTurn, ToolMessage

address, directory, named = sys.argv[1], Path(sys.argv[2]), sys.argv[3]

def note(what):
    with open(directory / what, "a") as log:
        log.write(".")

@tool
def work():
    note("ran")
    print("running", flush=True)
    return (directory / "gate").read_text()

def model(request):
    note("asked")
    done = isinstance(request.messages[-1], ToolMessage)
    return ModelTurn("done") if done else ModelTurn(tool_calls=(call("work", "c"),))

with ActorSystem(Agent("agent", model=model, tools=[work]), store=address) as system:
    print("ready", flush=True)
    input()

    def send(_):
        return system.session("s").send("go", **{{named: "k"}}).result(60)

    with ThreadPoolExecutor({CALLERS}) as callers:
        results = list(callers.map(send, range({CALLERS})))
    told = [[each.turn_id, each.text, each.steps, len(each.messages)] for each in results]
    print(json.dumps(told), flush=True)
"""


@pytest.fixture(params=["key", "run_id"])
def children(tmp_path: Path, address: str, request: pytest.FixtureRequest) -> Iterator[list[Child]]:
    os.mkfifo(tmp_path / "gate")
    command = [sys.executable, "-c", SENDING, address, str(tmp_path), request.param]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    started = [subprocess.Popen(command, **pipes) for _ in range(PROCESSES)]
    try:
        for each in started:
            assert heard(each) == "ready"
        yield started
    finally:
        for each in started:
            each.kill()
            each.communicate()


def heard(child: Child) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def send_from_all(children: list[Child]) -> None:
    for each in children:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()


def first_to_run(children: list[Child]) -> Child:
    with DefaultSelector() as selector:
        for each in children:
            assert each.stdout is not None
            selector.register(each.stdout, EVENT_READ, each)
        (key, _), *_ = selector.select(60)
    child: Child = key.data
    assert heard(child) == "running"
    return child


def recorded(address: str) -> list[Any]:
    with closing(open_store(address)) as store:
        return [CODEC.decode(each.topic, each.payload) for each in store.read("s")]


def check_one_turn(address: str, told: list[str]) -> None:
    """Everybody was told of the one turn that there was."""
    assert [json.loads(each) for each in told] == [[["turn-1", "done", 2, 4]] * CALLERS] * len(told)
    kinds = [type(each) for each in recorded(address)]
    once = (InputQueued, TurnStarted, ToolResultRecorded, TurnFinished)
    assert [kinds.count(each) for each in once] == [1] * len(once)
    assert kinds.count(ModelTurnRecorded) == 2


def test_it_is_accepted_answered_and_worked_on_once(
    tmp_path: Path, address: str, children: list[Child]
) -> None:
    send_from_all(children)
    first_to_run(children)
    (tmp_path / "gate").write_text("worked")
    told = [heard(each) for each in children]

    check_one_turn(address, told)
    assert (tmp_path / "ran").read_text() == "." and (tmp_path / "asked").read_text() == ".."


def test_those_who_wait_have_its_result_although_the_process_that_worked_on_it_is_killed(
    tmp_path: Path, address: str, children: list[Child]
) -> None:
    send_from_all(children)
    owner = first_to_run(children)
    owner.kill()
    owner.wait(60)
    rest = [each for each in children if each is not owner]
    heir = first_to_run(rest)
    (tmp_path / "gate").write_text("worked")
    told = [heard(each) for each in rest]

    check_one_turn(address, told)
    attempts = [each.attempt for each in recorded(address) if isinstance(each, ToolCallStarted)]
    assert attempts == [1, 2] and heir is not owner
    assert (tmp_path / "ran").read_text() == ".." and (tmp_path / "asked").read_text() == ".."
