"""A process is killed at every append of a turn whose sub-agents have sub-agents."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from family_child import SESSION, family

from turnstream.actors import ActorSystem, audit_store
from turnstream.actors.idempotency import idempotency_key
from turnstream.events import (
    CODEC,
    ModelTurnRecorded,
    SessionStarted,
    ToolResultRecorded,
    Usage,
)
from turnstream.stores import open_store

CHILD = Path(__file__).with_name("family_child.py")
SAID = "boss: worker: helper: saw h; removed x; saw w; saw b"
USED = Usage(60, 6)


Run = Callable[..., int]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run a process on the store of a directory; what it ended with."""
    child = subprocess.Popen(
        [sys.executable, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    said, heard = child.stdin, child.stdout
    assert said is not None and heard is not None

    def ran(directory: Path, at: int, when: str, what: str) -> int:
        said.write(f"sqlite:///{directory / 's.db'} {directory} {at} {when} {what}\n")
        said.flush()
        return int(heard.readline())

    yield ran
    said.close()
    child.wait(20)
    heard.close()


def lines(directory: Path, name: str) -> Counter[str]:
    file = directory / name
    return Counter(file.read_text().split("\n")[:-1] if file.exists() else ())


def check(directory: Path, lost: int) -> None:
    """Everything ended once, with what it came to, whatever was lost on the way."""
    address = f"sqlite:///{directory / 's.db'}"
    with closing(open_store(address)) as store:
        assert [found for looked in audit_store(store) for found in looked.findings] == []
        for session_id in store.stream_ids():
            events = [CODEC.decode(e.topic, e.payload) for e in store.read(session_id)]
            steps = [e.step for e in events if isinstance(e, ModelTurnRecorded)]
            results = [e.call_id for e in events if isinstance(e, ToolResultRecorded)]
            assert steps == [1, 2] and len(results) == len(set(results)) == 2
            assert isinstance(events[0], SessionStarted)
    with ActorSystem(family(directory), store=address) as system:
        session = system.session(SESSION)
        assert len(system.sessions()) == 3 and not system.approvals()
        assert session.messages[-1].text == SAID  # type: ignore[union-attr]
        assert session.usage == USED
        assert {row.status for row in system.sessions()} == {"idle"}
    asked, ran = lines(directory, "asked"), lines(directory, "ran")
    assert len(asked) == 6 and len(ran) == 4
    for again in (asked, ran):
        assert again.total() - len(again) <= 3 * lost, "only what was in flight runs again"


def recorded(directory: Path) -> set[str]:
    """What models said and tools did that is in the streams, in the words of the files."""
    found = set[str]()
    with closing(open_store(f"sqlite:///{directory / 's.db'}")) as store:
        for session_id in store.stream_ids():
            for record in store.read(session_id):
                match CODEC.decode(record.topic, record.payload):
                    case ModelTurnRecorded(step=step):
                        found.add(f"{session_id} {step}")
                    case ToolResultRecorded(turn_id=turn_id, call_id=call_id):
                        found.add(idempotency_key(session_id, turn_id, call_id))
                    case _:
                        pass
    return found


def done(directory: Path) -> Counter[str]:
    both = lines(directory, "asked") + lines(directory, "ran")
    return Counter({line.partition(" ")[2]: count for line, count in both.items()})


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_family_goes_on_where_it_stood_whatever_append_it_was_killed_at(
    run: Run, tmp_path: Path, when: str
) -> None:
    points = 0
    while True:
        points += 1
        directory = tmp_path / f"{points}"
        directory.mkdir()
        ended = run(directory, points, when, "begin")
        assert ended in (0, -signal.SIGKILL)
        if ended == 0:
            break
        before, kept = done(directory), recorded(directory)
        if points == 1 and when == "before":
            assert run(directory, 0, when, "begin") == 0
        assert run(directory, 0, when, "go-on") == 0
        check(directory, lost=1)
        after = done(directory)
        assert {each: after[each] for each in kept} == {each: before[each] for each in kept}
    check(directory, lost=0)
    assert points > 15


@pytest.mark.slow
def test_killed_again_and_again_it_comes_to_its_end(run: Run, tmp_path: Path) -> None:
    lost = 0
    assert run(tmp_path, 3, "after", "begin") == -signal.SIGKILL
    for at in (6, 1, 4, 5, 2, 6, 5, 4, 6, 5):
        lost += run(tmp_path, at, "after" if at % 2 else "before", "go-on") == -signal.SIGKILL
    assert run(tmp_path, 0, "after", "go-on") == 0
    assert lost >= 6
    check(tmp_path, lost + 1)
