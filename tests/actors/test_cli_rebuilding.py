"""``turnstream rebuild`` and ``turnstream usage``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tallies import fill
from typer.testing import CliRunner

from turnstream.actors import ActorSystem, Agent, Projector
from turnstream.actors.cli import rebuilding
from turnstream.actors.testing import call
from turnstream.events import ModelCallDiscarded, ModelTurn, RecordedEvent, Usage
from turnstream.events.codec import CODEC
from turnstream.projections import UsageByDay
from turnstream.stores import Append, EventStore, RowChange, open_store
from turnstream.stores.specimens import NOON, event

WAIT = 20
LATER = datetime(2100, 1, 1, tzinfo=UTC)
HOSTILE = "\x1b[2J \u202egnp"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/s.db"
    monkeypatch.setenv("TURNSTREAM_STORE", address)
    return address


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    with closing(open_store(url)) as opened:
        yield opened


def turnstream(*arguments: str) -> Any:
    return CliRunner().invoke(rebuilding.app, arguments)


def told(*arguments: str) -> list[Any]:
    done = turnstream(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def converse(store: EventStore) -> int:
    """A turn with two calls; the position of its last event."""

    def model(request: Any) -> ModelTurn:
        if len(request.messages) > 1:
            return ModelTurn("done", usage=Usage(30, 3, 20, 1))
        calls = (call("nothing"), call(HOSTILE))
        return ModelTurn(tool_calls=calls, usage=Usage(1200, 5))

    with ActorSystem(Agent("a", model=model), store=store) as system:
        system.session("s").send("go").result(WAIT)
        wasted = ModelCallDiscarded(
            at=LATER, turn_id="t", step=1, reason="steered", usage=Usage(7, 1)
        )
    version = len(store.read("s"))
    change = RowChange("idle", "a", NOON)
    return store.append(Append("s", version, (CODEC.encode(wasted),), change)).position


def test_what_was_used_is_listed_for_people_and_for_programs(store: EventStore) -> None:
    converse(store)
    listed = turnstream("usage")
    assert listed.exit_code == 0
    assert "1,230" in listed.stdout and "(discarded)" in listed.stdout
    assert "\x1b" not in listed.stdout and "\u202e" not in listed.stdout
    assert "\\x1b[2J" in listed.stdout

    model, discarded, *tools = told("usage")
    tokens = {"cached_input_tokens": 20, "reasoning_tokens": 1}
    today = model["day"]
    assert model == {
        "kind": "model", "day": today, "model": "model", "calls": 2,
        "input_tokens": 1230, "output_tokens": 8, **tokens,
    }  # fmt: skip
    assert (discarded["kind"], discarded["day"]) == ("discarded", "2100-01-01")
    assert (discarded["calls"], discarded["input_tokens"]) == (1, 7)
    assert [(each["tool"], each["calls"], each["error"]) for each in tools] == [
        (HOSTILE, 1, 1),
        ("nothing", 1, 1),
    ]


def test_usage_is_that_of_now(store: EventStore) -> None:
    assert told("usage") == []
    converse(store)
    assert len(told("usage")) == 4
    assert turnstream("usage").exit_code == 0


def test_a_rebuild_tells_what_it_did(store: EventStore) -> None:
    end = converse(store)
    fill(store, 5, sessions=5)
    row = store.session("s")
    assert row is not None
    right = {"name": "rows", "sessions": 6, "events": end + 5, "unreadable": 0}
    assert told("rebuild", "rows") == [{**right, "differed": 1}]
    assert store.restore(replace(row, status="failed", head=""))
    rows, usage = told("rebuild")
    assert rows == {**right, "differed": 1}
    assert usage == {"name": "usage", "position": end + 5}
    done = turnstream("rebuild")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "differed 0" in done.stdout and f"usage: position {end + 5}" in done.stdout
    assert told("rebuild", "usage", "rows") == [usage, {**right, "differed": 0}]


def test_a_stream_that_cannot_be_read_is_something_wrong(store: EventStore) -> None:
    change = RowChange("idle", "a", NOON)
    store.append(Append("broken", 0, (event("{", "turn_started"),), change))
    done = turnstream("rebuild", "rows")
    assert done.exit_code == 1
    assert "unreadable 1" in done.stdout
    assert done.stderr.startswith("error: session 'broken', version 1: ")
    assert done.stderr.endswith("[corrupt-event]\n")
    for command in (("rebuild", "usage"), ("usage",)):
        done = turnstream(*command)
        assert done.exit_code == 1 and "[corrupt-event]" in done.stderr


def test_what_is_not_built_in_is_a_misuse(store: EventStore) -> None:
    done = turnstream("rebuild", "rows", "nonsense")
    assert done.exit_code == 2 and "rows, usage" in done.stderr
    assert store.read_models.find("nonsense") is None


@pytest.mark.parametrize("command", ["rebuild", "usage"])
def test_neither_makes_a_store(url: str, command: str) -> None:
    done = turnstream(command)
    assert done.exit_code == 2 and "[not-a-store]" in done.stderr
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("command", ["rebuild", "usage"])
def test_what_is_interrupted_says_that_it_goes_on(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    fill(store, 300, texts="x")
    monkeypatch.setattr(rebuilding, "Projector", partial(Projector, batch=100))
    apply = UsageByDay.apply

    def interrupt(self: UsageByDay, event: RecordedEvent, rows: Any) -> None:
        if event.position == 250:
            raise KeyboardInterrupt
        apply(self, event, rows)

    with monkeypatch.context() as patch:
        patch.setattr(UsageByDay, "apply", interrupt)
        done = turnstream(command)
    assert done.exit_code == 130
    assert done.stderr == "interrupted: what is done is kept; run it again to go on\n"
    table = store.read_models.find("usage", live=command == "usage")
    assert table is not None and table.position == 200
    assert turnstream(command).exit_code == 0
    assert store.read_models.find("usage") == replace(table, position=300, live=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")
def test_a_terminal_is_shown_how_far_it_is(store: EventStore, url: str) -> None:
    fill(store, 50)
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "turnstream", "rebuild", "usage"]
    environment = {**os.environ, "TERM": "xterm"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment, check=True, timeout=WAIT
    )
    os.close(theirs)
    shown = os.read(ours, 10**6).decode()
    os.close(ours)
    assert done.stdout == b"usage: position 50\n"
    assert "rebuilding usage" in shown and "100%" in shown
