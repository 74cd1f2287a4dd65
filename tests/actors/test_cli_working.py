"""A worker, as a process of its own: it does what others leave to be done."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from typer.testing import CliRunner

from turnstream.actors import ActorSystem, Agent, tool
from turnstream.actors.cli import commands, travelling, working
from turnstream.actors.commands import Resolve
from turnstream.actors.recording import Known, read_on, record_decision
from turnstream.actors.testing import ScriptedModel, call
from turnstream.projections import SessionState
from turnstream.stores import EventStore, open_store

WAIT = 30
AGENTS = """
from turnstream import Agent, tool, UserMessage, ModelTurn
import time

@tool(needs_approval=True)
def remove(path: str) -> str:
    return f"removed {path}"

@tool
def linger() -> str:
    time.sleep(600)

def model(request):
    last = request.messages[-1]
    if isinstance(last, UserMessage) and last.content == "linger":
        from turnstream.events import ToolCall
        return ModelTurn(tool_calls=(ToolCall("c", "linger", {}),))
    return ModelTurn(f"worker: {last.content}")

agent = Agent("agent", model=model, tools=[remove, linger])

def make():
    return [agent]
"""
Worker: TypeAlias = "subprocess.Popen[str]"


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "my_agents.py").write_text(AGENTS)
    return f"sqlite:///{tmp_path}/s.db"


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    with closing(open_store(url)) as opened:
        yield opened


@pytest.fixture
def work(url: str, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(where: str = "my_agents:agent", *options: str) -> Worker:
        command = [sys.executable, "-P", "-m", "turnstream", "worker", where, "--store", url]
        worker = subprocess.Popen(
            [*command, *options],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(worker)
        assert worker.stdout is not None
        assert worker.stdout.readline() == "serving\n"
        return worker

    yield start
    for each in started:
        each.kill()
        each.communicate()


def wait_for(store: EventStore, session_id: str, is_so: Callable[[SessionState], bool]) -> Any:
    """The session's state once it is so: as its events come, other processes' too."""
    end = time.monotonic() + WAIT
    with store.subscribe() as log:
        for _ in log:
            state = read_on(store, session_id, Known()).state
            if is_so(state):
                return state
            assert time.monotonic() < end
    raise AssertionError("the log has ended")


def is_done(state: SessionState) -> bool:
    return state.turns > 0 and state.turn is None and not state.queued


def ended(worker: Worker) -> tuple[int, str]:
    out, _ = worker.communicate(timeout=WAIT)
    return worker.returncode, out


@pytest.mark.slow
def test_inputs_and_decisions_of_others_are_served(
    store: EventStore, url: str, work: Callable[..., Worker]
) -> None:
    @tool(needs_approval=True)
    def remove(path: str) -> str:
        return "elsewhere"

    model = ScriptedModel(["hi", [call("remove", path="x")]])
    with ActorSystem(Agent("agent", model=model, tools=[remove]), store=url) as system:
        system.session("s").send("hello").result(WAIT)
        system.session("s").send("remove").result(WAIT)
    worker = work("my_agents:make")

    arguments = ["fork", "s", "--step", "1", "--append", "and you?", "--name", "f", "--store", url]
    assert CliRunner().invoke(commands.app, arguments).exit_code == 0
    assert wait_for(store, "f", is_done).transcript.last.text == "worker: and you?"

    record_decision(store, Resolve("s/turn-2.1.1", "approved", "mia"), datetime.now(UTC))
    assert wait_for(store, "s", is_done).transcript.last.text == "worker: removed x"

    worker.send_signal(signal.SIGTERM)
    assert ended(worker) == (0, "stopped\n")


@pytest.mark.slow
def test_what_a_killed_worker_left_goes_on_at_the_next(
    store: EventStore, url: str, work: Callable[..., Worker]
) -> None:
    first = work()
    with ActorSystem(Agent("agent", model=ScriptedModel(["hi"])), store=url) as system:
        system.session("s").send("hello").result(WAIT)
    arguments = ["fork", "s", "--append", "linger", "--name", "f", "--store", url]
    assert CliRunner().invoke(commands.app, arguments).exit_code == 0
    begun = wait_for(store, "f", lambda state: bool(state.turn and state.turn.calls))
    first.kill()
    first.wait()
    second = work()
    wait_for(store, "f", lambda state: bool(state.turn and state.turn.owner != begun.turn.owner))
    second.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(1)  # the step has its ten seconds
    second.kill()


@pytest.mark.slow
def test_a_worker_that_has_to_interrupt_something_says_so(
    store: EventStore, url: str, work: Callable[..., Worker]
) -> None:
    worker = work("my_agents:agent", "--drain", "0")
    with ActorSystem(Agent("agent", model=ScriptedModel(["hi"])), store=url) as system:
        system.session("s").send("hello").result(WAIT)
    arguments = ["fork", "s", "--append", "linger", "--name", "f", "--store", url]
    assert CliRunner().invoke(commands.app, arguments).exit_code == 0
    wait_for(store, "f", lambda state: bool(state.turn and state.turn.calls))
    worker.send_signal(signal.SIGINT)
    status, out = ended(worker)
    assert status == 1 and "interrupted" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", ["nowhere_at_all:agent", "my_agents:missing", "my_agents", "json:dumps", ":", "a b"]
)
def test_what_is_no_agents_is_a_misuse(url: str, tmp_path: Path, where: str) -> None:
    command = [sys.executable, "-P", "-m", "turnstream", "worker", where, "--store", url]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=WAIT
    )
    assert done.returncode in (1, 2) and done.stdout == ""
    assert "Traceback" not in done.stderr


def test_the_commands_are_of_one_app() -> None:
    assert travelling.app is working.app is commands.app
