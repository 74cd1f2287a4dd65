"""``turnstream export`` and what ``turnstream import`` makes of it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnstream.actors import export_events, import_transcript
from turnstream.actors.cli import exports  # noqa: F401 - adds its command
from turnstream.actors.cli.commands import app
from turnstream.events import CODEC, EncodedEvent, SessionStarted
from turnstream.stores import EventStore, open_store
from turnstream.stores.port import Append, RowChange

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CHAT = [
    {"role": "user", "content": "a ü \x1b[31m \u202e"},
    {"role": "assistant", "content": "b"},
]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EventStore]:
    """The store in the environment, with two sessions."""
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/sessions.db"
    monkeypatch.setenv("TURNSTREAM_STORE", address)
    opened = open_store(address)
    for name in ("one", "two"):
        import_transcript(CHAT, opened, name, agent="planner", at=NOON)
    yield opened
    opened.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[EventStore]:
    opened = open_store(f"sqlite:///{tmp_path}/other.db")
    yield opened
    opened.close()


OTHER = ("--store", "sqlite:///other.db")


def turnstream(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


def stored(store: EventStore, session_id: str) -> list[tuple[Any, ...]]:
    return [each[2:] for each in store.read(session_id)]


def test_what_is_exported_to_stdout_is_imported_byte_for_byte(
    store: EventStore, other: EventStore
) -> None:
    done = turnstream("export", "one")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout_bytes == b"".join(export_events(store, "one"))
    Path("one.jsonl").write_bytes(done.stdout_bytes)
    assert turnstream("import", "one.jsonl", *OTHER).stdout == "imported one\n"
    assert stored(other, "one") == stored(store, "one")
    done = turnstream("import", "one.jsonl", *OTHER)
    assert (done.exit_code, done.stdout) == (0, "0 imported, 1 already there, 0 failed\n")


@pytest.mark.slow
def test_a_pipe_and_a_packed_file_do_as_well(store: EventStore, other: EventStore) -> None:
    file = b"".join(export_events(store, "one", "two"))
    Path("all.gz").write_bytes(gzip.compress(file))
    assert (
        turnstream("import", "all.gz", *OTHER).stdout == "2 imported, 0 already there, 0 failed\n"
    )
    command = [sys.executable, "-P", "-m", "turnstream", "import", "-", *OTHER, "--id", "new"]
    done = subprocess.run(command, input=file, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert {row.session_id for row in other.sessions()} == {"one", "two", "new-1", "new-2"}


@pytest.mark.parametrize("format", ["events", "chat", "atif"])
def test_all_sessions_go_into_one_file_of_any_format(
    store: EventStore, other: EventStore, format: str
) -> None:
    done = turnstream("export", "--all", "--format", format, "--output", "all.jsonl")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert sorted(each.name for each in Path().iterdir() if "db" not in each.name) == ["all.jsonl"]
    done = turnstream("import", "all.jsonl", "--json", *OTHER)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["session_id"], each["outcome"]) for each in told] == [
        ("one", "imported"),
        ("two", "imported"),
    ]
    again = turnstream("import", "all.jsonl", *OTHER)
    assert again.stdout == "0 imported, 2 already there, 0 failed\n"
    agents = {row.agent for row in other.sessions()}
    assert agents == ({"imported"} if format == "chat" else {"planner"})


def test_a_conversation_that_is_exported_is_one_line_of_json(store: EventStore) -> None:
    for known in ("chat", "atif"):
        done = turnstream("export", "one", "--format", known)
        assert done.stdout.isascii()
        document = json.loads(done.stdout)
        assert document.get("id", document.get("session_id")) == "one"


def test_a_file_is_not_written_over_unless_told_so(store: EventStore) -> None:
    Path("one.jsonl").write_text("mine")
    done = turnstream("export", "one", "--output", "one.jsonl")
    assert done.exit_code == 2 and "--force" in done.stderr
    assert Path("one.jsonl").read_text() == "mine"
    assert turnstream("export", "one", "--output", "one.jsonl", "--force").exit_code == 0
    assert Path("one.jsonl").read_bytes() == b"".join(export_events(store, "one"))


def test_an_export_that_fails_leaves_no_file_and_the_old_one_as_it_was(store: EventStore) -> None:
    events, head = CODEC.chained([SessionStarted(at=NOON, agent="a")])
    broken = (*events, EncodedEvent("session_started", b'{"prev":"not it"}'))
    store.append(Append("broken", 0, broken, RowChange("idle", "a", NOON, head=head)))
    Path("old.jsonl").write_text("mine")
    for name in ("old.jsonl", "new.jsonl"):
        done = turnstream("export", "one", "broken", "--output", name, "--force")
        assert done.exit_code == 1 and "[corrupt-event]" in done.stderr
    assert Path("old.jsonl").read_text() == "mine"
    assert sorted(each.name for each in Path().iterdir() if "db" not in each.name) == ["old.jsonl"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("one", "--all"),
        ("one", "--format", "xml"),
        ("nobody",),
        ("one", "nobody"),
        ("one", "nobody", "--output", "x"),
        ("one", "--store", "sqlite:///nowhere.db"),
    ],
)
@pytest.mark.usefixtures("store")
def test_wrong_use_is_said_and_leaves_nothing_behind(arguments: tuple[str, ...]) -> None:
    done = turnstream("export", *arguments)
    assert (done.exit_code, done.stdout) == (2, "") and done.stderr
    assert not Path("x").exists() and not Path("nowhere.db").exists()


def test_a_session_without_a_word_is_named_and_the_others_are_exported(store: EventStore) -> None:
    events, head = CODEC.chained([SessionStarted(at=NOON, agent="a")])
    store.append(Append("silent", 0, events, RowChange("idle", "a", NOON, head=head)))
    done = turnstream("export", "--all", "--format", "atif")
    assert done.exit_code == 1 and "silent" in done.stderr
    exported = {json.loads(line)["session_id"] for line in done.stdout.splitlines()}
    assert exported == {"one", "two"}


def test_a_damaged_file_is_refused_naming_the_line(store: EventStore, other: EventStore) -> None:
    file = list(export_events(store, "one"))
    file[3] = file[3].replace(b"planner", b"Planner").replace(b"a", b"b", 1)
    Path("one.jsonl").write_bytes(b"".join(file))
    done = turnstream("import", "one.jsonl", *OTHER)
    assert done.exit_code == 1
    assert done.stderr == "error: line 4: this event is not as it was written\n"
    Path("half.gz").write_bytes(gzip.compress(b"".join(export_events(store, "one")))[:-20])
    done = turnstream("import", "half.gz", *OTHER)
    assert done.exit_code == 1 and "damaged" in done.stderr
    assert not other.sessions()


def test_a_session_that_is_there_with_other_events_is_left_alone(
    store: EventStore, other: EventStore
) -> None:
    import_transcript(CHAT[:1], other, "one", at=NOON)
    before = stored(other, "one")
    Path("all.jsonl").write_bytes(b"".join(export_events(store, "one", "two")))
    done = turnstream("import", "all.jsonl", *OTHER)
    assert done.exit_code == 1 and "'one' exists with other events" in done.stderr
    assert stored(other, "one") == before and other.session("two") is not None


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no terminals here")
@pytest.mark.usefixtures("store")
def test_nothing_that_drives_a_terminal_is_written_to_one() -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-P", "-m", "turnstream", "export", "one"]
    done = subprocess.run(command, stdout=theirs, timeout=30, check=False)
    os.close(theirs)
    shown = os.read(ours, 100_000)
    os.close(ours)
    assert done.returncode == 0 and b"turnstream_events" in shown
    assert b"\x1b[31m" not in shown and "\u202e".encode() not in shown
