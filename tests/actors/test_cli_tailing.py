"""The command that follows the log, in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from turnstream.stores import EventStore, open_store
from turnstream.stores.specimens import append_of

Tail: TypeAlias = "subprocess.Popen[str]"


@pytest.fixture(params=["sqlite:///{}/s.db", "jsonl:///{}/streams"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param.format(tmp_path))


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    with closing(open_store(url)) as opened:
        for n, session_id in enumerate(("a", "b", "a", "b")):
            opened.append(append_of(session_id, n // 2, f'{{"n":{n}}}'))
        yield opened


class Tailing:
    """The command, at work."""

    def __init__(self, url: str, *arguments: str) -> None:
        command = [sys.executable, "-P", "-m", "turnstream", "tail", *arguments, "--store", url]
        self.process: Tail = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.stdout = self.process.stdout

    def records(self, count: int) -> list[dict[str, Any]]:
        return [json.loads(self.stdout.readline()) for _ in range(count)]

    def ended(self) -> tuple[int, str]:
        _, complaints = self.process.communicate(timeout=20)
        return self.process.returncode, complaints

    def __enter__(self) -> Tailing:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()


def numbers(records: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(each["session_id"], each["payload"]["n"]) for each in records]


@pytest.mark.slow
def test_the_last_events_are_shown_and_then_those_that_come(store: EventStore, url: str) -> None:
    with Tailing(url, "-n", "2", "--json") as tail:
        assert numbers(tail.records(2)) == [("a", 2), ("b", 3)]
        for n in (4, 5):
            store.append(append_of("a", n - 2, f'{{"n":{n}}}'))
            assert numbers(tail.records(1)) == [("a", n)]
        tail.process.send_signal(signal.SIGINT)
        assert tail.ended() == (130, "")


@pytest.mark.slow
def test_of_a_session_its_own_events_are_shown(store: EventStore, url: str) -> None:
    with Tailing(url, "b", "-n", "1", "--json") as tail:
        assert numbers(tail.records(1)) == [("b", 3)]
        store.append(append_of("a", 2, '{"n":4}'))
        store.append(append_of("b", 2, '{"n":5}'))
        assert numbers(tail.records(1)) == [("b", 5)]


@pytest.mark.slow
def test_it_begins_after_a_position_that_is_given(store: EventStore, url: str) -> None:
    with Tailing(url, "--after", "1", "--json") as tail:
        assert numbers(tail.records(3)) == [("b", 1), ("a", 2), ("b", 3)]
    with Tailing(url, "--after", "4", "--json") as tail:
        store.append(append_of("c", 0, '{"n":9}'))
        assert numbers(tail.records(1)) == [("c", 9)]


def test_people_see_where_an_event_is_and_what_it_says(store: EventStore, url: str) -> None:
    with Tailing(url, "-n", "1") as tail:
        shown = tail.stdout.readline().split()
        assert shown[:3] == ["4", "b", "2"] and "noted" in shown


@pytest.mark.slow
def test_it_ends_quietly_when_nobody_reads_any_more(store: EventStore, url: str) -> None:
    with Tailing(url, "-n", "1", "--json") as tail:
        tail.records(1)
        tail.stdout.close()
        store.append(append_of("a", 2, '{"n":4}'))
        tail.process.wait(timeout=20)
        assert tail.process.returncode == 141
        assert tail.process.stderr is not None
        assert tail.process.stderr.read() == ""


@pytest.mark.slow
def test_what_is_not_there_is_a_misuse(store: EventStore, url: str, tmp_path: Path) -> None:
    for arguments in (("nobody", "--store", url), ("--store", f"sqlite:///{tmp_path}/no.db")):
        command = [sys.executable, "-P", "-m", "turnstream", "tail", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
