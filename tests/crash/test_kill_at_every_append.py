"""A session of three turns, its process killed at every append, and again while it resumes.

What every guarantee says is judged after each story (``verdict``), from the stream and from a log
of all model calls and tool runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from secrets import randbits
from typing import Any, Literal

import pytest
from msgspec.structs import replace
from places import on_durable_stores, on_stores
from plan import AtAppend, Finished, calls, says
from story import Story
from verdict import judge

pytestmark = [on_durable_stores, pytest.mark.timeout(300)]

Side = Literal["before", "after"]
SIDES: tuple[Side, ...] = ("before", "after")
# A text that begins with ~ goes to the async tool.
SCRIPT = (
    calls("a", "~b", "c"),
    calls("~d"),
    says("first answer"),
    calls("e", "~f", "g"),
    says("second answer"),
    calls("h"),
    says("third answer"),
)
SESSION = {"inputs": ("one", "two", "three"), "order": ("c", "a", "~b")}
APPENDS = 3 + len(SCRIPT) + len("abcdefgh")
"""One for each input, for each answer of the model, and for each result."""
MOST_LIVES = 60

Begin = Callable[[], Story]


@pytest.fixture(params=[pytest.param("one by one", marks=pytest.mark.slow), "at once"])
def begin(request: pytest.FixtureRequest, tell: Callable[..., Story]) -> Begin:
    """Begin the session, its inputs sent in one of two ways."""
    return lambda: tell(*SCRIPT, **SESSION, at_once=request.param == "at once")


def finish(story: Story, **changes: Any) -> None:
    """Live on without being killed, and judge."""
    assert not story.live(**changes).killed
    judge(story)


def points(appends: int = APPENDS) -> Iterator[AtAppend]:
    return (AtAppend(side, nth) for nth in range(1, appends + 1) for side in SIDES)


def test_an_undisturbed_session_takes_an_append_for_each_message_it_gets(begin: Begin) -> None:
    story = begin()
    assert not story.live(AtAppend("before", APPENDS + 1)).killed
    judge(story)
    assert begin().live(AtAppend("after", APPENDS)).killed


@pytest.mark.slow
def test_a_session_killed_at_any_append_is_resumed_as_if_nothing_had_happened(
    begin: Begin,
) -> None:
    for point in points():
        killed_once(begin(), point)


def killed_once(story: Story, point: AtAppend) -> None:
    assert story.live(point).killed
    finish(story)
    assert len(story.asked) - len(SCRIPT) <= 1
    assert len(story.ran) - len("abcdefgh") <= 3


def test_the_next_message_resumes_a_killed_session_too(begin: Begin) -> None:
    for point in list(points())[1::7]:
        resumed_by_the_next_message(begin(), point)


@pytest.mark.slow
@on_stores("sqlite")
def test_the_next_message_resumes_a_session_killed_at_any_append(begin: Begin) -> None:
    for point in points():
        resumed_by_the_next_message(begin(), point)


def resumed_by_the_next_message(story: Story, point: AtAppend) -> None:
    assert story.live(point).killed
    finish(story, resumes=len(story.accepted) == len(story.plan.inputs))


@pytest.mark.slow
def test_a_killed_worker_sends_its_runs_again_and_each_is_done_once(
    tell: Callable[..., Story],
) -> None:
    for point in list(points())[1::12]:
        sent_again_by_name(tell(*SCRIPT, **SESSION, named=True), point)


@pytest.mark.slow
@pytest.mark.timeout(600)
@on_stores("sqlite")
def test_a_worker_killed_at_any_append_sends_its_runs_again_and_each_is_done_once(
    tell: Callable[..., Story],
) -> None:
    for point in points():
        sent_again_by_name(tell(*SCRIPT, **SESSION, named=True), point)


def sent_again_by_name(story: Story, point: AtAppend) -> None:
    """All of them, whatever became of them: first by the worker's successor, then by one more."""
    everything = {"inputs": story.plan.inputs, "resumes": False}
    assert story.live(point).killed
    finish(story, **everything)
    records, successor = story.records, story.lives[-1]
    finish(story, **everything)
    late = story.lives[-1]

    assert story.records == records and not late.asked and not late.ran
    ends = [[e for e in life.lines if isinstance(e, Finished)] for life in (successor, late)]
    assert [replace(each, life=0) for each in ends[0]] == [replace(e, life=0) for e in ends[1]]
    assert [each.turn_id for each in ends[1]] == ["turn-1", "turn-2", "turn-3"]
    assert len(story.asked) - len(SCRIPT) <= 1 and len(story.ran) - len("abcdefgh") <= 3


@pytest.fixture
def random() -> Random:
    seed = randbits(32)
    print(f"seed {seed}")
    return Random(seed)


@pytest.mark.slow
def test_a_process_killed_while_it_resumes_is_resumed_in_its_turn(
    begin: Begin, random: Random
) -> None:
    for _ in range(8):
        story = begin()
        for point in random.sample(list(points()), 3):
            story.live(point)
        finish(story)


@pytest.mark.slow
@on_stores("sqlite")
def test_a_process_killed_at_any_append_of_its_resuming_is_resumed_in_its_turn(
    begin: Begin, random: Random
) -> None:
    for first in random.sample(list(points()), 6):
        for nth in count(1):
            story = begin()
            assert story.live(first).killed
            if not story.live(AtAppend(random.choice(SIDES), nth)).killed:
                judge(story)
                break
            finish(story)


@pytest.mark.slow
@pytest.mark.parametrize("point", [AtAppend("after", 2), AtAppend("before", 3)])
def test_a_session_gets_on_although_no_process_lives_for_more_than_two_appends(
    begin: Begin, point: AtAppend
) -> None:
    story = begin()
    for _ in range(MOST_LIVES):
        if not story.live(point).killed:
            break
    judge(story)


@pytest.mark.parametrize("nth", [3, 5])
def test_a_fresh_interpreter_goes_on_where_a_killed_one_was(begin: Begin, nth: int) -> None:
    story = begin()
    assert story.live(AtAppend("after", nth), fresh=True).killed
    finish(story, fresh=True)
