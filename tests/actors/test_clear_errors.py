"""What goes wrong around a system is named, with the way out, and loses nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from places import on_durable_stores

from turnstream.actors import ActorSystem, Agent, Journal, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    InvalidAgent,
    InvalidSessionId,
    NotAStore,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
    ToolMessage,
    TurnstreamError,
    UnknownAgent,
    verify,
)
from turnstream.stores import open_store

WAIT = 20


def agent(*script: Any, tools: Any = (), name: str = "agent") -> Agent:
    return Agent(name, model=ScriptedModel(script), tools=tools)


def test_a_path_that_is_no_database_is_named_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes, not a database" * 100)

    with pytest.raises(NotAStore, match=r"notes\.txt"):
        ActorSystem(agent(), store=f"sqlite:///{path}")
    assert path.read_text() == "my notes, not a database" * 100


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=tmp_path.name):
        ActorSystem(agent(), store=f"sqlite:///{tmp_path}")


def test_a_database_of_a_newer_version_says_what_to_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    ActorSystem(agent(), store=f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version + 1}")

    with pytest.raises(StoreTooNew, match="upgrade turnstream"):
        ActorSystem(agent(), store=f"sqlite:///{path}")


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("redis://x", NotAStore),
        ("", NotAStore),
        ("postgresql://nowhere.invalid/y", StoreUnavailable),
    ],
)
def test_an_address_of_no_store_is_refused(address: str, error: type[TurnstreamError]) -> None:
    with pytest.raises(error):
        ActorSystem(agent(), store=address)


@pytest.mark.parametrize("id", ["a\0b", "\ud800", "x" * 600, "", "x\n", 5])
def test_an_id_that_can_name_no_session_is_refused_before_anything_happens(id: Any) -> None:
    with ActorSystem(agent()) as system:
        with pytest.raises(InvalidSessionId):
            system.session(id)
        assert not system.sessions()


@pytest.mark.parametrize("what", ["tools", "hooks", "handoffs", "aliases"])
@pytest.mark.parametrize("given", [None, 5, "one"])
def test_what_there_are_several_of_is_named_where_it_is_one(what: str, given: Any) -> None:
    options: dict[str, Any] = {what: given}
    with pytest.raises(InvalidAgent, match=f"agent 'a': {what} are several, in a list"):
        Agent("a", model=ScriptedModel([]), **options)


@pytest.mark.parametrize("what", ["retry_wait", "context_policy"])
def test_what_is_no_function_is_named(what: str) -> None:
    options: dict[str, Any] = {what: 3}
    with pytest.raises(InvalidAgent, match=f"agent 'a': {what} must be a function"):
        Agent("a", model=ScriptedModel([]), **options)


def test_a_gate_that_can_not_tell_is_refused() -> None:
    gate: Any = 5
    with pytest.raises(InvalidAgent, match="needs_approval must be a bool or a function"):
        tool(name="t", needs_approval=gate)(lambda: "")


@pytest.mark.parametrize(
    "opens", [partial(ActorSystem, Agent("a", model=ScriptedModel([]))), Journal]
)
def test_what_is_no_store_is_refused(opens: Any) -> None:
    with pytest.raises(NotAStore, match="an open store is wanted, not int"):
        opens(store=5)


def test_a_run_of_what_is_no_function_records_nothing() -> None:
    work: Any = 5
    with Journal("memory://") as journal:
        with pytest.raises(TypeError, match="not of int"):
            journal.run("r", work)
        assert not journal.runs()


def test_a_filter_that_can_match_nothing_is_refused() -> None:
    with ActorSystem(agent("hi")) as system:
        system.session("s").send("hello").result(WAIT)
        for status in ("awaiting_approval", "IDLE", "", "' OR 1=1 --", 5):
            with pytest.raises(ValueError, match="awaiting-approval"):
                system.sessions(status)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            system.sessions(user="a")  # type: ignore[call-arg]
        for limit in ("1; DROP TABLE sessions", "1"):
            with pytest.raises(TypeError):
                system.sessions(limit=limit)  # type: ignore[arg-type]
        assert [row.session_id for row in system.sessions("idle", tenant="")] == ["s"]
        assert not system.sessions(tenant="%") and not system.sessions(agent="agent' --")


@on_durable_stores
def test_a_session_of_an_agent_that_is_gone_is_named_and_can_be_continued_with_it(
    store: str,
) -> None:
    with ActorSystem(agent("one", name="old"), store=store) as system:
        system.session("s").send("a").result(WAIT)
    with ActorSystem(agent("two", name="new"), store=store) as system:
        turn = system.session("s").send("b")
        with pytest.raises(UnknownAgent, match="'old'"):
            turn.result(WAIT)
    with ActorSystem([agent(name="new"), agent("two", name="old")], store=store) as system:
        assert system.session("s").send("b").result(WAIT).text == "two"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a small file system can't be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_fills_up_in_a_turn_loses_nothing(small_disk: Path) -> None:
    @tool
    def fill(place: int) -> str:
        return f"{place}" * 100_000

    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_000_000))
    script = [[call("fill", place=n)] for n in range(9)]
    store = f"sqlite:///{small_disk}/s.db"
    with ActorSystem(agent(*script, "unread", tools=[fill]), store=store) as system:
        session = system.session("s")
        with pytest.raises(StoreUnavailable, match="full"):
            session.send("go").result(WAIT)
        ballast.unlink()
        recorded = [each for each in session.events() if each.topic == "model_turn_recorded"]
        with closing(open_store(store)) as reader:
            assert verify(reader.read("s")) is None

    rest = script[len(recorded) :]
    with ActorSystem(agent(*rest, "done", tools=[fill]), store=store) as system:
        (turn,) = system.resume_all()
        result = turn.result(WAIT)
    assert result.text == "done"
    shown = [str(m.content)[0] for m in result.messages if isinstance(m, ToolMessage)]
    assert shown == [str(n) for n in range(9)]


@on_durable_stores
def test_closing_leaves_nothing_running(store: str) -> None:
    before = set(threading.enumerate())
    files = len([*Path("/proc/self/fd").iterdir()])

    @tool
    def sync_tool() -> str:
        return "a"

    @tool
    async def async_tool() -> str:
        return "b"

    tools = [sync_tool, async_tool]
    both = [call("sync_tool"), call("async_tool")]
    with ActorSystem(agent(both, "done", tools=tools), store=store) as system:
        assert system.session("s").send("go").result(WAIT).text == "done"

    assert set(threading.enumerate()) <= before
    assert len([*Path("/proc/self/fd").iterdir()]) <= files
