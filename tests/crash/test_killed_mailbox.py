"""A session of which much is asked at random, its process killed at random, again and again.

The last process answers everything. Then the guarantees are judged, from the stream and from the
log of what the models, the tools and the callers of all its processes saw.
"""

# The modules of the machines are found at run time.
# pyright: reportMissingImports=false

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from secrets import randbits

import msgspec
import pytest
from places import NewAddress, on_durable_stores
from plan import AtAppend, AtMoment
from story import events, stream

sys.path.insert(0, str(Path(__file__).parents[1] / "machines"))
pytest.register_assert_rewrite("decisions", "guarantees", "spending", "witnessed")

from decisions import gated_calls_run_when_approved  # noqa: E402
from guarantees import every_split_folds_alike, judge_stream  # noqa: E402
from lives import Settings  # noqa: E402
from mailbox_child import Noted, Part  # noqa: E402
from outfits import ASKS, GATED  # noqa: E402
from witnessed import judge_witnesses  # noqa: E402

from turnstream.events import verify  # noqa: E402
from turnstream.projections import fold  # noqa: E402

pytestmark = on_durable_stores

PROGRAM = Path(__file__).with_name("mailbox_child.py")
Run = Callable[[Part], bool]
Kill = Callable[[Random], AtAppend | AtMoment]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run a process to its end, and tell whether it was killed."""
    with subprocess.Popen(
        [sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        stdin, stdout = server.stdin, server.stdout
        assert stdin is not None and stdout is not None

        def killed(part: Part) -> bool:
            stdin.write(msgspec.json.encode(part) + b"\n")
            stdin.flush()
            code = os.waitstatus_to_exitcode(int(stdout.readline()))
            assert code in (0, -signal.SIGKILL), f"{part} ended with {code}"
            return code != 0

        yield killed
        stdin.close()


@pytest.fixture
def random() -> Random:
    seed = randbits(32)
    print(f"seed {seed}")
    return Random(seed)


def at_some_append(random: Random) -> AtAppend:
    return AtAppend(random.choice(["before", "after"]), random.randint(1, 25))


def at_some_moment(random: Random) -> AtMoment:
    return AtMoment(random.uniform(0.02, 0.12))


def settings(random: Random) -> Settings:
    return Settings(
        random.choice(["stream", "async", "sync"]),
        random.choice([2, 4, 32]),
        random.choice([None, None, 12]),
        random.choice([1, 2, 8]),
        random.choice(["keep", "keep", "drop"]),
    )


def live_and_judge(run: Run, folder: Path, store: str, random: Random, kill: Kill) -> int:
    """Several lives, each judged at its end, and the last one's end is the session's; how many of
    them were cut short."""
    folder.mkdir()
    agreed, lives, killed = settings(random), random.randint(2, 5), 0
    for life in range(1, lives + 1):
        seed = random.getrandbits(32)
        killed += run(Part(str(folder), store, life, seed, agreed, 30, kill=kill(random)))
        judge(folder, store)
    seed = random.getrandbits(32)
    assert not run(Part(str(folder), store, lives + 1, seed, agreed, 5, ends=True))
    judge(folder, store)
    recorded = events(stream(store))
    state = fold(recorded)
    assert state.turn is None and not state.queued
    every_split_folds_alike(recorded)
    return killed


def judge(folder: Path, store: str) -> None:
    records = stream(store)
    assert verify(records) is None
    judge_stream(events(records))
    gated_calls_run_when_approved(events(records), GATED, ASKS)
    log = (folder / "log").read_bytes() if (folder / "log").exists() else b""
    noted = [msgspec.json.decode(line, type=Noted).seen for line in log.splitlines()]
    assert max((getattr(each, "seen", 0) for each in noted), default=0) <= len(records)
    judge_witnesses(events(records), noted)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [at_some_append, at_some_moment])
def test_what_was_accepted_is_used_once_although_its_process_is_killed(
    run: Run, tmp_path: Path, new_address: NewAddress, random: Random, kill: Kill
) -> None:
    lives = [tmp_path / f"life {n}" for n in range(4)]
    assert sum(live_and_judge(run, each, new_address(), random, kill) for each in lives)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kill", [at_some_append, at_some_moment])
def test_whatever_is_asked_of_a_session_the_guarantees_outlive_its_processes(
    run: Run, tmp_path: Path, new_address: NewAddress, random: Random, kill: Kill
) -> None:
    lives = [tmp_path / f"life {n}" for n in range(20)]
    assert sum(live_and_judge(run, each, new_address(), random, kill) for each in lives) > 5
