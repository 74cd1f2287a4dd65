"""The judgement: does what is written down say that nothing was lost, repeated or made up?

Three witnesses that do not know of each other are heard: the session's stream, the data set,
and the log of what was really called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

from ...events.chain import verify
from ...events.codec import CODEC
from ...events.envelope import StoredRecord
from ...events.messages import ToolCall
from ...events.session import (
    AnyEvent,
    ModelTurnRecorded,
    ToolCallStarted,
    ToolResultRecorded,
)
from ...projections import fold
from .calls import Called, ModelAsked, ToolRan
from .desk import Refund
from .recording import recording

T = TypeVar("T")


class Check(Struct, frozen=True):
    """One thing that has to hold; ``found`` is what it was judged by."""

    name: str
    holds: bool
    found: str


class Evidence:
    """What the three witnesses say."""

    def __init__(
        self, records: Sequence[StoredRecord], called: Sequence[Called], refunds: Sequence[Refund]
    ) -> None:
        self.records: Sequence[StoredRecord] = records
        self.refunds: Sequence[Refund] = refunds
        self.events: list[AnyEvent] = [CODEC.decode(each.topic, each.payload) for each in records]
        self.asked: list[ModelAsked] = [each for each in called if isinstance(each, ModelAsked)]
        self.ran: list[ToolRan] = [each for each in called if isinstance(each, ToolRan)]

    def recorded(self, kind: type[T]) -> list[T]:
        """The stream's events of one type."""
        return [each for each in self.events if isinstance(each, kind)]

    @cached_property
    def calls(self) -> Mapping[str, ToolCall]:
        """The calls the model asked for, by id."""
        turns = self.recorded(ModelTurnRecorded)
        return {call.id: call for turn in turns for call in turn.tool_calls}

    @cached_property
    def results(self) -> Counter[str]:
        """How many results each call has."""
        return Counter(each.call_id for each in self.recorded(ToolResultRecorded))


def judge(evidence: Evidence) -> list[Check]:
    """All checks, in the order they are told."""
    return [check(evidence) for check in _CHECKS]


def _asked_once(evidence: Evidence) -> Check:
    asked = [(each.turn_id, each.step) for each in evidence.asked]
    turns = [(each.turn_id, each.step) for each in evidence.recorded(ModelTurnRecorded)]
    return Check(
        "no model turn was asked for twice",
        bool(turns) and sorted(asked) == sorted(turns) and len(set(turns)) == len(turns),
        f"the workers asked the model {len(asked)} times, {len(turns)} answers are recorded",
    )


def _answered_once(evidence: Evidence) -> Check:
    calls, results = evidence.calls, evidence.results
    return Check(
        "every call has exactly one result",
        bool(calls) and results == Counter(dict.fromkeys(calls, 1)),
        f"{len(calls)} calls, {results.total()} results",
    )


def _ran_again(evidence: Evidence) -> Check:
    """The crash was real: what one process began, another one ran again, with the same key."""
    cut_off = {each.call_id for each in evidence.recorded(ToolCallStarted) if each.attempt > 1}
    runs = [each for each in evidence.ran if each.call_id in cut_off]
    written = {(each.idempotency_key, each.attempt) for each in evidence.refunds}
    told = [f"{run.call_id}, attempt {run.attempt}, in process {run.pid}" for run in runs]
    return Check(
        "the call that was cut off after its write ran again in another process",
        len(cut_off) == len({run.idempotency_key for run in runs}) == 1
        and [run.attempt for run in runs] == [1, 2]
        and runs[0].pid != runs[1].pid
        and (runs[0].idempotency_key, 1) in written,
        "; ".join(told) or "no call was cut off",
    )


def _refunded_once(evidence: Evidence) -> Check:
    calls = [call for call in evidence.calls.values() if call.name == "refund"]
    due = Counter(map(_order_and_cents, calls))
    paid = Counter((each.order_id, each.cents) for each in evidence.refunds)
    runs = sum(run.call_id in {call.id for call in calls} for run in evidence.ran)
    return Check(
        "every refund is in the data set once",
        bool(due) and due == paid,
        f"the tool ran {runs} times for {len(calls)} calls, and wrote {paid.total()} refunds",
    )


def _order_and_cents(call: ToolCall) -> tuple[str, int]:
    return call.arguments["order_id"], int(Decimal(call.arguments["amount"]) * 100)


def _chained(evidence: Evidence) -> Check:
    fault = verify(evidence.records)
    return Check(
        "the chain of the stream verifies",
        bool(evidence.records) and fault is None,
        f"version {fault.version} {fault.reason}" if fault else f"{len(evidence.records)} events",
    )


def _as_recorded(evidence: Evidence) -> Check:
    state, expected = fold(evidence.events), recording().conversation
    return Check(
        "the conversation is the one a run without the crash gives",
        state.status == "idle" and state.conversation == expected,
        f"{state.status}, {len(state.conversation)} messages of {len(expected)}",
    )


_CHECKS: Sequence[Callable[[Evidence], Check]] = (
    _asked_once,
    _answered_once,
    _ran_again,
    _refunded_once,
    _chained,
    _as_recorded,
)
