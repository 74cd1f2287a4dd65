"""A store looked over and tidied from the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from composing import conversation, put
from typer.testing import CliRunner

from turnstream.actors.cli import retaining, verifying
from turnstream.events import EncodedEvent, digest, link
from turnstream.stores import Append, RowChange, SQLiteStore, open_store

WAIT = 30
HOSTILE = "\u202eevil"


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNSTREAM_STORE", f"sqlite:///{tmp_path}/s.db")
    now = datetime.now(UTC)
    with closing(SQLiteStore(tmp_path / "s.db")) as store:
        put(store, "old", conversation(20, now - timedelta(days=40)))
        put(store, "new", conversation(3, now - timedelta(hours=1)))
        put(store, "open", conversation(2, now - timedelta(days=40))[:-2])
    return tmp_path / "s.db"


def turnstream(*arguments: str) -> Any:
    assert retaining.app is verifying.app
    return CliRunner().invoke(verifying.app, arguments)


def ids(path: Path) -> list[str]:
    with closing(SQLiteStore(path)) as store:
        return list(store.stream_ids())


def damage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


def test_a_sound_store_is_called_so() -> None:
    told = turnstream("verify")
    assert (told.exit_code, told.stdout) == (0, "3 sessions, 176 events: nothing wrong\n")
    assert turnstream("verify", "--json").stdout == ""
    assert turnstream("verify", "new", "old").stdout == "2 sessions, 163 events: nothing wrong\n"


def test_what_is_wrong_is_told_a_line_each(path: Path) -> None:
    damage(
        path,
        "UPDATE stored_events SET state = replace(state, 'question', 'QUESTION') "
        "WHERE originator_id = 'old' AND originator_version = 9",
    )
    damage(path, "UPDATE sessions SET status = 'failed' WHERE id = 'new'")
    told = turnstream("verify")
    assert told.exit_code == 1
    lines = told.stdout.splitlines()
    assert lines[0] == "row: session 'new', version 22: its row says failed, the stream idle"
    assert lines[1].startswith("chain: session 'old', version 9: altered")
    assert lines[2].endswith(": 2 faults")

    (first, second) = map(json.loads, turnstream("verify", "--json").stdout.splitlines())
    assert (first["kind"], first["session_id"], first["version"]) == ("row", "new", 22)
    assert (second["kind"], second["session_id"], second["version"]) == ("chain", "old", 9)
    assert turnstream("verify", "new").exit_code == 1
    assert turnstream("verify", "open").exit_code == 0


def test_events_of_a_newer_version_are_told_and_no_fault(path: Path) -> None:
    with closing(SQLiteStore(path)) as store:
        last = store.read("new")[-1]
        prev = link(last.topic, last.version, last.payload)
        later = EncodedEvent("later", b'{"prev":"%b"}' % prev.encode())
        head = digest(later.topic, last.version + 1, later.payload)
        change = RowChange("idle", "agent", datetime.now(UTC), head=head)
        store.append(Append("new", last.version, (later,), change))
    told = turnstream("verify")
    assert told.exit_code == 0
    assert "unknown: session 'new', version 23: 1 events of a newer turnstream" in told.stdout


def test_stored_text_can_t_drive_the_terminal(path: Path) -> None:
    damage(path, f"UPDATE stored_events SET originator_id = '{HOSTILE}' WHERE rowid = 3")
    told = turnstream("verify")
    assert told.exit_code == 1
    assert "\u202e" not in told.stdout


@pytest.mark.parametrize("command", ["verify", "delete", "erase"])
def test_a_session_that_does_not_exist_is_misuse(command: str) -> None:
    more = {"verify": [], "delete": ["--yes"], "erase": ["1", "--yes"]}[command]
    assert turnstream(command, "nobody", *more).exit_code == 2
    assert turnstream(command, "\x1b", *more).exit_code == 2


@pytest.mark.parametrize("command", ["verify", "prune --older-than 1d", "compact"])
def test_a_store_that_is_not_there_is_not_made(path: Path, command: str) -> None:
    path.unlink()
    assert turnstream(*command.split()).exit_code == 2
    assert not path.exists()


def test_sessions_are_deleted_when_somebody_says_so(path: Path) -> None:
    refused = turnstream("delete", "old")
    assert refused.exit_code == 2 and "--yes" in refused.stderr
    assert "old" in ids(path)
    told = turnstream("delete", "old", "open", "--yes")
    assert (told.exit_code, told.stdout) == (
        0,
        "deleted old: 141 events\ndeleted open: 13 events\n",
    )
    assert ids(path) == ["new"]
    assert turnstream("delete", "old", "--yes").exit_code == 2


def test_of_several_sessions_none_goes_where_one_does_not_exist(path: Path) -> None:
    assert turnstream("delete", "old", "nobody", "--yes").exit_code == 2
    assert ids(path) == ["new", "old", "open"]


def test_old_sessions_are_counted_and_then_removed(path: Path) -> None:
    dry = turnstream("prune", "--older-than", "30d", "--dry-run")
    assert dry.exit_code == 0
    assert re.fullmatch(
        r"old\nwould delete 1 sessions, 141 events, \d+ bytes; kept 1 recent, 1 running\n",
        dry.stdout,
    )
    assert ids(path) == ["new", "old", "open"]
    told = json.loads(turnstream("prune", "--older-than", "30d", "--json").stdout)
    assert (told["sessions"], told["events"], told["ids"]) == (1, 141, ["old"])
    assert told["kept"] == {"recent": 1, "running": 1}
    assert ids(path) == ["new", "open"]
    assert turnstream("prune", "--older-than", "30d").stdout == (
        "deleted 0 sessions, 0 events, 0 bytes; kept 1 recent, 1 running\n"
    )


@pytest.mark.parametrize("age", ["", "30", "d", "-1d", "1.5d", "30 d", "1y", "999999w", "\u0663d"])
def test_an_age_that_is_none_is_misuse(age: str, path: Path) -> None:
    assert turnstream("prune", "--older-than", age).exit_code == 2
    assert turnstream("prune").exit_code == 2
    assert ids(path) == ["new", "old", "open"]


@pytest.mark.parametrize(("age", "goes"), [("90m", False), ("59m", True), ("30s", True), ("1w", 0)])
def test_ages_have_units(path: Path, age: str, goes: bool) -> None:
    turnstream("prune", "--older-than", age)
    assert ("new" not in ids(path)) == bool(goes)


def test_space_is_given_back(path: Path) -> None:
    turnstream("delete", "old", "--yes")
    before = path.stat().st_size
    told = turnstream("compact", "--json")
    assert told.exit_code == 0
    assert path.stat().st_size < before
    assert json.loads(told.stdout)["bytes"] > 0
    assert turnstream("compact").stdout == "0 bytes given back\n"
    assert turnstream("verify").exit_code == 0


def test_content_is_erased_when_somebody_says_so(path: Path) -> None:
    assert turnstream("erase", "old", "2").exit_code == 2
    told = turnstream("erase", "old", "2", "3", "--reason", "asked to", "--by", "ann", "--yes")
    assert (told.exit_code, told.stdout) == (0, "erased the content of 1 events of old\n")
    with closing(open_store(os.environ["TURNSTREAM_STORE"])) as store:
        payloads = [record.payload for record in store.read("old")]
    assert b"[erased]" in payloads[1] and b"asked to" in payloads[-1] and b"ann" in payloads[-1]
    assert turnstream("verify").exit_code == 0
    again = turnstream("erase", "old", "2", "--yes")
    assert again.stdout == "erased the content of 0 events of old\n"
    refused = turnstream("erase", "old", "999", "--yes")
    assert refused.exit_code == 1 and "erasure-refused" in refused.stderr


SLOW = """
import sys
from turnstream.actors import auditing
from turnstream.actors.cli import main
walk = auditing.audit_session

def told(store, session_id):
    print("looking", flush=True)
    sys.stdin.readline()
    return walk(store, session_id)

auditing.audit_session = told
sys.argv = ["turnstream", "verify"]
main()
"""


@pytest.mark.slow
def test_a_look_that_is_interrupted_says_how_far_it_came() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "looking\n"
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "looking\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=WAIT)
    assert process.returncode == 130
    assert errors == "interrupted: 1 sessions, 22 events: nothing wrong so far\n"
