"""Decisions from the command line: recorded there, carried out where the agent is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnstream.actors import ActorSystem, Agent, tool
from turnstream.actors.cli import deciding
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import ApprovalResolved, ModelTurnRecorded, ToolCallStarted

WAIT = 20
HOSTILE = "\x1b[2J \u202egnp"
A, B = "s/1/turn-1.1.1", "s/1/turn-1.1.2"
ran: list[str] = []


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    ran.append(path)
    return f"removed {path}"


@pytest.fixture(autouse=True)
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    ran.clear()
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/s.db"
    monkeypatch.setenv("TURNSTREAM_STORE", address)
    return address


def agent(*script: Any) -> Agent:
    return Agent("agent", model=ScriptedModel(script), tools=[remove])


@pytest.fixture
def asked(url: str) -> Iterator[ActorSystem]:
    """A system whose session waits for two decisions."""
    calls = [call("remove", path="a"), call("remove", path=HOSTILE)]
    with ActorSystem(agent(calls, "done"), store=url) as system:
        system.session("s/1").send("go").result(WAIT)
        yield system


def turnstream(*arguments: str) -> Any:
    return CliRunner().invoke(deciding.app, arguments)


def test_what_waits_for_a_decision_is_listed_for_people_and_for_programs(
    asked: ActorSystem,
) -> None:
    listed = turnstream("approvals")
    assert listed.exit_code == 0
    assert A in listed.stdout and B in listed.stdout and "remove" in listed.stdout
    assert "\x1b" not in listed.stdout and "\u202e" not in listed.stdout

    first, second = map(json.loads, turnstream("approvals", "--json").stdout.splitlines())
    assert (first["id"], first["tool"], first["arguments"]) == (A, "remove", {"path": "a"})
    assert (second["session_id"], second["arguments"]["path"]) == ("s/1", HOSTILE)
    assert turnstream("approvals", "--agent", "nobody", "--json").stdout == ""


def test_a_decision_is_recorded_and_nothing_runs_before_the_session_is_resumed(
    asked: ActorSystem,
) -> None:
    assert turnstream("approve", A, "--by", "ann", "--note", "fine").exit_code == 0
    assert turnstream("reject", B, "--note", "no").exit_code == 0

    events = [each.event for each in asked.session("s/1").events()]
    decided = [each for each in events if isinstance(each, ApprovalResolved)]
    assert [(e.decision, e.by, e.note) for e in decided] == [
        ("approved", "ann", "fine"),
        ("rejected", "", "no"),
    ]
    assert ran == [] and not [each for each in events if isinstance(each, ToolCallStarted)]
    assert turnstream("approvals", "--json").stdout == ""

    (turn,) = asked.resume_all()
    assert turn.result(WAIT).text == "done" and ran == ["a"]


def test_edited_arguments_are_what_runs_and_what_was_proposed_stays(asked: ActorSystem) -> None:
    assert turnstream("approve", A, "--arguments", '{"path": "b"}').exit_code == 0
    assert turnstream("reject", B).exit_code == 0
    (turn,) = asked.resume_all()

    assert turn.result(WAIT).tool_calls[0].arguments == {"path": "b"} and ran == ["b"]
    events = [each.event for each in asked.session("s/1").events()]
    proposed = next(each for each in events if isinstance(each, ModelTurnRecorded))
    assert proposed.tool_calls[0].arguments == {"path": "a"}


def test_edited_arguments_that_do_not_fit_are_an_error_result(asked: ActorSystem) -> None:
    turnstream("approve", A, "--arguments", '{"paths": 1}')
    turnstream("reject", B)
    (turn,) = asked.resume_all()

    outcomes = [each.outcome for each in turn.result(WAIT).messages if hasattr(each, "outcome")]
    assert outcomes == ["error", "rejected"] and ran == []


def test_a_decision_is_taken_once(asked: ActorSystem) -> None:
    turnstream("reject", A, "--by", "ann")
    again = turnstream("approve", A)

    assert again.exit_code == 1 and "rejected by 'ann'" in again.stderr
    assert "[approval-decided]" in again.stderr
    events = [each.event for each in asked.session("s/1").events()]
    assert len([each for each in events if isinstance(each, ApprovalResolved)]) == 1


@pytest.mark.parametrize("unknown", ["nobody/turn-1.1.1", "s/1/turn-9.1.1", "nothing", ""])
def test_an_approval_that_is_not_there_is_misuse(asked: ActorSystem, unknown: str) -> None:
    for command in ("approve", "reject"):
        refused = turnstream(command, unknown)
        assert refused.exit_code == 2 and "approval-not-found" in refused.stderr


def test_arguments_that_are_no_object_are_misuse(asked: ActorSystem) -> None:
    for text in ("[1]", "{", "1", '"a"'):
        refused = turnstream("approve", A, "--arguments", text)
        assert refused.exit_code == 2 and "no JSON object" in refused.stderr
    assert len(asked.approvals()) == 2


def test_looking_for_approvals_makes_no_store(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/none.db"
    assert turnstream("approvals", "--store", address).exit_code == 2
    assert turnstream("approve", A, "--store", address).exit_code == 2
    assert not (tmp_path / "none.db").exists()
