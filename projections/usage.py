"""What a session used, by model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ..events.messages import NO_USAGE, Usage
from ..events.session import (
    AnyEvent,
    ModelCallDiscarded,
    ModelTurnRecorded,
    SessionStarted,
    ToolResultRecorded,
)
from ..events.terms import ForkOrigin


class SessionUsage(Struct, frozen=True):
    """Tokens of recorded model turns, in all and by model; and, apart, those of answers that
    were thrown away, where the provider told. ``inherited`` are those of the recorded ones that
    a fork has from its source; ``children`` those that sub-agents used, in sessions of their
    own, whose calls and models are not counted here."""

    recorded: Usage = Usage()
    discarded: Usage = Usage()
    model_calls: int = 0
    by_model: Mapping[str, Usage] = {}
    inherited: Usage = Usage()
    children: Usage = Usage()


_NONE = SessionUsage()


def evolve_usage(usage: SessionUsage, event: AnyEvent) -> SessionUsage:
    """The usage after ``event``."""
    match event:
        case ModelTurnRecorded():
            used = usage.by_model.get(event.model, Usage()) + event.usage
            return replace(
                usage,
                recorded=usage.recorded + event.usage,
                model_calls=usage.model_calls + 1,
                by_model={**usage.by_model, event.model: used},
            )
        case ModelCallDiscarded(usage=Usage() as wasted):
            return replace(usage, discarded=usage.discarded + wasted)
        case ToolResultRecorded(usage=used) if used != NO_USAGE:
            recorded, children = usage.recorded + used, usage.children + used
            return replace(usage, recorded=recorded, children=children)
        case SessionStarted(forked_from=ForkOrigin()):
            return replace(usage, inherited=usage.recorded)
        case _:
            return usage


def fold_usage(events: Iterable[AnyEvent], usage: SessionUsage = _NONE) -> SessionUsage:
    """The usage after all of ``events``."""
    for event in events:
        usage = evolve_usage(usage, event)
    return usage
