"""How long to wait before a model is asked again that could not answer."""

from __future__ import annotations

from collections.abc import Callable
from random import uniform
from typing import TypeAlias

FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
LONGEST_ASKED_FOR = 120.0

RetryWait: TypeAlias = Callable[[int, float | None], float]
"""Seconds to wait, given the number of failures so far and the seconds the provider asked for."""


def backoff(failures: int, retry_after: float | None) -> float:
    """Half a second after the first failure, and twice as long after each further one, up to 30
    seconds; of that, at random, between a half and all, so that sessions that failed together do
    not come back together. At least as long as the provider asked for, but never more than two
    minutes.
    """
    wait = min(FIRST_WAIT * 2 ** min(failures - 1, 16), LONGEST_WAIT)
    spread = uniform(wait / 2, wait)  # noqa: S311 - no secret
    return max(spread, min(retry_after or 0.0, LONGEST_ASKED_FOR))
