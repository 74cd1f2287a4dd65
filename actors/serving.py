"""A process that does what is left to do: unfinished turns, and inputs that others appended."""

from __future__ import annotations

import logging
from threading import Event

from ..events.errors import TurnstreamError
from ..events.session import Status
from .system import ActorSystem

log: logging.Logger = logging.getLogger("turnstream")

ROUND_SECONDS = 1.0


def serve(system: ActorSystem, stop: Event, *, every: float = ROUND_SECONDS) -> None:
    """Go on with whatever is unfinished and runs nowhere, and look again ``every`` so many
    seconds, until ``stop`` is set.

    Turns that failed are tried again once, at the beginning; those of which decisions are waited
    for go on when there is one, or when it is no longer waited for.
    """
    statuses: tuple[Status, ...] = ("running", "failed", "awaiting-approval")
    while not stop.is_set():
        try:
            system.resume_those(*statuses, idle_here=True)
        except TurnstreamError as error:
            log.warning("what is unfinished is looked at again later: %s", error.code)
        statuses = ("running", "awaiting-approval")
        stop.wait(every)
