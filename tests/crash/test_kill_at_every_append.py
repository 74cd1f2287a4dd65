"""A session of three turns, its process killed at every append, and again while it resumes.

What every guarantee says is judged after each story (``verdict``), from the stream and from a log
of all model calls and tool runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from plan import AtAppend, Plan, calls, says
from story import Story
from verdict import conversation, judge, judge_stream

Tell = Callable[..., Story]
Pace = Literal["one by one", "at once"]

# A text that begins with ~ is the async tool's.
SCRIPT = (
    calls("a", "~b", "c"),
    calls("~d"),
    says("first answer"),
    calls("e", "~f", "g"),
    says("second answer"),
    calls("h"),
    says("third answer"),
)
INPUTS = ("one", "two", "three")
ORDER = ("c", "a", "~b")
SIDES: tuple[Literal["before", "after"], ...] = ("before", "after")
MOST_LIVES = 60


@pytest.fixture(params=["one by one", "at once"])
def pace(request: pytest.FixtureRequest) -> Pace:
    return request.param


@pytest.fixture
def begin(tell: Tell, pace: Pace) -> Callable[[], Story]:
    return lambda: tell(*SCRIPT, inputs=INPUTS, order=ORDER, at_once=pace == "at once")


Begin = Callable[[], Story]


def finish(story: Story, **changes: Any) -> None:
    """Live on until nobody is killed, and judge."""
    assert not story.live(**changes).killed
    judge(story)


def appends(begin: Begin) -> int:
    """How many appends the session takes where nothing is killed."""
    story = begin()
    finish(story)
    return 1 + sum(isinstance_first(story))


def isinstance_first(story: Story) -> Iterator[bool]:
    raise NotImplementedError
