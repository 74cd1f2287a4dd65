"""Content goes, everything around it stays, and the chain holds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from turnstream.events import (
    CODEC,
    ERASED,
    AssistantMessage,
    ContentErased,
    EncodedEvent,
    ForkPatched,
    InputQueued,
    ModelTurnRecorded,
    SessionEvent,
    SessionStarted,
    StateChanged,
    StoredRecord,
    ToolCall,
    ToolMessage,
    ToolResultRecorded,
    TurnFailed,
    UserMessage,
    digest,
    erased,
    link,
    verify,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
PREV = "p" * 43
GOLDEN = Path(__file__).parent / "golden" / "v1"
FILES = {path.name.removesuffix(".json"): path.read_bytes() for path in GOLDEN.iterdir()}
EVENTS: dict[str, Any] = {
    name: CODEC.decode(name.partition(".")[0], stored)
    for name, stored in FILES.items()
    if not name.endswith(".erased")
}
WITH_CONTENT = {
    "agent_configured",
    "approval_resolved",
    "context_carried",
    "fork_patched",
    "fork_patched.tagged",
    "input_queued",
    "input_queued.parts",
    "input_queued.run",
    "model_turn_recorded",
    "model_turn_recorded.tagged",
    "output_refused",
    "state_changed",
    "state_changed.call",
    "step_recorded",
    "step_recorded.placed",
    "tool_result_recorded",
    "tool_result_recorded.tagged",
    "turn_failed",
    "turn_finished",
}
CONTENT = {
    *("content", "text", "tool_calls", "parts", "value", "note", "arguments", "instructions"),
    *("error", "output", "messages", "state", "result"),
}


def test_what_has_content_is_known() -> None:
    assert {name for name in sorted(EVENTS) if erased(EVENTS[name]) != EVENTS[name]} == WITH_CONTENT


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_only_content_is_erased_and_all_of_it(name: str) -> None:
    before, after = EVENTS[name], erased(EVENTS[name])
    assert type(after) is type(before)
    changed = {key for key, value in asdict(after).items() if asdict(before)[key] != value}
    assert changed <= CONTENT
    assert erased(after) == after
    stored = CODEC.encode(replace(after, erased=PREV), PREV)
    assert CODEC.decode(*stored) == replace(after, erased=PREV, prev=PREV)


SECRET = "a secret"


@pytest.mark.parametrize(
    "event",
    [
        InputQueued(at=AT, input_id="i", content=SECRET),
        ModelTurnRecorded(
            at=AT,
            turn_id="t",
            step=1,
            text=SECRET,
            tool_calls=(ToolCall("c", "t", {"k": [SECRET]}), ToolCall("d", "t", malformed=SECRET)),
            parts=({"x": SECRET},),
        ),
        ToolResultRecorded(at=AT, turn_id="t", call_id="c", content={"k": SECRET}),
        StateChanged(at=AT, value=[SECRET]),
        TurnFailed(at=AT, turn_id="t", code="c", error=SECRET),
        ForkPatched(
            at=AT,
            messages=[
                UserMessage(SECRET),
                AssistantMessage(SECRET, (ToolCall("c", "t", {"k": SECRET}),), (SECRET,)),
                ToolMessage("c", "t", SECRET),
                {"role": "user", "content": SECRET},
                {"role": "assistant", "text": SECRET, "tool_calls": [{"id": "c", "name": "t"}]},
                {"role": "assistant", "tool_calls": [{"k": SECRET}], "more": SECRET},
                {"role": "tool", "call_id": "c", "name": "t", "content": SECRET},
                SECRET,
            ],
            state={"k": SECRET},
            result=SECRET,
            changed=("messages", "state", "tool_result"),
        ),
    ],
    ids=lambda event: type(event).__name__,
)
def test_nothing_of_a_secret_is_left(event: SessionEvent) -> None:
    assert SECRET in repr(event)
    assert SECRET not in repr(erased(event))


def test_calls_and_messages_keep_what_ties_them_together() -> None:
    turn = ModelTurnRecorded(
        at=AT, turn_id="t", step=1, text="x", tool_calls=(ToolCall("c", "t", {"k": 1}),)
    )
    assert erased(turn) == replace(turn, text=ERASED, tool_calls=(ToolCall("c", "t"),))
    patch = ForkPatched(at=AT, messages=[ToolMessage("c", "t", "x", "error")])
    assert erased(patch) == replace(patch, messages=[ToolMessage("c", "t", ERASED, "error")])


def stream(events: list[SessionEvent]) -> list[StoredRecord]:
    encoded, _ = CODEC.chained(events)
    return [StoredRecord(n, "s", n, *each) for n, each in enumerate(encoded, 1)]


def erase(records: list[StoredRecord], version: int) -> EncodedEvent:
    record = records[version - 1]
    event = CODEC.decode(record.topic, record.payload)
    assert isinstance(event, InputQueued)
    was = digest(record.topic, version, record.payload)
    stored = CODEC.encode(replace(erased(event), erased=was), event.prev)
    records[version - 1] = record._replace(payload=stored.payload)
    return stored


def test_a_chain_holds_when_content_was_erased() -> None:
    inputs = [InputQueued(at=AT, input_id=f"i{n}", content=SECRET) for n in range(4)]
    records = stream([SessionStarted(at=AT, agent="a"), *inputs])
    head = link(records[-1].topic, 5, records[-1].payload)
    for version in (2, 3, 5):
        before = link(records[version - 1].topic, version, records[version - 1].payload)
        stored = erase(records, version)
        assert link(stored.topic, version, stored.payload) == before
        assert verify(records, head) is None
    assert SECRET in repr(records[3]) and SECRET not in repr(records[:3])


def test_a_wrong_digest_of_erased_content_breaks_the_chain() -> None:
    inputs = [InputQueued(at=AT, input_id=f"i{n}", content=SECRET) for n in range(4)]
    records = stream([SessionStarted(at=AT, agent="a"), *inputs])
    gone = CODEC.encode(replace(erased(inputs[1]), erased=PREV), "x")
    records[2] = records[2]._replace(payload=gone.payload)
    fault = verify(records)
    assert fault is not None and fault.version == 3


def test_what_is_no_json_has_the_link_of_its_bytes() -> None:
    for payload in (b"", b"\xff", b"[]", b'{"erased":7}', b"null"):
        assert link("x", 3, payload) == digest("x", 3, payload)


def test_a_mention_of_an_erasure_is_an_event_like_others() -> None:
    said = ContentErased(at=AT, versions=(1, 2))
    assert erased(said) == said
