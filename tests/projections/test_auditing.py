"""An event against the rules is named; a stream that obeys them passes."""

from __future__ import annotations

from datetime import UTC, datetime
from time import process_time

import pytest
from msgspec.structs import replace

from turnstream.events import (
    CODEC,
    AgentHandedOff,
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    Budget,
    ContentErased,
    InputApplied,
    InputQueued,
    ModelTurnRecorded,
    Owner,
    SessionStarted,
    StateChanged,
    ToolCall,
    ToolCallStarted,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    UnknownEvent,
    digest,
)
from turnstream.events.erasing import erased
from turnstream.projections import Audit

AT = datetime(2026, 1, 1, tzinfo=UTC)
T = "turn-1"
SOUND: tuple[AnyEvent, ...] = (
    SessionStarted(at=AT, agent="a"),
    InputQueued(at=AT, input_id="i1", content="one"),
    TurnStarted(
        at=AT, turn_id=T, input_ids=("i1",), agent="a", budget=Budget(9), owner=Owner(1, "n")
    ),
    ModelTurnRecorded(
        at=AT, turn_id=T, step=1, tool_calls=(ToolCall("x", "t", {"a": 1}), ToolCall("y", "t"))
    ),
    ApprovalRequested(at=AT, approval_id="q", turn_id=T, call_id="x"),
    ToolCallStarted(at=AT, turn_id=T, call_id="y"),
    ToolResultRecorded(at=AT, turn_id=T, call_id="y"),
    ApprovalResolved(at=AT, approval_id="q", decision="approved", arguments={"a": 2}),
    InputQueued(at=AT, input_id="i2", content="two", policy="queue"),
    ToolCallStarted(at=AT, turn_id=T, call_id="x"),
    ToolResultRecorded(at=AT, turn_id=T, call_id="x"),
    InputApplied(at=AT, turn_id=T, input_id="i2"),
    TurnFailed(at=AT, turn_id=T, code="c", error="e"),
    TurnResumed(at=AT, turn_id=T, owner=Owner(2, "m")),
    ModelTurnRecorded(at=AT, turn_id=T, step=2, text="done"),
    TurnFinished(at=AT, turn_id=T),
    InputQueued(at=AT, input_id="i3", content="three"),
    TurnStarted(
        at=AT, turn_id="turn-2", input_ids=("i3",), agent="a", budget=Budget(9), owner=Owner(2, "m")
    ),
    TurnAborted(at=AT, turn_id="turn-2"),
)


def audit(events: list[AnyEvent] | tuple[AnyEvent, ...]) -> Audit:
    audit = Audit()
    for version, event in enumerate(events, 1):
        stored = (event.topic, event.raw) if isinstance(event, UnknownEvent) else None
        topic, payload = stored or CODEC.encode(event)  # type: ignore[arg-type]
        audit.take(version, topic, payload, event)
    return audit


def test_a_stream_that_obeys_the_rules_passes_up_to_every_event() -> None:
    for length in range(len(SOUND) + 1):
        assert audit(SOUND[:length]).breach is None


def test_the_state_may_be_changed_from_outside_at_any_time_and_by_a_call_that_runs() -> None:
    for place in range(1, len(SOUND) + 1):
        assert audit(with_event(place, StateChanged(at=AT, value=place))).breach is None
    assert audit(with_event(6, StateChanged(at=AT, turn_id=T, call_id="y"))).breach is None


def test_a_hand_off_that_was_asked_for_and_done_passes() -> None:
    looked = audit([*SOUND[:4], ASKED, *SOUND[4:11], DONE, *SOUND[11:]])
    assert looked.breach is None


def without(place: int) -> list[AnyEvent]:
    return [*SOUND[:place], *SOUND[place + 1 :]]


def with_event(place: int, event: AnyEvent) -> list[AnyEvent]:
    return [*SOUND[:place], event, *SOUND[place:]]


def changed(place: int, **changes: object) -> list[AnyEvent]:
    return [*SOUND[:place], replace(SOUND[place], **changes), *SOUND[place + 1 :]]  # type: ignore[type-var]


