"""Older stored shapes are read as the present one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from turnstream.events import (
    CODEC,
    UPCASTERS,
    Codec,
    CorruptEvent,
    StateChanged,
    TurnFailed,
    UnknownEvent,
)
from turnstream.events.upcast import Upcasters

AT = datetime(2025, 5, 17, 12, 30, tzinfo=UTC)


def renamed(stored: dict[str, Any]) -> dict[str, Any]:
    return {**stored, "reason": stored["message"]}


def coded(stored: dict[str, Any]) -> dict[str, Any]:
    code, _, error = stored["reason"].partition(": ")
    return {**stored, "code": code, "error": error}


LATER = Codec({("turn_failed", 1): renamed, ("turn_failed", 2): coded})
FIRST = b'{"type":"turn_failed","turn_id":"t","message":"c1: lost","at":"2025-05-17T12:30:00Z"}'
SECOND = FIRST.replace(b"message", b"reason")
PRESENT = TurnFailed(at=AT, turn_id="t", code="c1", error="lost")


def test_the_release_needs_no_upcaster() -> None:
    assert UPCASTERS == {}


def test_each_older_version_goes_through_the_steps_it_lacks() -> None:
    assert LATER.decode("turn_failed", FIRST) == PRESENT
    assert LATER.decode("turn_failed@2", SECOND) == PRESENT


def test_the_present_version_is_written_under_its_own_topic() -> None:
    encoded = LATER.encode(PRESENT)
    assert encoded.topic == "turn_failed@3" == LATER.topic_of(TurnFailed)
    assert encoded.payload == CODEC.encode(PRESENT).payload
    assert LATER.decode(*encoded) == PRESENT
    assert LATER.topics["turn_failed@3"] is TurnFailed
    assert "turn_failed" not in LATER.topics


def test_other_events_are_as_before() -> None:
    event = StateChanged(at=AT, value={"x": b"\x00"})
    assert LATER.encode(event) == CODEC.encode(event)
    assert LATER.decode(*CODEC.encode(event)) == event


@pytest.mark.parametrize("topic", ["turn_failed@4", "turn_failed@1", "turn_failed@02"])
def test_a_version_that_is_not_known_is_kept_as_it_is(topic: str) -> None:
    assert LATER.decode(topic, FIRST) == UnknownEvent(topic, FIRST)


def test_an_older_program_keeps_what_a_newer_one_wrote() -> None:
    topic, payload = LATER.encode(PRESENT)
    assert CODEC.decode(topic, payload) == UnknownEvent(topic, payload)


def test_values_in_tagged_form_and_halves_of_pairs_come_through_a_step() -> None:
    def wrapped(stored: dict[str, Any]) -> dict[str, Any]:
        return {**stored, "value": [stored["value"]]}

    codec = Codec({("state_changed", 1): wrapped})
    for value in (b"\x00", float("inf"), {"$int": 2**70}, "\ud83d" + "\ude00"):
        older = CODEC.encode(StateChanged(at=AT, value=value))
        assert codec.decode(*older) == StateChanged(at=AT, value=[value])


def test_an_older_payload_that_lacks_what_a_step_needs_is_corrupt() -> None:
    for payload in (SECOND, b"[]", b"{", json.dumps({"message": 5}).encode()):
        with pytest.raises(CorruptEvent):
            LATER.decode("turn_failed", payload)


@pytest.mark.parametrize(
    "upcasters",
    [
        {("turn_failed", 2): coded},
        {("turn_failed", 1): renamed, ("turn_failed", 3): coded},
        {("turn_failed", 0): renamed},
        {("never_heard_of", 1): renamed},
    ],
)
def test_a_way_with_a_gap_or_without_a_tag_is_refused(upcasters: Upcasters) -> None:
    with pytest.raises(ValueError, match=r"gap|do not exist"):
        Codec(upcasters)
