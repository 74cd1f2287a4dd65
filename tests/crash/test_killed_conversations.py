"""Real conversations, all held at the same time by a process that is killed again and again.

Each kill interrupts every one of them, wherever it happens to be.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from secrets import randbits
from typing import Literal

import pytest
from plan import Asked, AtAppend, Line, Ran, Talks, lines
from story import Life, Nursery, stream
from talks import read_talks
from verdict import judge_life, judge_stream

from turnstream.events import (
    CODEC,
    AssistantMessage,
    InputQueued,
    Message,
    ToolMessage,
    TurnStarted,
)
from turnstream.projections import check_transcript, fold

RECORDED = Path(__file__).parents[3] / "shared/data/airline_trajectories.jsonl.gz"
SIDES: tuple[Literal["before", "after"], ...] = ("before", "after")

pytestmark = pytest.mark.skipif(
    not RECORDED.exists(), reason=f"{RECORDED.name} is not beside this checkout"
)


def test_conversations_killed_at_random_appends_are_the_recorded_ones(
    nursery: Nursery, tmp_path: Path
) -> None:
    seed = randbits(32)
    hold(nursery, tmp_path, seed, chosen=tuple(Random(seed).sample(range(120), 40)), apart=150)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [200, 600])
def test_all_conversations_killed_at_random_appends_are_the_recorded_ones(
    nursery: Nursery, tmp_path: Path, apart: int
) -> None:
    hold(nursery, tmp_path, randbits(32), chosen=tuple(range(120)), apart=apart)


def hold(nursery: Nursery, folder: Path, seed: int, *, chosen: tuple[int, ...], apart: int) -> None:
    """Hold the conversations, with a kill about ``apart`` appends after each of them was resumed,
    and judge them."""
    print(f"seed {seed}")
    random = Random(seed)
    births: list[dict[int, int]] = []
    killed = True
    while killed:
        births.append({place: len(stream(folder, f"talk-{place}")) for place in chosen})
        kill = AtAppend(random.choice(SIDES), len(chosen) + random.randint(0, 2 * apart))
        plan = Talks(str(folder), len(births), str(RECORDED), chosen, kill)
        killed = nursery.killed(plan)
    assert len(births) > 1
    logged = log(folder)
    for place in chosen:
        judge_talk(place, folder, [birth[place] for birth in births], logged[f"talk-{place}"])


def judge_talk(place: int, folder: Path, births: list[int], logged: list[Line]) -> None:
    """The conversation is the recorded one, and no process did again what was recorded."""
    records = stream(folder, f"talk-{place}")
    events = [CODEC.decode(each.topic, each.payload) for each in records]
    messages = fold(events).transcript
    check_transcript(messages)
    assert [said(each) for each in messages] == [said(each) for each in recorded(place)]
    queued = [each.input_id for each in events if isinstance(each, InputQueued)]
    started = [i for each in events if isinstance(each, TurnStarted) for i in each.input_ids]
    assert queued == started
    judge_stream(records)
    for life, (birth, death) in enumerate(zip(births, [*births[1:], len(records)], strict=True), 1):
        own = [each for each in logged if each.life == life]
        judge_life(Life(records[:death], birth, own, killed=True))


def said(message: Message) -> object:
    """A message, but for ids: a call whose id was used before gets one of its own."""
    match message:
        case AssistantMessage(text=text, tool_calls=calls):
            return text, [(each.name, each.arguments) for each in calls]
        case ToolMessage(name=name, content=content, outcome=outcome):
            return name, content, outcome
        case _:
            return message


def recorded(place: int) -> list[Message]:
    return list(read_talks(str(RECORDED))[place])


def log(folder: Path) -> dict[str, list[Line]]:
    """The calls of each conversation."""
    logged: defaultdict[str, list[Line]] = defaultdict(list)
    for each in lines(folder / "log"):
        assert isinstance(each, (Asked, Ran))
        logged[each.session_id].append(each)
    return logged
