"""Snapshots of a fold: equal to it, or none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from turnstream.events import (
    AgentConfigured,
    ApprovalRequested,
    ApprovalResolved,
    Budget,
    ContextCarried,
    FilePart,
    ForkOrigin,
    InputQueued,
    ModelCallDiscarded,
    ModelTurnRecorded,
    Owner,
    SessionEvent,
    SessionRewound,
    SessionStarted,
    StateChanged,
    StepRecorded,
    TextPart,
    ToolCall,
    ToolCallStarted,
    ToolResultRecorded,
    ToolSpec,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
    Usage,
)
from turnstream.projections import (
    FOLD,
    Folded,
    SessionState,
    dump_snapshot,
    fold,
    fold_usage,
    load_snapshot,
)

AT = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
DIGESTS = {1: "4ba0d1e89e262d9b", 2: "9ed131ef7cce3382"}


def turn(number: int, *inside: SessionEvent, content: Any = "hi") -> list[SessionEvent]:
    name, given_ = f"turn-{number}", f"i{number}"
    return [
        InputQueued(at=AT, input_id=given_, content=content, key=f"k{number}", run_id=f"r{number}"),
        TurnStarted(
            at=AT,
            turn_id=name,
            input_ids=(given_,),
            agent="a",
            budget=Budget(8, seconds=60.0),
            owner=Owner(3, "n"),
            fingerprint="f",
            run_id=f"r{number}",
        ),
        *(replace(each, turn_id=name) for each in inside),
    ]


def calls(step: int, *called: ToolCall) -> ModelTurnRecorded:
    return ModelTurnRecorded(
        at=AT,
        turn_id="",
        step=step,
        text="let me see",
        tool_calls=called,
        parts=({"sig": ["x", {"y": None}]},),
        usage=Usage(10, 2, 1, 1),
        model="m",
    )


def result(call_id: str, content: Any = "fine") -> ToolResultRecorded:
    return ToolResultRecorded(at=AT, turn_id="", call_id=call_id, content=content)


ONE, TWO = ToolCall("c1", "t", {"a": [1, {"b": 2.5}]}), ToolCall("c2", "u", malformed="{")
STREAM: list[SessionEvent] = [
    SessionStarted(at=AT, agent="a", tenant="t"),
    AgentConfigured(at=AT, name="a", model="m", tools=(ToolSpec("t", "T.", {"type": "object"}),)),
    StateChanged(at=AT, value={"n": [1, None, True, 1.5, "x"]}),
    *turn(1, calls(1, ONE, TWO), ToolCallStarted(at=AT, turn_id="", call_id="c1"), result("c2")),
    ApprovalRequested(at=AT, approval_id="s/1", turn_id="turn-1", call_id="c1"),
    result("c1", {"x": 1}),
    ModelTurnRecorded(at=AT, turn_id="turn-1", step=2, text="done", usage=Usage(5, 5)),
    TurnFinished(at=AT, turn_id="turn-1"),
    *turn(2, calls(1, ONE), result("c1"), content=(TextPart("x"), FilePart("f", data=b"\0"))),
    TurnAborted(at=AT, turn_id="turn-2"),
    SessionRewound(at=AT, keep_entries=3, undoes=1),
    *turn(3, calls(1, ONE, TWO), ToolCallStarted(at=AT, turn_id="", call_id="c1", attempt=2)),
    StepRecorded(
        at=AT,
        turn_id="turn-3",
        call_id="c1",
        name="charge",
        arguments_digest="d",
        value={"r": [1, {"y": None}]},
        position=1,
    ),
    ApprovalRequested(
        at=AT,
        approval_id="s/3",
        turn_id="turn-3",
        call_id="c2",
        expires_at=AT + timedelta(days=1),
        path=("p",),
    ),
    InputQueued(at=AT, input_id="late", content="and?", policy="steer"),
    result("c1"),
    ApprovalResolved(at=AT, approval_id="s/3", decision="approved", by="mia", arguments={"a": 1}),
    result("c2"),
    ModelCallDiscarded(at=AT, turn_id="turn-3", step=2, reason="failed", usage=Usage(1, 1)),
    TurnFailed(at=AT, turn_id="turn-3", code="model-failed", error="no"),
    SessionStarted(at=AT, agent="a", forked_from=ForkOrigin("s", 30)),
]


def folded(events: list[SessionEvent]) -> Folded:
    return Folded(len(events), "prev", fold(events), fold_usage(events))


def kept(before: Folded) -> Folded:
    snapshot = dump_snapshot(before)
    assert snapshot is not None
    after = load_snapshot(snapshot)
    assert after is not None
    return after


@pytest.mark.parametrize("version", range(len(STREAM) + 1))
def test_a_snapshot_of_any_prefix_is_its_fold_and_goes_on_as_it_does(version: int) -> None:
    before = folded(STREAM[:version])
    after = kept(before)
    assert after == before and repr(after) == repr(before)
    rest = STREAM[version:]
    assert fold(rest, after.state) == fold(STREAM)
    assert fold_usage(rest, after.usage) == fold_usage(STREAM)


def test_what_was_kept_cannot_be_changed_either() -> None:
    said = [each for each in kept(folded(STREAM)).state.transcript if hasattr(each, "parts")]
    with pytest.raises(TypeError):
        said[0].tool_calls[0].arguments["a"] = 2
    with pytest.raises(TypeError):
        said[0].parts[0]["sig"].append("y")


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None))
    | st.binary(max_size=5)
    | st.just(AT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(plain, plain, plain, plain)
def test_whatever_values_a_state_holds_its_snapshot_is_equal_or_there_is_none(
    argument: Any, application: Any, part: Any, carried: Any
) -> None:
    call = ToolCall("c", "t", {"a": argument})
    events = [
        StateChanged(at=AT, value=application),
        *turn(1, replace(calls(1, call), parts=(part,))),
        ContextCarried(at=AT, turn_id="turn-1", value=carried, covers=1),
    ]
    before = folded(events)
    snapshot = dump_snapshot(before)
    if snapshot is not None:
        assert repr(load_snapshot(snapshot)) == repr(before)


@given(st.integers(0, 4000), st.integers(1, 255))
def test_a_snapshot_with_a_byte_flipped_or_cut_off_is_none(place: int, flip: int) -> None:
    snapshot = dump_snapshot(folded(STREAM))
    assert snapshot is not None
    place %= len(snapshot)
    damaged = bytearray(snapshot)
    damaged[place] ^= flip
    assert load_snapshot(bytes(damaged)) is None
    assert load_snapshot(snapshot[:place]) is None


@pytest.mark.parametrize("payload", [b"", b"{}", b"null", b"[1]", b'{"version":1}', b"\xff"])
def test_bytes_that_are_no_snapshot_are_none(payload: bytes) -> None:
    assert load_snapshot(payload) is None
    assert load_snapshot(sha256(payload).digest() + payload) is None


def test_a_stream_that_is_not_understood_has_no_snapshot() -> None:
    state: SessionState = fold([UnknownEvent("later@2", b"{}")])
    assert dump_snapshot(Folded(1, "", state, fold_usage([]))) is None


def test_the_fold_has_the_number_of_what_it_gives() -> None:
    every = [dump_snapshot(folded(STREAM[:version])) or b"" for version in range(len(STREAM) + 1)]
    assert sha256(b"".join(every)).hexdigest()[:16] == DIGESTS[FOLD], (
        "what events fold to has changed: raise FOLD, so that no older snapshot is used, and "
        "note the digest for it here"
    )
