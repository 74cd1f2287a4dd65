"""A process that is killed between durable steps: what was recorded is not done again."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from places import on_durable_stores
from steps_child import STEPS

from turnstream.events import CODEC, StepRecorded, ToolResultRecorded, verify
from turnstream.stores import open_store

pytestmark = on_durable_stores

PROGRAM = Path(__file__).with_name("steps_child.py")


def live(store: str, folder: Path, kind: str, moment: str) -> int:
    command = [sys.executable, PROGRAM, store, folder, kind, moment]
    return subprocess.run(command, check=False, timeout=60).returncode


def done(folder: Path) -> list[str]:
    return (folder / "done").read_text().splitlines() if (folder / "done").exists() else []


@pytest.mark.parametrize(
    ("kind", "moment", "twice"),
    [
        ("sync", "before-2", 0),
        ("sync", "in-2", 1),
        ("sync", "after-2", 0),
        ("async", "in-1", 1),
        ("async", "after-3", 0),
        ("stream", "after-4", 0),
        ("async-stream", "after-1", 0),
    ],
)
def test_what_was_recorded_before_a_kill_is_not_done_again(
    address: str, tmp_path: Path, kind: str, moment: str, twice: int
) -> None:
    assert live(address, tmp_path, kind, moment) == -signal.SIGKILL
    before = done(tmp_path)
    assert live(address, tmp_path, kind, "never") == 0

    number = int(moment.partition("-")[2])
    assert done(tmp_path) == [*before, *STEPS[len(before) - twice :]]
    assert len(before) == (number - 1 if moment.startswith("before") else number)

    with closing(open_store(address)) as kept:
        records = kept.read("order")
    assert verify(records) is None
    events = [CODEC.recorded(each).event for each in records]
    values = [each.value for each in events if isinstance(each, StepRecorded)]
    receipts = [each[0] if isinstance(each, list) else each for each in values]
    (result,) = [each.content for each in events if isinstance(each, ToolResultRecorded)]
    assert result == receipts
    lives = [each.partition(" by ")[2] for each in receipts]
    recorded = len(before) - twice
    first, second = set(lives[:recorded]), set(lives[recorded:])
    assert len(first) <= 1 and len(second) <= 1 and first.isdisjoint(second)


@pytest.mark.slow
def test_a_process_killed_in_every_step_does_each_once_more_and_none_a_third_time(
    address: str, tmp_path: Path
) -> None:
    for number in range(1, len(STEPS) + 1):
        assert live(address, tmp_path, "sync", f"in-{number}") == -signal.SIGKILL
    assert live(address, tmp_path, "sync", "never") == 0
    assert done(tmp_path) == [name for name in STEPS for _ in range(2)]
