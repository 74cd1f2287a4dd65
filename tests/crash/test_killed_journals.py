"""Processes at a journal's run: killed, frozen, or many at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from runs_child import STEPS

from turnstream.actors import audit_store
from turnstream.events import CODEC, StepRecorded
from turnstream.stores import open_store

PROGRAM = Path(__file__).with_name("runs_child.py")
DONE = " ".join(STEPS)


def begin(
    folder: Path,
    kind: str = "plain",
    *,
    moment: str = "never",
    wait: float = 0,
    lease: float = 10,
    strike: int = signal.SIGKILL,
    store: str = "sqlite:///{}/j.db",
) -> subprocess.Popen[str]:
    arguments = [store.format(folder), str(folder), kind, str(wait), str(lease), moment]
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments, str(int(strike))],
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    told, _ = process.communicate(timeout=60)
    return process.returncode, told.strip()


def done(folder: Path) -> list[str]:
    return (folder / "done").read_text().splitlines() if (folder / "done").exists() else []


def recorded(folder: Path, store: str = "sqlite:///{}/j.db") -> list[str]:
    """The steps of the stream, in which nothing is wrong."""
    opened = open_store(store.format(folder))
    assert [f for audited in audit_store(opened) for f in audited.findings] == []
    events = [CODEC.recorded(each).event for each in opened.read("order")]
    opened.close()
    return [each.name for each in events if isinstance(each, StepRecorded)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "moment", "before", "again"),
    [
        ("plain", "before-2", 1, ()),
        ("plain", "in-2", 2, ("charge",)),
        ("plain", "after-2", 2, ()),
        ("plain", "after-4", 4, ()),
        ("plain", "ended", 4, ()),
        ("nested", "in-3", 3, ("ship",)),
        ("nested", "after-2", 2, ()),
        ("parallel", "in-4", 4, ("tell",)),
        ("parallel", "after-1", 1, ()),
    ],
)
def test_what_a_killed_process_recorded_is_not_done_again(
    tmp_path: Path, kind: str, moment: str, before: int, again: tuple[str, ...]
) -> None:
    assert ended(begin(tmp_path, kind, moment=moment)) == (-signal.SIGKILL, "")
    assert done(tmp_path) == list(STEPS[:before])

    assert ended(begin(tmp_path, kind)) == (0, DONE)
    assert done(tmp_path) == [*STEPS[:before], *again, *STEPS[before:]]
    inner = ["inner"] if kind == "nested" else []
    assert sorted(recorded(tmp_path)) == sorted([*STEPS, *inner])


def test_in_files_too(tmp_path: Path) -> None:
    store = "jsonl:///{}/j"
    assert ended(begin(tmp_path, moment="after-2", store=store))[0] == -signal.SIGKILL
    assert ended(begin(tmp_path, store=store)) == (0, DONE)
    assert done(tmp_path) == recorded(tmp_path, store) == list(STEPS)


@pytest.mark.slow
def test_a_frozen_process_loses_its_run_and_is_told_when_it_wakes_up(tmp_path: Path) -> None:
    frozen = begin(tmp_path, moment="in-2", lease=0.5, strike=signal.SIGSTOP)
    _, status = os.waitpid(frozen.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)

    assert ended(begin(tmp_path, wait=30)) == (0, DONE)
    frozen.send_signal(signal.SIGCONT)
    assert ended(frozen) == (0, "TurnTakenOver")
    assert done(tmp_path) == ["fetch", "charge", "charge", "ship", "tell"]
    assert recorded(tmp_path) == list(STEPS)


@pytest.mark.slow
def test_of_many_processes_at_one_run_one_has_it_and_the_others_are_told(tmp_path: Path) -> None:
    holder = begin(tmp_path, moment="in-1", strike=signal.SIGSTOP)
    _, status = os.waitpid(holder.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    others = [begin(tmp_path) for _ in range(4)]
    assert [ended(each) for each in others] == [(0, "RunBusy")] * 4
    holder.send_signal(signal.SIGCONT)
    assert ended(holder) == (0, DONE)
    assert done(tmp_path) == recorded(tmp_path) == list(STEPS)


@pytest.mark.slow
def test_processes_that_wait_all_have_the_result_of_the_one_that_ran(tmp_path: Path) -> None:
    processes = [begin(tmp_path, wait=60) for _ in range(5)]
    assert [ended(each) for each in processes] == [(0, DONE)] * 5
    assert done(tmp_path) == recorded(tmp_path) == list(STEPS)
