"""The storage format of released versions: bytes that must be readable for ever.

``golden/v1/<topic>.json`` is a stored payload of the first version of a topic. What follows a
dot in the name (``<topic>.tagged.json``) tells several of one topic apart. Files are added, never
changed: a shape that changes gets a new version of its topic, an upcaster, and a new file.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace

from turnstream.events import (
    CODEC,
    TOPICS,
    AgentConfigured,
    AgentDriftDetected,
    AgentHandedOff,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    AssistantMessage,
    Budget,
    ContentErased,
    ContextCarried,
    FilePart,
    ForkOrigin,
    ForkPatched,
    ImagePart,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    ModelCallDiscarded,
    ModelTurnRecorded,
    OutputRefused,
    Owner,
    SessionCleared,
    SessionEvent,
    SessionRewound,
    SessionStarted,
    StateChanged,
    StepRecorded,
    Teammate,
    TextPart,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    ToolResultRecorded,
    ToolResultsTrimmed,
    ToolSpec,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    Usage,
    UserMessage,
)

GOLDEN = Path(__file__).parent / "golden" / "v1"
FILES = sorted(path.name.removesuffix(".json") for path in GOLDEN.iterdir())
AT = datetime(2025, 5, 17, 12, 30, 15, 123456, UTC)
PREV = "0123456789abcdef" * 4

EVENTS: dict[str, SessionEvent] = {
    "session_started": SessionStarted(
        at=AT, prev=PREV, agent="planner", tenant="acme", forked_from=ForkOrigin("user-42", 17)
    ),
    "session_started.nonce": SessionStarted(
        at=AT, prev=PREV, agent="planner", forked_from=ForkOrigin("user-42", 17), nonce="5f1e"
    ),
    "input_queued": InputQueued(
        at=AT, prev=PREV, input_id="i1", content="Plan my trip ✈", policy="steer", key="k1"
    ),
    "input_queued.parts": InputQueued(
        at=AT,
        prev=PREV,
        input_id="i2",
        content=(
            TextPart("look"),
            ImagePart("image/jpeg", data=b"\xff\xd8"),
            FilePart("a.pdf", "application/pdf", "https://example.org/a.pdf"),
        ),
    ),
    "input_queued.run": InputQueued(
        at=AT, prev=PREV, input_id="i3", content="Book it", run_id="r1"
    ),
    "input_applied": InputApplied(at=AT, prev=PREV, turn_id="t1", input_id="i1"),
    "input_withdrawn": InputWithdrawn(at=AT, prev=PREV, input_id="i1"),
    "agent_configured": AgentConfigured(
        at=AT,
        prev=PREV,
        name="planner",
        model="m-1",
        instructions="Be brief.",
        tools=(ToolSpec("weather", "Weather in a city.", {"type": "object", "$id": "w"}),),
        fingerprint="f1",
    ),
    "agent_configured.team": AgentConfigured(
        at=AT,
        prev=PREV,
        name="planner",
        model="m-1",
        tools=(ToolSpec("transfer_to_booker"),),
        fingerprint="f1",
        handoffs={"transfer_to_booker": "booker"},
        team=(
            Teammate("booker", "m-2", "5f1e", {"book": "a90c"}, ("planner",), "0b5e"),
            Teammate("clerk"),
        ),
    ),
    "agent_configured.output": AgentConfigured(
        at=AT, prev=PREV, name="planner", model="m-1", output={"type": "object", "$id": "o"}
    ),
    "turn_started": TurnStarted(
        at=AT,
        prev=PREV,
        turn_id="t1",
        input_ids=("i1", "i2"),
        agent="planner",
        budget=Budget(32, 10_000),
        owner=Owner(3, "host-1"),
        fingerprint="f1",
        run_id="r1",
    ),
    "turn_resumed": TurnResumed(
        at=AT, prev=PREV, turn_id="t1", owner=Owner(4, "host-2"), fingerprint="f1"
    ),
    "model_turn_recorded": ModelTurnRecorded(
        at=AT,
        prev=PREV,
        turn_id="t1",
        step=1,
        text="Let me look.",
        tool_calls=(
            ToolCall("c1", "weather", {"city": "Rome", "days": 3, "exact": None}),
            ToolCall("c2", "weather", malformed='{"city": "'),
        ),
        parts=({"type": "reasoning", "sig": "abc"}, "raw"),
        usage=Usage(100, 20, 80, 5),
        model="m-1",
        finish_reason="tool_calls",
    ),
    "model_turn_recorded.tagged": ModelTurnRecorded(
        at=AT,
        prev=PREV,
        turn_id="t1",
        step=2,
        text="half \ud83d",
        tool_calls=(ToolCall("c1", "t\ud83d", {"$bytes": b"\x00", "k\ud83d": 2**70}),),
        parts=({"type": "reasoning", "sig": b"\xff"},),
    ),
    "model_call_discarded": ModelCallDiscarded(
        at=AT, prev=PREV, turn_id="t1", step=1, reason="stream-ended", usage=Usage(100)
    ),
    "tool_call_started": ToolCallStarted(at=AT, prev=PREV, turn_id="t1", call_id="c1", attempt=2),
    "tool_result_recorded": ToolResultRecorded(
        at=AT,
        prev=PREV,
        turn_id="t1",
        call_id="c1",
        outcome="error",
        content={"rows": [1, 2.5, True, None, "é\u2028\x00"], "$bytes": "data of the user"},
    ),
    "tool_result_recorded.tagged": ToolResultRecorded(
        at=AT,
        prev=PREV,
        turn_id="t1",
        call_id="c1",
        content=[
            float("inf"),
            -(2**63) - 1,
            b"\x00\xff",
            datetime(2025, 5, 17, 12, 30, tzinfo=timezone(timedelta(hours=2))),
            date(2025, 5, 17),
            time(12, 30, 15, 5),
            timedelta(days=-1, microseconds=5),
            Decimal("1.10"),
            UUID(int=7),
            {1: "a", "1": "b", None: [b""]},
            {"$int": "7", "$$": 1},
            TextPart("a"),
            ImagePart(data=b"\x89PNG"),
            (1, "two"),
            "half \ud83d, pair \U0001f600, halves side by side \ud83d" + "\ude00",
        ],
    ),
    "approval_requested": ApprovalRequested(
        at=AT,
        prev=PREV,
        approval_id="a1",
        turn_id="t1",
        call_id="c1",
        reason="in-doubt",
        expires_at=AT + timedelta(hours=1),
        path=("c7", "c8"),
    ),
    "approval_requested.kept": ApprovalRequested(
        at=AT,
        prev=PREV,
        approval_id="a1",
        turn_id="t1",
        call_id="c1",
        expires_at=AT + timedelta(hours=1),
        on_expiry="keep",
    ),
    "approval_resolved": ApprovalResolved(
        at=AT,
        prev=PREV,
        approval_id="a1",
        decision="approved",
        by="ada",
        note="fine",
        arguments={"city": "Paris"},
    ),
    "approval_withdrawn": ApprovalWithdrawn(at=AT, prev=PREV, approval_id="a1", reason="expired"),
    "step_recorded": StepRecorded(
        at=AT,
        prev=PREV,
        turn_id="t1",
        call_id="c1",
        name="charge",
        arguments_digest="d1",
        value={"receipt": 7},
    ),
    "step_recorded.placed": StepRecorded(
        at=AT,
        prev=PREV,
        turn_id="t1",
        call_id="",
        name="charge",
        arguments_digest="d1",
        value=[7],
        position=2,
        key="k1",
        scope="inner#1",
    ),
    "state_changed": StateChanged(at=AT, prev=PREV, value={"cart": ["book"]}),
    "state_changed.call": StateChanged(
        at=AT, prev=PREV, value={"cart": []}, by="ada", turn_id="t1", call_id="c1"
    ),
    "agent_handed_off": AgentHandedOff(
        at=AT, prev=PREV, turn_id="t1", source="planner", target="booker", applied=False
    ),
    "agent_handed_off.applied": AgentHandedOff(
        at=AT,
        prev=PREV,
        turn_id="t1",
        source="planner",
        target="booker",
        call_id="c1",
        fingerprint="f2",
        budget=Budget(max_steps=8, tokens=9000),
    ),
    "agent_drift_detected": AgentDriftDetected(
        at=AT, prev=PREV, turn_id="t1", recorded="f1", current="f2", changes=("model", "tools")
    ),
    "context_carried": ContextCarried(
        at=AT, prev=PREV, turn_id="t1", value={"summary": "sunny"}, covers=6
    ),
    "output_refused": OutputRefused(at=AT, prev=PREV, turn_id="t1", text="it is no JSON"),
    "turn_finished": TurnFinished(
        at=AT, prev=PREV, turn_id="t1", finish_reason="max-steps", output={"trip": [1]}
    ),
    "turn_failed": TurnFailed(
        at=AT, prev=PREV, turn_id="t1", code="model-failed", error="it raised", kept=False
    ),
    "turn_aborted": TurnAborted(at=AT, prev=PREV, turn_id="t1", kept=True),
    "fork_patched": ForkPatched(
        at=AT,
        prev=PREV,
        messages=[{"role": "user", "content": "a"}],
        state={"cart": []},
        call_id="c1",
        result="rainy",
        changed=("messages", "state", "tool_result"),
        by="ada",
    ),
    "fork_patched.tagged": ForkPatched(
        at=AT,
        prev=PREV,
        messages=[
            UserMessage("a"),
            AssistantMessage("b", (ToolCall("c1", "t", {"x": float("inf")}),), (b"\xff",)),
            ToolMessage("c1", "t", (TextPart("r"),), "error"),
        ],
        changed=("messages",),
    ),
    "session_rewound": SessionRewound(at=AT, prev=PREV, keep_entries=4, by="ada"),
    "session_rewound.undoing": SessionRewound(at=AT, prev=PREV, keep_entries=4, by="ada", undoes=2),
    "tool_results_trimmed": ToolResultsTrimmed(
        at=AT, prev=PREV, keep_chars=400, keep_turns=1, by="ada"
    ),
    "session_cleared": SessionCleared(at=AT, prev=PREV, by="ada"),
    "content_erased": ContentErased(
        at=AT, prev=PREV, versions=(2, 7), left=(PREV[:43], PREV[:43]), reason="asked to", by="ada"
    ),
}
EVENTS |= {
    f"{name}.erased": replace(event, erased=PREV[:43])
    for name, event in EVENTS.items()
    if "." not in name
}


def stored(name: str) -> bytes:
    return (GOLDEN / f"{name}.json").read_bytes()


def test_every_event_has_a_golden_file_and_every_file_an_event() -> None:
    assert {name.partition(".")[0] for name in FILES} >= TOPICS.keys()
    assert set(FILES) == EVENTS.keys()


@pytest.mark.parametrize("name", EVENTS)
def test_golden_bytes_decode_to_the_event(name: str) -> None:
    decoded = CODEC.decode(name.partition(".")[0], stored(name))
    assert decoded == EVENTS[name]
    assert repr(decoded) == repr(EVENTS[name])


@pytest.mark.parametrize("name", EVENTS)
def test_the_event_encodes_to_the_golden_bytes(name: str) -> None:
    topic, payload = CODEC.encode(EVENTS[name], PREV)
    assert topic == name.partition(".")[0]
    assert payload == stored(name)


@pytest.mark.parametrize("name", EVENTS)
def test_golden_bytes_name_every_field_of_the_event(name: str) -> None:
    """In one file or another, as a field may be added, with a default."""
    if "." not in name:
        named = {field for file in EVENTS if file.split(".")[0] == name for field in fields(file)}
        assert named - {"$tagged"} == set(type(EVENTS[name]).__struct_fields__)


def fields(name: str) -> list[str]:
    return list(json.loads(stored(name)))
