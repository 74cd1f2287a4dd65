"""Comparing sessions, views of them, checkpoints and plain transcripts, in any mix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..events.codec import CODEC
from ..events.envelope import StoredRecord
from ..events.messages import Message
from ..projections import Checkpoint, Comparison, Trajectory, View, compare_trajectories
from ..projections.comparing import Leniency
from ..projections.trajectory import course, trajectory_steps
from .handles import Session

Comparable: TypeAlias = Session | View | Checkpoint | Sequence[Message]


def compare(
    a: Comparable,
    b: Comparable,
    *,
    ignore: Mapping[str, Iterable[str]] | None = None,
    ignore_text: bool = False,
) -> Comparison:
    """Compare two runs: where they part, and in what.

    ``a`` and ``b`` are sessions, views, checkpoints or transcripts. The conversation is compared
    as it is, an open turn included; ids are left aside, numbers count by value, texts have to be
    the same to the letter. ``ignore`` names, by tool, arguments that may differ; ``ignore_text``
    leaves aside what answers say.

    Of sessions also the finish reasons of turns are compared, and the events counted that both
    streams begin with. Blocks for a short read of each session; on an event loop, compare views,
    or use ``asyncio.to_thread``. Raises ``InvalidTranscript`` for a result of no call, and
    ``TypeError`` for what can't be compared.
    """
    return compare_runs(_run(a), _run(b), Leniency.of(ignore, text=ignore_text))


class Run(Struct, frozen=True):
    """A run to be compared; ``records`` are the stream it is read from, where it is."""

    trajectory: Trajectory
    records: Sequence[StoredRecord] | None = None


def run_of(records: Sequence[StoredRecord]) -> Run:
    """The run that a stream holds. Raises ``CorruptEvent``."""
    events = (CODEC.recorded(record).event for record in records)
    return Run(course(events).trajectory, records)


def compare_runs(a: Run, b: Run, leniency: Leniency) -> Comparison:
    """Compare two runs, and their streams where there are two."""
    found = compare_trajectories(a.trajectory, b.trajectory, leniency)
    if a.records is None or b.records is None:
        return found
    return replace(found, shared=_shared(a.records, b.records))


def _shared(a: Sequence[StoredRecord], b: Sequence[StoredRecord]) -> int:
    """How many events both streams begin with. Each holds the digest of the one before it, so
    two of the same bytes have the same past, and the first two that differ end it."""
    for shared, (one, other) in enumerate(zip(a, b, strict=False)):
        if (one.topic, one.payload) != (other.topic, other.payload):
            return shared
    return min(len(a), len(b))


def _run(given: Comparable) -> Run:
    match given:
        case Session():
            return run_of(given.records())
        case (View() as seen) | Checkpoint(checkpoint=seen):
            return Run(_seen(seen))
        case Sequence() if not isinstance(given, str):
            return Run(Trajectory(trajectory_steps(map(_message, given))))
    raise TypeError(
        f"sessions, views, checkpoints and transcripts can be compared, not {type(given).__name__}"
    )


def _seen(view: View) -> Trajectory:
    """Of a view only the end of the last turn is known."""
    state = view.folded
    results = state.turn.results if state.turn is not None else []
    ended = {} if state.ended is None else {state.ended.length: str(state.ended.finish_reason)}
    steps = trajectory_steps((*state.transcript, *results), ended)
    return Trajectory(steps, view.usage.recorded)


def _message(given: Any) -> Message:
    if not isinstance(given, Message):
        raise TypeError(f"a transcript is made of messages, not of {type(given).__name__}")
    return given
