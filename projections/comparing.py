"""Where two runs part, and in what.

Runs are compared as programs mean them, not as they are written: the order of keys and the ids of
calls say nothing, 1 is 1.0, and a ``True`` is no 1. The work is linear in the size of the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any, TypeAlias

from msgspec import UNSET, Struct

from ..events.messages import Usage
from .trajectory import Trajectory, TrajectoryCall, TrajectoryStep


class ToolOrderDrift(Struct, frozen=True, tag_field="type", tag="tool-order"):
    """In this step other tools were called, or the same in another order."""

    step: int
    a: tuple[str, ...]
    b: tuple[str, ...]


class ArgumentDrift(Struct, frozen=True, tag_field="type", tag="argument"):
    """The ``call``-th call of this step has another value for an argument, ``UNSET`` where it is
    not given. ``argument`` is empty for arguments that are no JSON object: then ``a`` and ``b``
    are their text."""

    step: int
    call: int
    tool: str
    argument: str
    a: Any
    b: Any


class StepCountDrift(Struct, frozen=True, tag_field="type", tag="step-count"):
    """One run has more steps; ``step`` is the first that the other one lacks."""

    step: int
    a: int
    b: int


class FinishReasonDrift(Struct, frozen=True, tag_field="type", tag="finish-reason"):
    """The turn ended another way with this step; empty where it went on."""

    step: int
    a: str
    b: str


StepDrift: TypeAlias = ToolOrderDrift | ArgumentDrift
Drift: TypeAlias = StepDrift | StepCountDrift | FinishReasonDrift


class Comparison(Struct, frozen=True):
    """Two runs beside each other. ``diverged_at`` is the first step that differs in its text, its
    calls or their results; None where none does. ``shared`` is how many events the streams of two
    sessions have in common at their beginning, byte for byte, as a fork and its source do."""

    diverged_at: int | None
    a: tuple[TrajectoryStep, ...]
    b: tuple[TrajectoryStep, ...]
    drift: tuple[Drift, ...] = ()
    usage_a: Usage | None = None
    usage_b: Usage | None = None
    shared: int | None = None

    @property
    def equal(self) -> bool:
        """Whether nothing differs, usage aside."""
        return self.diverged_at is None and not self.drift


class Leniency(Struct, frozen=True):
    """What is not compared: arguments by tool, and the texts of answers."""

    arguments: Mapping[str, frozenset[str]] = {}
    text: bool = False

    @classmethod
    def of(cls, ignore: Mapping[str, Iterable[str]] | None, *, text: bool) -> Leniency:
        """As callers say it. ``TypeError`` for a text where a collection of names is meant."""
        for tool, names in (ignore or {}).items():
            if isinstance(names, str):
                raise TypeError(
                    f"ignore[{tool!r}] is a collection of names: write ({names!r},), not {names!r}"
                )
        return cls({tool: frozenset(names) for tool, names in (ignore or {}).items()}, text)


EXACT = Leniency()


def compare_trajectories(a: Trajectory, b: Trajectory, leniency: Leniency = EXACT) -> Comparison:
    """Compare two runs, step by step from the first."""
    both = enumerate(zip(a.steps, b.steps, strict=False))
    diverged_at: int | None = None
    drift: list[Drift] = []
    for step, (one, other) in both:
        if diverged_at is None and not same_step(one, other, leniency):
            diverged_at = step
        drift += step_drift(step, one, other, leniency)
        if one.ended is not None and other.ended is not None and one.ended != other.ended:
            drift.append(FinishReasonDrift(step, one.ended, other.ended))
    shorter = min(len(a.steps), len(b.steps))
    if len(a.steps) != len(b.steps):
        drift.append(StepCountDrift(shorter, len(a.steps), len(b.steps)))
        diverged_at = shorter if diverged_at is None else diverged_at
    return Comparison(diverged_at, a.steps, b.steps, tuple(drift), a.usage, b.usage)


def same_step(a: TrajectoryStep, b: TrajectoryStep, leniency: Leniency = EXACT) -> bool:
    """Whether two steps say the same, call the same, and were answered the same."""
    if not leniency.text and a.text != b.text:
        return False
    if len(a.calls) != len(b.calls):
        return False
    pairs = zip(a.calls, b.calls, strict=True)
    return all(_same_call(one, other, leniency) for one, other in pairs)


def step_drift(
    step: int, a: TrajectoryStep, b: TrajectoryStep, leniency: Leniency = EXACT
) -> list[StepDrift]:
    """In what the calls of two steps differ."""
    names = tuple([each.name for each in a.calls]), tuple([each.name for each in b.calls])
    if names[0] != names[1]:
        return [ToolOrderDrift(step, *names)]
    found: list[StepDrift] = []
    for place, (one, other) in enumerate(zip(a.calls, b.calls, strict=True)):
        found += [
            ArgumentDrift(step, place, one.name, *differing)
            for differing in _differing(one, other, leniency)
        ]
    return found


def same_value(a: Any, b: Any) -> bool:
    """Whether two pieces of plain data mean the same: numbers by value, mappings in any order,
    lists and tuples in order; a bool is no number, NaN is itself, None is not nothing."""
    pending = [(a, b)]
    while pending:
        one, other = pending.pop()
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found = _keyed(one), _keyed(other)
            if found[0].keys() != found[1].keys():
                return False
            pending += [(value, found[1][key]) for key, value in found[0].items()]
        elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
            if len(one) != len(other):
                return False
            pending += zip(one, other, strict=True)
        elif not _same_scalar(one, other):
            return False
    return True


def _same_call(a: TrajectoryCall, b: TrajectoryCall, leniency: Leniency) -> bool:
    return (
        a.name == b.name
        and a.outcome == b.outcome
        and same_value(a.result, b.result)
        and not _differing(a, b, leniency)
    )


def _differing(
    a: TrajectoryCall, b: TrajectoryCall, leniency: Leniency
) -> Sequence[tuple[str, Any, Any]]:
    """The arguments that differ, each with its two values."""
    if a.malformed or b.malformed:
        return [] if a.malformed == b.malformed else [("", a.malformed, b.malformed)]
    ignored = leniency.arguments.get(a.name, frozenset())
    names = [name for name in {**a.arguments, **b.arguments} if name not in ignored]
    values = [(name, a.arguments.get(name, UNSET), b.arguments.get(name, UNSET)) for name in names]
    found = [(str(name), x, y) for name, x, y in values if not same_value(x, y)]
    return sorted(found, key=itemgetter(0))


def _same_scalar(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if _is_nan(a) or _is_nan(b):
        return _is_nan(a) and _is_nan(b)
    return bool(a == b)


def _is_nan(value: Any) -> bool:
    return value.is_nan() if isinstance(value, Decimal) else value != value  # noqa: PLR0124


def _keyed(mapping: Mapping[Any, Any]) -> dict[Any, Any]:
    """The mapping by keys that tell ``True`` from 1 and know NaN."""
    return {key if type(key) is str else _key(key): value for key, value in mapping.items()}


def _key(key: Any) -> Any:
    return (bool, key) if isinstance(key, bool) else (None,) if _is_nan(key) else (object, key)