AGAIN = ApprovalResolved(at=AT, approval_id="q", decision="rejected")
ASKED = AgentHandedOff(at=AT, turn_id=T, source="a", target="b", applied=False, call_id="y")
DONE = AgentHandedOff(at=AT, turn_id=T, source="a", target="b", call_id="y")
BROKEN: dict[str, tuple[list[AnyEvent], str, int]] = {
    "a turn begun in another one": (with_event(14, SOUND[2]), "transition", 15),
    "a turn finished without its results": (with_event(10, SOUND[15]), "transition", 11),
    "an answer after the last one": (with_event(15, SOUND[14]), "transition", 16),
    "a second result": (with_event(7, SOUND[6]), "pairing", 8),
    "a result of no call": (changed(6, call_id="z"), "pairing", 7),
    "a result of another turn": (changed(6, turn_id="turn-9"), "pairing", 7),
    "a call started that has its result": (with_event(7, SOUND[5]), "pairing", 8),
    "an answer out of its step": (changed(14, step=1), "pairing", 15),
    "an input that nobody sent": (without(1), "pairing", 2),
    "an input applied twice": (with_event(12, SOUND[11]), "pairing", 13),
    "an input sent twice": (with_event(16, SOUND[1]), "pairing", 17),
    "a turn that has been": (changed(17, turn_id=T), "pairing", 18),
    "a decision taken twice": (with_event(8, AGAIN), "approval", 9),
    "a decision withdrawn after it was taken": (
        with_event(8, ApprovalWithdrawn(at=AT, approval_id="q")),
        "approval",
        9,
    ),
    "a decision nobody asked for": (changed(7, approval_id="p"), "approval", 8),
    "a question asked again": (with_event(8, replace(SOUND[4], call_id="y")), "approval", 9),  # type: ignore[type-var]
    "a change of the state by a call that does not run": (
        with_event(5, StateChanged(at=AT, turn_id=T, call_id="x")),
        "pairing",
        6,
    ),
    "a change of the state by a call that has its result": (
        with_event(7, StateChanged(at=AT, turn_id=T, call_id="y")),
        "pairing",
        8,
    ),
    "a hand-off by another agent": (
        with_event(4, AgentHandedOff(at=AT, turn_id=T, source="b", target="c", applied=False)),
        "pairing",
        5,
    ),
    "a hand-off that nobody asked for": (
        with_event(12, AgentHandedOff(at=AT, turn_id=T, source="a", target="b")),
        "pairing",
        13,
    ),
    "a hand-off to another agent than was asked to": (
        [*SOUND[:4], ASKED, *SOUND[4:11], replace(DONE, target="c")],
        "pairing",
        13,
    ),
    "a second hand-off at once": ([*SOUND[:4], ASKED, ASKED], "pairing", 6),
    "content that came back": (
        [*SOUND, ContentErased(at=AT, versions=(2,))],
        "erasure",
        2,
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_an_event_against_the_rules_is_named(what: str) -> None:
    events, kind, version = BROKEN[what]
    breach = audit(events).breach
    assert breach is not None
    assert (breach.kind, breach.version) == (kind, version), breach


def test_events_of_a_newer_version_are_told_and_nothing_after_them_is_judged() -> None:
    looked = audit([*SOUND[:5], UnknownEvent("later", b"{}"), SOUND[2], SOUND[2]])
    assert looked.unknown == [6]
    assert looked.breach is None


def test_erased_content_needs_somebody_who_says_so() -> None:
    topic, payload = CODEC.encode(SOUND[1])  # type: ignore[arg-type]
    gone = replace(erased(SOUND[1]), erased=digest(topic, 2, payload))  # type: ignore[arg-type]
    now = CODEC.encode(gone)
    left = digest(now.topic, 2, now.payload)
    stream = [SOUND[0], gone, *SOUND[2:]]
    assert audit(stream).unvouched([]) == [2]
    assert audit([*stream, ContentErased(at=AT, versions=(1,))]).unvouched([]) == [2]
    for digests in ((), (left,)):
        said = ContentErased(at=AT, versions=(2,), left=digests)
        assert audit([*stream, said]).unvouched([]) == []
        assert audit(stream).unvouched([(99, said)]) == []
        assert audit([SOUND[0], said, *SOUND[2:]]).unvouched([]) == []
        assert audit([said, gone]).unvouched([]) == [2], "it has to be said later"
    other = ContentErased(at=AT, versions=(2,), left=("another",))
    assert audit([*stream, other]).unvouched([]) == [2]


def test_looking_at_a_long_conversation_takes_time_in_proportion() -> None:
    def seconds(turns: int) -> float:
        events: list[AnyEvent] = [SOUND[0]]
        for n in range(turns):
            events += [
                InputQueued(at=AT, input_id=f"i{n}", content="x"),
                replace(SOUND[2], turn_id=f"t{n}", input_ids=(f"i{n}",)),  # type: ignore[type-var]
                ModelTurnRecorded(at=AT, turn_id=f"t{n}", step=1, text="y"),
                StateChanged(at=AT, value=n),
                TurnFinished(at=AT, turn_id=f"t{n}"),
            ]
        best = 99.0
        for _ in range(3):
            looked, begun = Audit(), process_time()
            for version, event in enumerate(events, 1):
                looked.take(version, "", b"", event)
            best = min(best, process_time() - begun)
            assert looked.breach is None
        return best

    assert seconds(2000) < 10 * 5 * seconds(200)
