"""Hooks that look on, where a process is lost as a turn ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, Hooks
from turnstream.actors.testing import ScriptedModel
from turnstream.stores import open_store

WAIT = 60

ENDING = """
import os, sys
from turnstream.actors import ActorSystem, Agent, Hooks
from turnstream.actors.testing import ScriptedModel
from turnstream.stores import SQLiteStore

path, side, log = sys.argv[1:]

class Resting(Hooks):
    def on_rest(self, stretch, rest):
        with open(log, "a") as told:
            told.write(rest.reason + "\\n")

class Dying(SQLiteStore):
    def submit(self, append, done):
        if not any(each.topic == "turn_finished" for each in append.events):
            super().submit(append, done)
        elif side == "before":
            os._exit(7)
        else:
            super().submit(append, lambda outcome: os._exit(7))

agent = Agent("agent", model=ScriptedModel(["done"]), hooks=[Resting()])
ActorSystem(agent, store=Dying(path)).session("s").send("go", run_id="r").result(60)
"""


class Resting(Hooks):
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def on_rest(self, stretch: Any, rest: Any) -> None:
        self.reasons.append(rest.reason)


@pytest.mark.parametrize(("side", "left"), [("before", ["finished"]), ("after", [])])
def test_a_turn_is_told_to_rest_by_whoever_ends_it_and_never_for_its_result_alone(
    tmp_path: Path, side: str, left: list[str]
) -> None:
    path, log = tmp_path / "s.db", tmp_path / "log"
    child = subprocess.run(
        [sys.executable, "-c", ENDING, str(path), side, str(log)], timeout=WAIT, check=False
    )
    assert child.returncode == 7 and not log.exists(), "nothing is told before it is durable"

    hook = Resting()
    agent = Agent("agent", model=ScriptedModel(["done"]), hooks=[hook])
    with ActorSystem(agent, store=open_store(f"sqlite:///{path}")) as system:
        session = system.session("s")
        if (turn := session.resume()) is not None:
            turn.result(WAIT)
        results = [session.send("go", run_id="r").result(WAIT) for _ in range(3)]
    assert {each.text for each in results} == {"done"} and len(session.messages) == 2
    assert hook.reasons == left
