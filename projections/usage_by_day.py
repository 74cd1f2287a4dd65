"""The built-in read model of what was used: by day (UTC), model and tool.

A fork begins with the events of another session, which were counted there. What marks it as a
fork comes right after them; until then they look like any new session's. So while the log is at
one session, from its first event on, the rows are kept as they were before it, and put back where
the mark comes. Copy and mark stand together in the log: another session's event between them can't
be, and so one such memory is enough, however many sessions there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..events.envelope import RecordedEvent
from ..events.messages import NO_USAGE, Usage
from ..events.session import (
    ModelCallDiscarded,
    ModelTurnRecorded,
    SessionStarted,
    ToolResultRecorded,
)
from .read_model import Rows


class ModelUsage(Struct, frozen=True, gc=False, omit_defaults=True, tag="model"):
    """What the answers of one model took that were recorded on one day (``2030-01-31``, UTC)."""

    day: str
    model: str
    calls: int = 0
    usage: Usage = NO_USAGE


class DiscardedUsage(Struct, frozen=True, gc=False, omit_defaults=True, tag="discarded"):
    """What the model calls of one day took that came to nothing, where the provider told."""

    day: str
    calls: int = 0
    usage: Usage = NO_USAGE


class ToolUsage(Struct, frozen=True, gc=False, omit_defaults=True, tag="tool"):
    """How often models asked for one tool on one day, and how the calls that ended then did."""

    day: str
    tool: str
    calls: int = 0
    ok: int = 0
    error: int = 0
    rejected: int = 0
    cancelled: int = 0
    skipped: int = 0


DayUsage: TypeAlias = ModelUsage | DiscardedUsage | ToolUsage


class LastSession(Struct, frozen=True, omit_defaults=True, tag="last"):
    """The session the log is at, if it was from its first event on; and of the rows that it
    changed, what they were ``before``."""

    session_id: str
    before: Mapping[str, DayUsage | None] = {}


class OpenCalls(Struct, frozen=True, tag="calls"):
    """The tools of the calls that a session has open, by call id."""

    tools: Mapping[str, str]


UsageRow: TypeAlias = DayUsage | LastSession | OpenCalls
_Rows: TypeAlias = Rows[UsageRow]

MODELS, DISCARDED, TOOLS = "model/", "discarded/", "tool/"
_LAST, _OPEN_CALLS = "last", "calls/"


class UsageByDay:
    """Tokens and calls by day, model and tool, over all sessions; of a fork, what was used in the
    fork. The keys begin with ``model/``, ``discarded/`` or ``tool/`` and the day; rows with
    other keys are its own notes. A deleted session stays counted until the next rebuild."""

    name: str = "usage"
    fold: int = 1
    row: Any = UsageRow

    def apply(self, event: RecordedEvent, rows: _Rows) -> None:
        """Count what the event used."""
        _, session_id, version, _, said = event
        last = rows.get(_LAST)
        if not (isinstance(last, LastSession) and last.session_id == session_id):
            if version == 1:
                rows.put(_LAST, LastSession(session_id))
            elif last is not None:
                rows.remove(_LAST)
        rule = _RULES.get(type(said))
        if rule is not None:
            rule(said, rows, session_id)


def _model_turn(event: ModelTurnRecorded, rows: _Rows, session_id: str) -> None:
    day = _day(event.at)
    key = f"{MODELS}{day}/{event.model}"
    match rows.get(key):
        case ModelUsage(calls=calls, usage=usage):
            used = ModelUsage(day, event.model, calls + 1, usage + event.usage)
        case _:
            used = ModelUsage(day, event.model, 1, event.usage)
    _put(rows, key, used)
    if event.tool_calls:
        for call in event.tool_calls:
            _count_call(rows, day, call.name, "calls")
        tools = {call.id: call.name for call in event.tool_calls}
        rows.put(f"{_OPEN_CALLS}{session_id}", OpenCalls(tools))


def _discarded(event: ModelCallDiscarded, rows: _Rows, session_id: str) -> None:
    day = _day(event.at)
    key = f"{DISCARDED}{day}"
    wasted = event.usage or NO_USAGE
    match rows.get(key):
        case DiscardedUsage(calls=calls, usage=usage):
            used = DiscardedUsage(day, calls + 1, usage + wasted)
        case _:
            used = DiscardedUsage(day, 1, wasted)
    _put(rows, key, used)


def _tool_result(event: ToolResultRecorded, rows: _Rows, session_id: str) -> None:
    key = f"{_OPEN_CALLS}{session_id}"
    match rows.get(key):
        case OpenCalls(tools) if event.call_id in tools:
            _count_call(rows, _day(event.at), tools[event.call_id], event.outcome)
            left = {each: name for each, name in tools.items() if each != event.call_id}
            if left:
                rows.put(key, OpenCalls(left))
            else:
                rows.remove(key)


def _started(event: SessionStarted, rows: _Rows, session_id: str) -> None:
    """Of a fork, take back what was copied. The calls that are open stay: they end in it."""
    if event.forked_from is None:
        return
    match rows.get(_LAST):
        case LastSession(before=before):
            for key, row in before.items():
                if row is None:
                    rows.remove(key)
                else:
                    rows.put(key, row)
            # A fork of this one copies this mark, and then has to take back what follows.
            rows.put(_LAST, LastSession(session_id))


_RULES: dict[type, Callable[[Any, _Rows, str], None]] = {
    ModelTurnRecorded: _model_turn,
    ModelCallDiscarded: _discarded,
    ToolResultRecorded: _tool_result,
    SessionStarted: _started,
}


def _count_call(rows: _Rows, day: str, tool: str, what: str) -> None:
    """``what`` is ``calls`` or an outcome."""
    key = f"{TOOLS}{day}/{tool}"
    row = rows.get(key)
    used = row if isinstance(row, ToolUsage) else ToolUsage(day, tool)
    _put(rows, key, replace(used, **{what: getattr(used, what) + 1}))


def _put(rows: _Rows, key: str, used: DayUsage) -> None:
    match rows.get(_LAST):
        case LastSession(session_id, before) if key not in before:
            earlier = rows.get(key)
            assert not isinstance(earlier, LastSession | OpenCalls)
            rows.put(_LAST, LastSession(session_id, {**before, key: earlier}))
    rows.put(key, used)


def _day(at: datetime) -> str:
    return at.astimezone(UTC).date().isoformat()
