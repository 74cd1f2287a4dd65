"""The commands for a session's past, run for real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from turnstream.actors import ActorSystem, Agent, Patch, ToolResultPatch, tool
from turnstream.actors.cli import commands, deciding, travelling
from turnstream.actors.testing import ScriptedModel, call

WAIT = 20


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    return f"removed {path}"


def agent(*script: Any) -> Agent:
    return Agent("desk", model=ScriptedModel(list(script)), tools=[add, remove])


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with a session of three steps, which waits for a decision after the last."""
    address = f"sqlite:///{tmp_path}/sessions.db"
    monkeypatch.setenv("TURNSTREAM_STORE", address)
    script = [[call("add", a=1, b=2)], "three", [call("remove", path="/x")]]
    with ActorSystem(agent(*script), store=address) as system:
        session = system.session("s")
        session.send("1+2?").result(WAIT)
        session.send("remove x").result(WAIT)
    return address


def turnstream(*arguments: str, status: int = 0) -> Result:
    done = CliRunner().invoke(commands.app, arguments)
    assert done.exit_code == status, done.output
    return done


def lines(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in turnstream(*arguments, "--json").stdout.splitlines()]


def test_the_commands_are_of_one_app() -> None:
    assert commands.app is deciding.app is travelling.app


def test_history_lists_the_steps_the_newest_first(url: str) -> None:
    heading, *rows = turnstream("history", "s").stdout.splitlines()
    assert heading.split() == ["step", "version", "when", "status", "messages", "last"]
    shown = [row.split() for row in rows]
    assert [row[0] for row in shown] == ["3", "2", "1", "0"]
    assert [row[4] for row in shown] == ["awaiting-approval", "idle", "running", "running"]
    assert "remove(path=" in rows[0] and rows[1].rstrip().endswith("three")
    assert len(turnstream("history", "s", "--limit", "2").stdout.splitlines()) == 3


def test_history_tells_programs_what_was_said_and_what_waits(url: str) -> None:
    newest, *others = lines("history", "s")
    assert newest["approvals"] == ["s/turn-2.1.1"]
    assert [each["role"] for each in newest["messages"]][-2:] == ["user", "assistant"]
    assert [each["step"] for each in others] == [2, 1, 0]
    assert others[0]["messages"][-1] == {"role": "assistant", "text": "three"}


def test_a_fork_made_on_the_command_line_goes_on_where_its_agent_is(url: str) -> None:
    assert turnstream("fork", "s", "--append", "and 2+2?", "--by", "mia").stdout == "s.fork-1\n"
    (made,) = lines("fork", "s", "--step", "1", "--name", "other")
    (row,) = [each for each in lines("sessions") if each["session_id"] == "other"]
    assert made["forked_from"] == "s" and made["version"] == row["version"]
    with ActorSystem(agent("four", "3, then"), store=url) as system:
        for name, text in (("s.fork-1", "four"), ("other", "3, then")):
            turn = system.session(name).resume()
            assert turn is not None and turn.result(WAIT).text == text


def test_a_session_is_shown_as_it_was(url: str) -> None:
    assert "three" in turnstream("show", "s", "--step", "2").stdout
    then = turnstream("show", "s", "--step", "1").stdout
    assert "three" not in then and "unfinished: turn-1" in then
    (version,) = (each["version"] for each in lines("history", "s") if each["step"] == 2)
    assert lines("show", "s", "--version", str(version)) == lines("show", "s", "--step", "2")


def test_the_tree_of_forks_is_shown_from_its_root(url: str) -> None:
    turnstream("fork", "s", "--name", "a")
    turnstream("fork", "a", "--name", "b", "--version", "3")
    shown = turnstream("lineage", "b").stdout
    assert [line.split()[-4] for line in shown.splitlines()[1:]] == ["a", "b"]
    (tree,) = lines("lineage", "a")
    assert tree["session_id"] == "s" and tree["forks"][0]["forks"][0]["version"] == 3


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("history", "nobody"), "session-not-found"),
        (("fork", "nobody"), "session-not-found"),
        (("lineage", "nobody"), "session-not-found"),
        (("fork", "s", "--step", "9"), "steps 0 to 3, not 9"),
        (("fork", "s", "--version", "999"), "checkpoint-not-found"),
        (("show", "s", "--step", "9"), "checkpoint-not-found"),
        (("fork", "s", "--name", "s"), "session-exists"),
        (("fork", "s", "--name", "a\nb"), "invalid-session-id"),
        (("fork", "s", "--step", "1", "--version", "1"), "not both"),
        (("show", "s", "--step", "1", "--version", "1"), "not both"),
        (("fork", "s", "--step", "x"), "Invalid value"),
    ],
)
def test_what_is_not_there_is_a_misuse_that_is_named(
    url: str, arguments: tuple[str, ...], names: str
) -> None:
    done = turnstream(*arguments, status=2)
    assert names in done.stderr
    assert done.stdout == ""
    assert [each["session_id"] for each in lines("sessions")] == ["s"]


def test_what_a_fork_changed_is_listed_among_its_events(url: str) -> None:
    with ActorSystem(agent(), store=url) as system:
        patch = Patch(
            messages=lambda said: said,
            state={"secret": 1},
            tool_result=ToolResultPatch("call-1-1", "\x1b[2J"),
            by="mia",
        )
        fork = system.session("s").fork(step=2, patch=patch)
    begun, patched = turnstream("events", fork.id, "--after", "9").stdout.splitlines()
    assert begun.endswith("agent desk, forked from s at version 9")
    assert patched.endswith("changed: messages, state, result of call-1-1, by mia")
