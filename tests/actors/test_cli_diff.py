"""``turnstream diff``: two sessions side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnstream.actors import ActorSystem, Agent, tool
from turnstream.actors.cli import differing  # noqa: F401 - adds its command
from turnstream.actors.cli.commands import app
from turnstream.actors.testing import ScriptedModel, call
from turnstream.stores import open_store

WAIT = 20


@tool
def find(what: str, token: str = "") -> str:
    """Find."""
    return f"found {what}"


SCRIPTS: dict[str, list[Any]] = {
    "one": [[call("find", what="a", token="s")], "Done.", "Bye."],
    "twin": [[call("find", what="a", token="s")], "Done.", "Bye."],
    "token": [[call("find", what="a", token="t")], "Done.", "Bye."],
    "text": [[call("find", what="a", token="s")], "Done!", "Bye."],
    "o@d": ["\x1b[31mNo.", "Bye."],
}


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TURNSTREAM_STORE", f"sqlite:///{tmp_path}/s.db")
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    for name, script in SCRIPTS.items():
        agent = Agent("agent", model=ScriptedModel(script), tools=[find])
        with ActorSystem(agent, store=store) as system:
            system.session(name).send("go").result(WAIT)
            system.session(name).send("thanks").result(WAIT)
    yield
    store.close()


def diff(*arguments: str) -> Any:
    return CliRunner().invoke(app, ("diff", *arguments))


def as_json(*arguments: str) -> Any:
    return json.loads(diff(*arguments, "--json").stdout)


def test_equal_sessions_are_said_to_be_equal() -> None:
    done = diff("one", "twin")
    assert (done.exit_code, done.stdout) == (0, "no difference in 3 steps\n")
    assert diff("one", "one").stdout.startswith("the first 13 events are the same")


def test_different_ones_are_shown_side_by_side() -> None:
    done = diff("one", "token")
    assert done.exit_code == 1
    first, drift, *table = done.stdout.splitlines()
    assert first == "they part at step 0"
    assert drift == '  step 0: find.token "s" | "t"'
    (row,) = [line for line in table if "find(" in line]
    assert row.index('token="s"') < row.index('token="t"')
    assert "found a" in done.stdout and max(map(len, table)) <= 160


def test_only_the_steps_from_the_first_difference_are_shown() -> None:
    done = diff("one", "text")
    assert "they part at step 1" in done.stdout
    assert "find(" not in done.stdout and "Done!" in done.stdout and "Bye." in done.stdout


def test_arguments_and_texts_can_be_ignored() -> None:
    assert diff("one", "token", "--ignore", "find.token").exit_code == 0
    assert diff("one", "token", "--ignore", "find.what").exit_code == 1
    assert diff("one", "text", "--ignore-text").exit_code == 0
    assert diff("one", "text", "--ignore", "token").exit_code == 2


def test_a_session_can_be_taken_as_of_a_version_or_a_step() -> None:
    assert as_json("one@step:1", "one")["diverged_at"] == 1
    assert as_json("one@step:2", "one")["diverged_at"] == 2
    assert diff("one@step:2", "twin@step:2").exit_code == 0
    assert diff("one@13", "one").exit_code == 0
    assert as_json("one@5", "one")["shared"] == 5
    for wrong in ("one@14", "one@0", "one@step:4", "one@step:x", "nobody", "nobody@3"):
        assert diff(wrong, "one").exit_code == 2, wrong


def test_an_id_may_have_an_at_sign_of_its_own() -> None:
    assert as_json("o@d", "o@d")["equal"]
    assert as_json("o@d@step:1", "o@d")["diverged_at"] == 1


def test_json_tells_all_of_it() -> None:
    found = as_json("one", "token")
    assert (found["equal"], found["diverged_at"], found["shared"]) == (False, 0, 0)
    assert found["drift"] == [
        {
            "type": "argument",
            "step": 0,
            "call": 0,
            "tool": "find",
            "argument": "token",
            "a": "s",
            "b": "t",
        }
    ]
    assert [each["text"] for each in found["a"]] == ["", "Done.", "Bye."]
    assert found["a"][0]["calls"][0]["result"] == "found a"


def test_nothing_stored_drives_the_terminal() -> None:
    done = diff("one", "o@d")
    assert done.exit_code == 1
    assert "\\x1b[31mNo." in done.stdout and "\x1b" not in done.stdout
