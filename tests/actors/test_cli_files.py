"""The command line on a store in files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from turnstream.actors import ActorSystem, Agent
from turnstream.actors.testing import ScriptedModel


def turnstream(*arguments: str, store: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "turnstream", *arguments, "--store", store]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def test_looking_makes_no_store(tmp_path: Path) -> None:
    done = turnstream("sessions", store=f"jsonl:///{tmp_path}/streams")
    assert done.returncode == 2 and "there is no store" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_verify_names_a_damaged_file_and_the_rest_stays_readable(tmp_path: Path) -> None:
    store = f"jsonl:///{tmp_path}/streams"
    agent = Agent("planner", model=ScriptedModel(["Oslo.", "Bergen."]))
    with ActorSystem(agent, store=store) as system:
        for session_id in ("a", "B"):
            system.session(session_id).send("where to?").result(20)
    assert turnstream("verify", store=store).returncode == 0

    file = tmp_path / "streams" / "sessions" / "a.jsonl"
    file.write_bytes(file.read_bytes().replace(b"where to?", b"where not"))
    done = turnstream("verify", "--json", store=store)
    assert done.returncode == 1
    assert str(file) in done.stdout and '"session_id":"a"' in done.stdout.replace(": ", ":")
    shown = turnstream("show", "B", "--json", store=store)
    assert shown.returncode == 0 and "Bergen." in shown.stdout
    refused = turnstream("events", "a", store=store)
    assert refused.returncode == 1 and str(file) in refused.stderr
