"""Real conversations, all held at the same time by a process that is killed again and again.

Each kill interrupts every one of them, wherever it happens to be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random
from secrets import randbits
from typing import Literal

import pytest
from places import on_durable_stores, on_stores
from plan import Asked, AtAppend, AtMoment, Line, Ran, Talks, lines
from story import Life, Nursery
from talks import read_talks
from verdict import judge_life, judge_stream

from turnstream.events import (
    CODEC,
    AssistantMessage,
    InputQueued,
    Message,
    StoredRecord,
    ToolMessage,
    TurnStarted,
)
from turnstream.projections import check_transcript, fold
from turnstream.stores import open_store

RECORDED = Path(__file__).parents[3] / "shared/data/airline_trajectories.jsonl.gz"
Kills = Iterator[AtAppend | AtMoment]
SIDES: tuple[Literal["before", "after"], ...] = ("before", "after")

pytestmark = [
    pytest.mark.skipif(
        not RECORDED.exists(), reason=f"{RECORDED.name} is not beside this checkout"
    ),
    on_durable_stores,
]


@pytest.fixture
def random() -> Random:
    seed = randbits(32)
    print(f"seed {seed}")
    return Random(seed)


def appends_after(resumed: int, apart: int, random: Random) -> Kills:
    """A kill at about every ``apart`` appends, once that many sessions were resumed."""
    while True:
        yield AtAppend(random.choice(SIDES), resumed + random.randint(0, 2 * apart))


@pytest.mark.slow
def test_conversations_killed_at_random_appends_are_the_recorded_ones(
    nursery: Nursery, tmp_path: Path, address: str, random: Random
) -> None:
    chosen = random.sample(range(120), 40)
    hold(nursery, tmp_path, address, chosen, appends_after(40, 150, random))


@pytest.mark.slow
@on_stores("sqlite")
@pytest.mark.parametrize("apart", [200, 600])
def test_all_conversations_killed_at_random_appends_are_the_recorded_ones(
    nursery: Nursery, tmp_path: Path, address: str, random: Random, apart: int
) -> None:
    hold(nursery, tmp_path, address, range(120), appends_after(120, apart, random))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_conversations_killed_at_random_moments_are_the_recorded_ones(
    nursery: Nursery, tmp_path: Path, address: str, random: Random
) -> None:
    """In the middle of a transaction too."""
    moments = (AtMoment(random.uniform(0.1, 0.2) * 1.3**life) for life in count())
    hold(nursery, tmp_path, address, range(120), moments)


def hold(nursery: Nursery, folder: Path, address: str, chosen: Sequence[int], kills: Kills) -> None:
    """Hold the conversations, with a process for each kill until one outlives its own, and judge
    each conversation."""
    births: list[dict[int, int]] = []
    killed = True
    while killed:
        births.append({place: len(each) for place, each in streams(address, chosen).items()})
        told = (len(births), str(RECORDED), tuple(chosen), next(kills))
        plan = Talks(str(folder), address, *told)
        killed = nursery.killed(plan)
    assert len(births) > 1
    logged = log(folder)
    for place, records in streams(address, chosen).items():
        judge_talk(place, records, [birth[place] for birth in births], logged[f"talk-{place}"])


def streams(address: str, chosen: Sequence[int]) -> dict[int, Sequence[StoredRecord]]:
    """The conversations as they are now."""
    with closing(open_store(address)) as store:
        return {place: store.read(f"talk-{place}") for place in chosen}


def judge_talk(
    place: int, records: Sequence[StoredRecord], births: list[int], logged: list[Line]
) -> None:
    """The conversation is the recorded one, and no process did again what was recorded."""
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
