"""``turnstream import``, run for real."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from turnstream.actors import import_transcript
from turnstream.actors.cli.chats import Chat, read_chats, read_rows
from turnstream.actors.cli.commands import app
from turnstream.events.codec import CODEC
from turnstream.events.messages import UserMessage
from turnstream.projections import fold
from turnstream.stores import EventStore, open_store

ONE = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
TWO = [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EventStore]:
    """The store in the environment."""
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/sessions.db"
    monkeypatch.setenv("TURNSTREAM_STORE", address)
    opened = open_store(address)
    yield opened
    opened.close()


def turnstream(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


def lines(*conversations: object) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in conversations)


def listed(store: EventStore) -> set[str]:
    return {row.session_id for row in store.sessions()}


def first_message(store: EventStore, session_id: str) -> object:
    events = [CODEC.decode(each.topic, each.payload) for each in store.read(session_id)]
    message = fold(events).transcript[0]
    return message.content if isinstance(message, UserMessage) else message


@pytest.mark.parametrize(
    ("name", "text", "options", "expected"),
    [
        ("talk.json", json.dumps(ONE), (), {"talk"}),
        ("talk.json", json.dumps(ONE, indent=2), (), {"talk"}),
        ("talk.json", json.dumps({"messages": ONE}, indent=2), (), {"talk"}),
        ("talk.json", json.dumps({"messages": ONE, "id": "own"}), (), {"own"}),
        ("talk.json", json.dumps({"messages": ONE, "id": 7}), (), {"talk"}),
        ("talk.json", json.dumps({"messages": ONE, "id": "own"}), ("--id", "given"), {"given"}),
        ("talk.json", lines(ONE, TWO), (), {"talk-1", "talk-2"}),
        ("talk.jsonl", lines(ONE), (), {"talk-1"}),
        ("talk.jsonl", lines(ONE, {"messages": TWO, "id": "own"}), (), {"talk-1", "own"}),
        ("talk.jsonl", lines(ONE, TWO), ("--id", "given"), {"given-1", "given-2"}),
        ("talk.jsonl", "\ufeff" + lines(ONE) + "\n \n" + lines(TWO), (), {"talk-1", "talk-4"}),
        ("a.b.ndjson", lines(ONE), (), {"a.b-1"}),
    ],
)
def test_sessions_are_named_after_option_own_id_or_file(
    store: EventStore, name: str, text: str, options: tuple[str, ...], expected: set[str]
) -> None:
    Path(name).write_text(text, "utf-8")
    done = turnstream("import", name, *options)
    assert (done.exit_code, done.stderr) == (0, "")
    assert listed(store) == expected


def test_a_packed_file_is_unpacked(store: EventStore) -> None:
    Path("talk.jsonl.gz").write_bytes(gzip.compress(lines(ONE, TWO).encode()))
    done = turnstream("import", "talk.jsonl.gz")
    assert done.stdout == "2 imported, 0 already there, 0 failed\n"
    assert listed(store) == {"talk-1", "talk-2"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given_bytes", "expected"),
    [
        (json.dumps(ONE).encode(), {"stdin"}),
        (lines(ONE, TWO).encode(), {"stdin-1", "stdin-2"}),
        (gzip.compress(lines(ONE, TWO).encode()), {"stdin-1", "stdin-2"}),
    ],
    ids=["one", "lines", "packed"],
)
def test_a_dash_stands_for_standard_input(
    store: EventStore, given_bytes: bytes, expected: set[str]
) -> None:
    command = [sys.executable, "-P", "-m", "turnstream", "import", "-"]
    done = subprocess.run(command, input=given_bytes, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert listed(store) == expected


def test_what_is_imported_belongs_to_the_agent_that_was_named(store: EventStore) -> None:
    Path("talk.json").write_text(json.dumps(ONE))
    assert turnstream("import", "talk.json", "--agent", "clerk").stdout == "imported talk\n"
    assert [row.agent for row in store.sessions()] == ["clerk"]
    assert first_message(store, "talk") == "a"


def test_importing_again_changes_nothing(store: EventStore) -> None:
    Path("talk.jsonl").write_text(lines(ONE, TWO))
    turnstream("import", "talk.jsonl")
    before = store.read_all()
    done = turnstream("import", "talk.jsonl")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "0 imported, 2 already there, 0 failed\n"
    assert store.read_all() == before


def test_a_session_that_went_on_since_is_already_there(store: EventStore) -> None:
    import_transcript([*ONE, *TWO], store, "talk")
    Path("talk.json").write_text(json.dumps(ONE))
    done = turnstream("import", "talk.json", "--json")
    assert (done.exit_code, json.loads(done.stdout)["outcome"]) == (0, "present")


@pytest.mark.parametrize("there", [TWO, ONE[:1]])
def test_a_session_that_holds_something_else_is_left_alone(
    store: EventStore, there: list[Any]
) -> None:
    import_transcript(there, store, "talk")
    before = store.read_all()
    Path("talk.json").write_text(json.dumps(ONE))
    done = turnstream("import", "talk.json")
    assert done.exit_code == 1
    assert done.stderr == (
        "error: the file: session 'talk' exists and holds something else; choose another id\n"
    )
    assert store.read_all() == before


def test_a_deleted_session_is_not_revived(store: EventStore) -> None:
    import_transcript(ONE, store, "talk")
    store.delete("talk")
    Path("talk.json").write_text(json.dumps(ONE))
    done = turnstream("import", "talk.json")
    assert done.exit_code == 1
    assert "was deleted" in done.stderr
    assert listed(store) == set()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{nonsense", "no JSON"),
        (b"\xff\xfe", "no UTF-8"),
        (b"[" * 100_000, "no JSON"),
        (b"42", "neither a list of messages nor an object with 'messages'"),
        (b'{"messages": "hi"}', "neither a list of messages nor an object with 'messages'"),
        (b"[42]", "message 0"),
        (b"[{}]", "message 0"),
        (b'[{"role": "\\u001b[2Jking", "content": "x"}]', "message 0"),
        (b'[{"role": "user", "content": 42}]', "message 0"),
        (b'[{"role": "assistant", "tool_calls": [{}]}]', "chat format"),
        (b'[{"role": "assistant", "tool_calls": 42}]', "chat format"),
        (b'[{"role": "tool", "tool_call_id": "c", "content": "x"}]', "message 0"),
        (b'{"id": "\\u0007", "messages": []}', "can't be printed"),
    ],
)
def test_a_line_that_is_no_conversation_is_named_and_the_others_are_imported(
    store: EventStore, line: bytes, reason: str
) -> None:
    Path("talk.jsonl").write_bytes(lines(ONE).encode() + line + b"\n" + lines(TWO).encode())
    done = turnstream("import", "talk.jsonl")
    assert done.exit_code == 1
    assert done.stdout == "2 imported, 0 already there, 1 failed\n"
    (told,) = done.stderr.splitlines()
    assert told.startswith("error: line 2: ")
    assert reason in told
    assert told.isprintable()
    assert listed(store) == {"talk-1", "talk-3"}


def test_a_file_that_is_no_conversation_is_refused_as_a_whole(store: EventStore) -> None:
    Path("talk.json").write_text('[\n  {"role": "user"\n')
    done = turnstream("import", "talk.json")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: the file: no JSON: ")


@pytest.mark.slow
def test_a_packed_file_that_is_cut_short_is_imported_as_far_as_it_goes(store: EventStore) -> None:
    packed = gzip.compress(lines(*[ONE] * 4000).encode(), mtime=0)
    Path("talk.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    done = turnstream("import", "talk.jsonl.gz")
    assert done.exit_code == 1
    assert "the packed file is damaged from here on" in done.stderr
    assert "talk-1" in listed(store)


def test_json_tells_of_each_conversation(store: EventStore) -> None:
    Path("talk.jsonl").write_text(lines(ONE, 42))
    done = turnstream("import", "talk.jsonl", "--json")
    imported, failed = map(json.loads, done.stdout.splitlines())
    assert imported == {
        "line": 1,
        "session_id": "talk-1",
        "outcome": "imported",
        "version": 6,
        "reason": "",
    }
    assert (failed["line"], failed["outcome"]) == (2, "failed")
    assert done.exit_code == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows can't interrupt a single process")
def test_an_interrupted_import_keeps_what_it_has_and_can_go_on(store: EventStore) -> None:
    command = [sys.executable, "-P", "-m", "turnstream", "import", "-", "--id", "talk"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None
        running.stdin.write(lines(ONE, TWO, ONE))
        running.stdin.flush()
        with store.subscribe() as log:
            next(record for record in log if record.session_id == "talk-2")
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
        out, error = running.communicate()
    assert out == ""
    assert error.startswith("interrupted: ")
    assert error.endswith("run it again to go on\n")
    assert {"talk-1", "talk-2"} <= listed(store)


@given(st.lists(st.sampled_from([ONE, TWO]), min_size=2), st.booleans())
def test_lines_are_read_alike_packed_or_not_and_named_or_not(
    conversations: list[Any], by_line: bool
) -> None:
    text = lines(*conversations).encode()
    expected = [Chat(line, "", each) for line, each in enumerate(conversations, 1)]
    for given_bytes in (text, gzip.compress(text)):
        source: Any = BufferedReader(BytesIO(given_bytes))
        assert list(read_chats(read_rows(source), by_line=by_line)) == expected
