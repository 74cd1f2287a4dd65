"""What was put into an event comes out of it equal, wherever it stood."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

import pytest

from turnstream.events import (
    CODEC,
    MAX_DEPTH,
    AgentConfigured,
    ApprovalResolved,
    AssistantMessage,
    FilePart,
    ForkPatched,
    ImagePart,
    InputQueued,
    ModelTurnRecorded,
    SessionEvent,
    SessionStarted,
    StateChanged,
    StepRecorded,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResultRecorded,
    ToolSpec,
    TurnFailed,
    TurnFinished,
    UserMessage,
    plain,
    render,
)

AT = datetime(2025, 5, 17, 12, 30, tzinfo=UTC)


def result(value: Any) -> SessionEvent:
    return ToolResultRecorded(at=AT, turn_id="t", call_id="c", content=value)


def argument(value: Any) -> SessionEvent:
    calls = (ToolCall("c", "tool", {"deep": [{"value": value}]}),)
    return ModelTurnRecorded(at=AT, turn_id="t", step=1, tool_calls=calls)


def edited_argument(value: Any) -> SessionEvent:
    return ApprovalResolved(at=AT, approval_id="a", decision="approved", arguments={"value": value})


def provider_part(value: Any) -> SessionEvent:
    return ModelTurnRecorded(at=AT, turn_id="t", step=1, parts=({"sig": value}, value))


def state(value: Any) -> SessionEvent:
    return StateChanged(at=AT, value=value)


def step(value: Any) -> SessionEvent:
    return StepRecorded(
        at=AT, turn_id="t", call_id="c", name="s", arguments_digest="d", value=value
    )


def output(value: Any) -> SessionEvent:
    return TurnFinished(at=AT, turn_id="t", output=value)


def patched_state(value: Any) -> SessionEvent:
    return ForkPatched(at=AT, state=value, result=[value], changed=("state", "tool_result"))


def patched_message(value: Any) -> SessionEvent:
    said = AssistantMessage("a", (ToolCall("c", "t", {"v": value}),), parts=(value,))
    told = ToolMessage("c", "t", (TextPart("r\ud83d"),))
    return ForkPatched(at=AT, messages=[UserMessage("u\ud83d"), said, told])


def schema(value: Any) -> SessionEvent:
    specs = (ToolSpec("t", schema={"default": value}),)
    return AgentConfigured(at=AT, name="a", model="m", tools=specs)


PLACES = [
    result,
    argument,
    edited_argument,
    provider_part,
    state,
    step,
    output,
    patched_state,
    patched_message,
    schema,
]
VALUES: list[Any] = [
    None,
    "",
    b"",
    [],
    {},
    0,
    False,
    0.0,
    -0.0,
    5e-324,
    float("nan"),
    float("inf"),
    float("-inf"),
    {"x": float("nan"), "l": [float("nan"), 1.5]},
    2**63,
    2**64 - 1,
    2**64,
    -(2**63) - 1,
    b"\x00\xff",
    "a\ud83d b",
    "\ud83d" + "\ude00",
    "\U0001f600 é \\ud83d \\\\ud83d",
    {"key\ud83d": {"\ude00": "\ud83d"}},
    AT,
    datetime(2025, 5, 17, 12, 30, 15, 123456, timezone(timedelta(hours=-3, seconds=7))),
    datetime(1, 1, 1),  # noqa: DTZ001
    datetime.max,  # noqa: DTZ901
    date(2025, 5, 17),
    time(12, 30, tzinfo=UTC),
    timedelta.max,
    timedelta(days=-1, microseconds=1),
    Decimal("1.10"),
    Decimal("-Infinity"),
    Decimal("NaN"),
    UUID(int=7),
    {1: "a", "1": "b", None: "c", 1.5: "d", b"k": "e", date(2025, 1, 1): {"f": [True]}},
    {"$bytes": "AA=="},
    {"$bytes": b"\x00"},
    {"$": 1, "$$": 2, "$tagged": True, "$$bytes": b""},
    [{"$float": "nan"}, float("nan"), {"$dict": [1, 2]}, {1: 2}],
    {"$tagged": float("nan"), "type": "x", "prev": "y"},
    [TextPart("a\ud83d"), ImagePart(data=b"\x89PNG"), FilePart("f", url="https://example.org")],
    (1, ("a", b"b")),
    "x" * 5_000_000,
    "\ud83d" + "é" * 1_000_000,
]
CODE_POINTS = [*range(0x20), 0x7F, 0x85, 0x2028, 0x2029, 0xFEFF, 0x202E, 0xFFFF, 0x10FFFF]


def shown(value: object) -> str:
    return ascii(value)[:40]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", VALUES, ids=shown)
def test_a_value_comes_back_equal_and_of_the_same_type(
    place: Callable[[Any], SessionEvent], value: Any
) -> None:
    event = place(value)
    assert repr(CODEC.decode(*CODEC.encode(event))) == repr(event)


@pytest.mark.parametrize("place", PLACES)
def test_long_integers_need_no_setting_of_the_interpreter(
    place: Callable[[Any], SessionEvent],
) -> None:
    event = place([10**5000, -(10**5000)])
    assert CODEC.decode(*CODEC.encode(event)) == event


@pytest.mark.parametrize("code_point", CODE_POINTS, ids=hex)
def test_every_character_survives_in_every_text(code_point: int) -> None:
    text = f"a{chr(code_point)}b"
    for event in texts_everywhere(text):
        topic, payload = CODEC.encode(event)
        assert CODEC.decode(topic, payload) == event
        assert len(payload.split(b"\n")) == 1
        json.loads(payload)


@pytest.mark.parametrize(
    "text",
    [
        "a\ud83d b",
        "\ude00",
        "\ud83d" + "\ude00",
        "\ud83d\ud83d" + "\ude00\ude00",
        "\\\ud83d\\\\ud83d",
        "\\ud83d\ude00",
        "\\\\ud83d" + "\ude00",
        "\ud83d\\ude00",
        "\ud83d\U0001f600\ude00",
    ],
    ids=ascii,
)
def test_halves_of_surrogate_pairs_survive_in_every_text(text: str) -> None:
    for event in texts_everywhere(text):
        topic, payload = CODEC.encode(event)
        payload.decode("utf-8")
        json.loads(payload)
        assert CODEC.decode(topic, payload) == event


def test_a_half_of_a_surrogate_pair_is_stored_as_a_standard_escape() -> None:
    assert b'"content":"a\\ud83d b"' in CODEC.encode(result("a\ud83d b")).payload


def texts_everywhere(text: str) -> list[SessionEvent]:
    return [
        InputQueued(at=AT, input_id=text, content=text, key=text),
        InputQueued(at=AT, input_id="i", content=(TextPart(text), FilePart(text, data=b"\xff"))),
        ModelTurnRecorded(
            at=AT,
            turn_id="t",
            step=1,
            text=text,
            tool_calls=(ToolCall(text, text, {text: text}, text),),
            parts=(text, {text: [text]}),
            finish_reason=text,
        ),
        result(text),
        TurnFailed(at=AT, turn_id="t", code="c", error=text),
        ApprovalResolved(at=AT, approval_id="a", decision="rejected", by=text, note=text),
        SessionStarted(at=AT, agent=text, tenant=text),
        patched_message(text),
    ]


def test_results_that_are_nothing_stay_apart() -> None:
    values: list[Any] = [None, "", b"", [], {}, 0, False]
    decoded = [CODEC.decode(*CODEC.encode(result(value))) for value in values]
    assert [repr(getattr(event, "content", "lost")) for event in decoded] == [
        repr(value) for value in values
    ]


def test_opaque_parts_stay_in_their_turn_in_order_and_empty_ones_too() -> None:
    parts: tuple[Any, ...] = (
        {"type": "reasoning", "sig": "abc", "$x": None},
        {},
        [],
        "",
        {"n": 1.0},
    )
    event = ModelTurnRecorded(at=AT, turn_id="t", step=1, parts=parts)
    decoded = CODEC.decode(*CODEC.encode(event))
    assert repr(decoded) == repr(event)


def test_malformed_arguments_are_kept_word_for_word() -> None:
    for text in ('{"path": "a', "[1,2]", "null", "\ud83d\0"):
        calls = (ToolCall("c", "tool", malformed=text),)
        event = ModelTurnRecorded(at=AT, turn_id="t", step=1, tool_calls=calls)
        assert CODEC.decode(*CODEC.encode(event)) == event


class Outer:
    class Inner(Enum):
        B = "b"


class Colour(StrEnum):
    RED = "red"


def test_the_model_reads_the_same_before_a_crash_and_after_it() -> None:
    returned = {"s": Colour.RED, "n": Outer.Inner.B, "t": (1, 2), "d": date(2025, 1, 1)}
    live = plain(returned)
    decoded = CODEC.decode(*CODEC.encode(result(live)))
    assert isinstance(decoded, ToolResultRecorded)
    assert render(decoded.content) == render(live)
    assert render(live) == '{"s":"red","n":"b","t":[1,2],"d":"2025-01-01"}'


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = float("nan")
    for _ in range(depth):
        value = wrap(value)
    return value


WRAPS: list[Callable[[Any], Any]] = [
    lambda inner: [inner],
    lambda inner: {"k": inner},
    lambda inner: {7: inner},
    lambda inner: {"$k": inner},
]


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("frames", [0, 500])
def test_the_deepest_plain_value_can_be_stored_read_and_rendered_from_deep_in_a_program(
    wrap: Callable[[Any], Any], frames: int
) -> None:
    def deeper(room: int) -> None:
        if room:
            deeper(room - 1)
            return
        value = plain(nested(MAX_DEPTH, wrap))
        for place in (result, state, step, output):
            event = place(value)
            assert repr(CODEC.decode(*CODEC.encode(event))) == repr(event)
        assert "NaN" in render(value)

    assert sys.getrecursionlimit() == 1000
    deeper(frames)
