"""The command line, run for real."""

from __future__ import annotations

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

from turnstream.actors import import_transcript
from turnstream.actors.cli.commands import app
from turnstream.events.envelope import EncodedEvent
from turnstream.events.rendering import well_formed
from turnstream.stores import Append, EventStore, RowChange, open_store

NOW = datetime(2030, 1, 2, 3, 4, 5, 6000, UTC)
HOSTILE = "\x1b[2J[bold red]hi[/] \u202egnp.exe \x9b31m \x00 \x07 \ud83d \u2028 end"
DRIVING = {*map(chr, range(32)), "\x7f", *map(chr, range(0x80, 0xA0)), "\u202e", "\u2028"} - {"\n"}


def chat(*texts: str) -> list[dict[str, Any]]:
    """A conversation: questions and answers in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store that is not there yet; it is also the one in the environment."""
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/sessions.db"
    monkeypatch.setenv("TURNSTREAM_STORE", address)
    return address


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    opened = open_store(url)
    yield opened
    opened.close()


def turnstream(*arguments: str) -> Any:
    """Run a command in this process."""
    return CliRunner().invoke(app, arguments)


def process(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Run a command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "turnstream", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        **options,
    )


def strict(line: str) -> Any:
    """One value of strict JSON."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    assert "\n" not in line
    return json.loads(line, parse_constant=refuse)


def append_raw(store: EventStore, session_id: str, topic: str, payload: bytes) -> None:
    """Put an event into a stream as nobody should."""
    row = store.session(session_id)
    version, change = (row.version if row else 0), RowChange("idle", "imported", NOW)
    store.append(Append(session_id, version, (EncodedEvent(topic, payload),), change))


def test_it_tells_its_version() -> None:
    done = turnstream("--version")
    assert (done.exit_code, done.stdout.split()[0]) == (0, "turnstream")


@pytest.mark.slow
def test_python_m_turnstream_is_the_same_command() -> None:
    running = process("--version")
    out, error = running.communicate(timeout=30)
    assert (running.returncode, out, error) == (0, turnstream("--version").stdout, "")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("sessions", "--status", "asleep"),
        ("sessions", "--limit", "0"),
        ("sessions", "--limit", "many"),
        ("sessions", "--agent", "\udcff"),
        ("events",),
        ("events", "s", "--after", "-1"),
        ("import", "not-there.json"),
        ("import", "."),
    ],
)
def test_a_command_that_makes_no_sense_is_a_misuse(url: str, arguments: tuple[str, ...]) -> None:
    assert turnstream(*arguments).exit_code == 2


@pytest.mark.parametrize("arguments", [("sessions",), ("events", "s"), ("show", "s")])
def test_looking_does_not_make_a_database(url: str, arguments: tuple[str, ...]) -> None:
    done = turnstream(*arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: there is no store at ")
    assert done.stderr.endswith("[not-a-store]\n")
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("memory://", "--store sqlite:///FILE"),
        ("sqlite://", "--store sqlite:///FILE"),
        ("sessions.db", "sqlite:///relative/path.db"),
        ("oracle://host", "sqlite:///relative/path.db"),
        ("sqlite:///other.txt", "give the path of another file"),
    ],
)
def test_an_address_that_leads_to_no_store_is_a_misuse(url: str, address: str, told: str) -> None:
    Path("other.txt").write_text("some text that is no database, " * 50)
    done = turnstream("sessions", "--store", address)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
    assert "[not-a-store]" in done.stderr.splitlines()[0]


@pytest.mark.parametrize("command", ["events", "show"])
@pytest.mark.parametrize(
    ("id", "code"), [("nobody", "session-not-found"), ("a\x1b[31m", "invalid-session-id")]
)
def test_an_id_that_names_no_session_is_a_misuse(
    store: EventStore, command: str, id: str, code: str
) -> None:
    done = turnstream(command, id)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.endswith(f"[{code}]\n")
    assert "\x1b" not in done.stderr


def test_sessions_are_listed_the_last_updated_first(store: EventStore) -> None:
    import_transcript(chat("a", "b"), store, "older", at=NOW)
    import_transcript(chat("a", "b"), store, "[red]newer", at=NOW.replace(year=2031))
    header, first, second = turnstream("sessions").stdout.splitlines()
    assert header.split() == ["id", "status", "agent", "version", "updated"]
    assert first.split()[:4] == ["[red]newer", "idle", "imported", "6"]
    assert second.split() == ["older", "idle", "imported", "6", "2030-01-02", "03:04:05.006Z"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["waiting", "done"]),
        (("--status", "idle"), ["done"]),
        (("--status", "failed"), []),
        (("--agent", "other"), ["waiting"]),
        (("--limit", "1"), ["waiting"]),
    ],
)
def test_sessions_are_listed_by_what_is_asked_for(
    store: EventStore, options: tuple[str, ...], expected: list[str]
) -> None:
    import_transcript(chat("a", "b"), store, "done", at=NOW)
    later = NOW.replace(year=2031)
    import_transcript(chat("a"), store, "waiting", agent="other", at=later)
    done = turnstream("sessions", "--json", *options)
    rows = list(map(strict, done.stdout.splitlines()))
    assert (done.exit_code, [row["session_id"] for row in rows]) == (0, expected)


def test_an_id_is_never_cut_in_a_listing(store: EventStore) -> None:
    import_transcript(chat("a", "b"), store, "x" * 512)
    assert "x" * 512 in turnstream("sessions").stdout


def test_events_say_version_time_topic_and_what_happened(store: EventStore) -> None:
    import_transcript(chat("What is up?", "Not much."), store, "s", at=NOW)
    lines = [line.split(maxsplit=4) for line in turnstream("events", "s").stdout.splitlines()]
    assert [line[0] for line in lines] == list("123456")
    assert lines[2][1:] == ["2030-01-02", "03:04:05.006Z", "input_queued", "What is up?"]
    assert lines[4][3:] == ["model_turn_recorded", "step 1: Not much."]


def test_events_after_a_version_are_those_that_follow_it(store: EventStore) -> None:
    import_transcript(chat("a", "b"), store, "s")
    done = turnstream("events", "s", "--after", "4", "--json")
    assert [strict(line)["version"] for line in done.stdout.splitlines()] == [5, 6]


def test_events_as_json_are_the_stored_ones(store: EventStore) -> None:
    import_transcript(chat(HOSTILE, "b"), store, "s")
    done = turnstream("events", "s", "--json")
    shown = list(map(strict, done.stdout.splitlines()))
    stored = store.read("s")
    assert [(e["position"], e["version"], e["topic"]) for e in shown] == [
        (e.position, e.version, e.topic) for e in stored
    ]
    assert [e["payload"] for e in shown] == [json.loads(e.payload) for e in stored]
    assert all(e["payload"]["prev"] for e in shown[1:])


def test_a_stream_of_several_pages_is_listed_whole(store: EventStore) -> None:
    import_transcript(chat(*["a", "b"] * 300), store, "s")
    versions = [int(line.split()[0]) for line in turnstream("events", "s").stdout.splitlines()]
    row = store.session("s")
    assert row is not None
    assert row.version > 1000
    assert versions == list(range(1, row.version + 1))


def test_a_conversation_is_shown_as_people_read_it(store: EventStore) -> None:
    call = {"id": "c1", "function": {"name": "add", "arguments": '{"a": 1, "b": "x"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Add them.\nPlease."},
        {"role": "assistant", "content": "Adding.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "2\n3"},
        {"role": "assistant", "content": "It is 2."},
    ]
    import_transcript(messages, store, "s")
    shown = turnstream("show", "s").stdout
    body = shown.split("\n\n", 1)[1]
    assert body == (
        "user\nAdd them.\nPlease.\n\n"
        'assistant\nAdding.\n  calls add(a=1, b="x") (c1)\n'
        "  ok (c1) 2\n     3\n\n"
        "assistant\nIt is 2.\n"
    )


def test_what_is_unfinished_is_shown_apart(store: EventStore) -> None:
    calls = [{"id": f"c{n}", "function": {"name": "add", "arguments": "{}"}} for n in (1, 2)]
    messages = [
        *chat("a", "b", "Add."),
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
    ]
    import_transcript(messages, store, "s")
    shown = turnstream("show", "s").stdout
    finished, unfinished = shown.split("unfinished: turn-2, running\n")
    assert "assistant\nb\n" in finished
    assert "Add." in unfinished
    assert "not started (c1)" in unfinished
    assert "ok (c2) 2" in unfinished


def test_show_as_json_is_one_value(store: EventStore) -> None:
    messages = chat(HOSTILE, "b", "c")
    import_transcript(messages, store, "s")
    found = strict(turnstream("show", "s", "--json").stdout.rstrip("\n"))
    assert (found["status"], found["version"]) == ("running", 8)
    assert found["messages"][0] == {"role": "user", "content": well_formed(HOSTILE)}
    assert found["pending"]["messages"] == [{"role": "user", "content": "c"}]


@pytest.mark.parametrize(
    "arguments",
    [("events", "s"), ("events", "s", "--json"), ("show", "s"), ("show", "s", "--json")],
)
def test_stored_text_never_drives_the_terminal(
    store: EventStore, arguments: tuple[str, ...]
) -> None:
    name = well_formed(HOSTILE)
    call = {"id": HOSTILE, "function": {"name": name, "arguments": json.dumps({"a": HOSTILE})}}
    messages = [
        *chat(HOSTILE),
        {"role": "assistant", "content": HOSTILE, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": HOSTILE, "content": HOSTILE},
    ]
    import_transcript(messages, store, "s", agent=name)
    append_raw(store, "s", "novel\x1b[31m", b"{}")
    done = turnstream(*arguments)
    assert done.exit_code == 0
    assert DRIVING.isdisjoint(done.stdout)
    assert "[bold red]hi[/]" in done.stdout


@pytest.mark.slow
def test_a_terminal_with_a_small_alphabet_gets_escapes(store: EventStore) -> None:
    import_transcript(chat("żółw 🐢", "ok"), store, "s")
    running = process("show", "s", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    out, error = running.communicate(timeout=30)
    assert (running.returncode, error) == (0, "")
    assert r"\u017c\xf3\u0142w \U0001f422" in out


def test_an_event_that_cannot_be_read_does_not_hide_the_others(store: EventStore) -> None:
    append_raw(store, "s", "turn_started", b"no json\n\x1b[2J")
    append_raw(
        store, "s", "session_cleared", b'{"type":"session_cleared","at":"2030-01-01T00:00:00Z"}'
    )
    done = turnstream("events", "s")
    first, second = done.stdout.splitlines()
    assert done.exit_code == 1
    assert "can't be read" in first
    assert "session_cleared" in second
    as_json = turnstream("events", "s", "--json")
    assert as_json.exit_code == 1
    assert strict(as_json.stdout.splitlines()[0])["payload_base64"]


def test_a_conversation_with_an_unreadable_event_is_not_shown_in_part(store: EventStore) -> None:
    import_transcript(chat("a", "b"), store, "s")
    append_raw(store, "s", "turn_started", b"no json")
    done = turnstream("show", "s")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: session 's', version 7: ")
    assert done.stderr.endswith("[corrupt-event]\n")


def test_an_event_of_a_newer_version_is_shown_as_unknown(store: EventStore) -> None:
    import_transcript(chat("a", "b"), store, "s")
    append_raw(store, "s", "novelty@7", b'{"x":1}')
    assert "novelty@7" in turnstream("events", "s").stdout.splitlines()[-1]
    assert "read-only: it holds novelty@7" in turnstream("show", "s").stdout


@pytest.mark.slow
def test_output_that_nobody_reads_ends_quietly(store: EventStore) -> None:
    import_transcript(chat(*["a", "b"] * 3000), store, "s")
    for options in ((), ("--json",)):
        with process("events", "s", *options) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            assert running.stdout.readline()
            running.stdout.close()
            assert (running.wait(30), running.stderr.read()) == (141, "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals on Windows")
def test_colours_are_for_terminals_only(store: EventStore) -> None:
    import_transcript(chat("a", "b"), store, "s")
    plain = turnstream("events", "s").stdout
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    environment.pop("NO_COLOR", None)
    assert "\x1b[" not in plain
    assert b"\x1b[" in on_a_terminal(("events", "s"), environment)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals on Windows")
def test_an_import_shows_its_progress_on_a_terminal(url: str) -> None:
    Path("talk.jsonl").write_text(f"{json.dumps(chat('a', 'b'))}\n" * 3)
    shown = on_a_terminal(("import", "talk.jsonl"), {**os.environ, "TERM": "xterm"})
    assert b"importing" in shown
    assert shown.endswith(b"3 imported, 0 already there, 0 failed\r\n")


def on_a_terminal(arguments: tuple[str, ...], environment: dict[str, str]) -> bytes:
    """What a command writes on a terminal."""
    terminal, end = os.openpty()
    running = subprocess.Popen(
        [sys.executable, "-P", "-m", "turnstream", *arguments],
        stdin=end,
        stdout=end,
        stderr=end,
        env=environment,
    )
    os.close(end)
    written = bytearray()
    try:
        while chunk := os.read(terminal, 4096):
            written += chunk
    except OSError:
        pass  # Linux says so when the last writer is gone.
    os.close(terminal)
    assert running.wait(30) == 0
    return bytes(written)
