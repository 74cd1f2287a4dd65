"""A stream cannot be altered without a link of its chain breaking."""

from __future__ import annotations

from datetime import UTC, datetime
from time import perf_counter
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstream.events import (
    CODEC,
    Fault,
    SessionEvent,
    SessionStarted,
    StateChanged,
    StoredRecord,
    ToolResultRecorded,
    digest,
    verify,
)

AT = datetime(2025, 5, 17, 12, 30, tzinfo=UTC)
Stream: TypeAlias = list[StoredRecord]


def recorded(events: list[SessionEvent]) -> Stream:
    records: Stream = []
    prev = ""
    for version, event in enumerate(events, 1):
        topic, payload = CODEC.encode(event, prev)
        records.append(StoredRecord(version + 100, "s", version, topic, payload))
        prev = digest(topic, version, payload)
    return records


def head(records: Stream) -> str:
    last = records[-1]
    return digest(last.topic, last.version, last.payload)


def renumbered(records: Stream) -> Stream:
    return [record._replace(version=version) for version, record in enumerate(records, 1)]


values = st.one_of(
    st.text(st.characters()), st.integers(), st.floats(), st.binary(), st.just({"prev": "x"})
)
streams = st.lists(
    st.builds(StateChanged, at=st.just(AT), value=values)
    | st.builds(
        ToolResultRecorded, at=st.just(AT), turn_id=st.text(), call_id=st.text(), content=values
    ),
    min_size=2,
    max_size=8,
).map(lambda events: recorded([SessionStarted(at=AT, agent="a"), *events]))


@given(streams)
def test_a_stream_as_it_was_written_has_no_fault(records: Stream) -> None:
    assert verify(iter(records)) is None
    assert verify(records, head(records)) is None
    assert verify(records[:-1]) is None


def test_an_empty_stream_has_no_fault_unless_an_event_is_known_to_be_there() -> None:
    assert verify([]) is None
    assert verify([], "ab" * 32) == Fault(1, "missing: the stream is empty")


@given(streams, st.data())
def test_an_altered_byte_is_found_where_it_is(records: Stream, data: st.DataObject) -> None:
    known = head(records)
    at = data.draw(st.integers(0, len(records) - 1))
    payload = bytearray(records[at].payload)
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] ^= data.draw(st.integers(1, 255))
    records[at] = records[at]._replace(payload=bytes(payload))
    assert fault_of(records, known).version == at + 1


@given(streams, st.data())
def test_an_altered_topic_is_found_where_it_is(records: Stream, data: st.DataObject) -> None:
    known = head(records)
    at = data.draw(st.integers(0, len(records) - 1))
    records[at] = records[at]._replace(
        topic=data.draw(st.sampled_from(["", "x", "state_changed@2"]))
    )
    assert fault_of(records, known).version == at + 1


@given(streams, st.data())
def test_a_missing_event_is_found(records: Stream, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(records) - 2))
    removed = records[:at] + records[at + 1 :]
    assert fault_of(removed) == Fault(at + 1, f"missing: version {at + 2} follows version {at}")


@given(streams, st.data())
def test_a_missing_event_is_found_although_the_others_were_renumbered(
    records: Stream, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(records) - 2))
    removed = renumbered(records[:at] + records[at + 1 :])
    assert fault_of(removed, head(records)).version == at + 1


@given(streams)
def test_a_missing_tail_is_found_where_the_head_is_known(records: Stream) -> None:
    fault = fault_of(records[:-1], head(records))
    assert fault == Fault(len(records) - 1, "altered, or events after it are missing")


@given(streams, st.data())
def test_swapped_events_are_found(records: Stream, data: st.DataObject) -> None:
    one, other = sorted(
        data.draw(st.lists(st.integers(0, len(records) - 1), min_size=2, max_size=2, unique=True))
    )
    swapped = list(records)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    assert fault_of(swapped) == Fault(one + 1, f"swapped: version {other + 1} stands in its place")
    assert fault_of(renumbered(swapped)) == Fault(
        one + 1, f"displaced: version {other + 1} belongs in its place"
    )


@given(streams, st.data())
def test_a_duplicated_event_is_found(records: Stream, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(records) - 1))
    copied = records[: at + 1] + records[at:]
    assert fault_of(copied) == Fault(at + 1, "duplicated: its version occurs twice")
    assert fault_of(renumbered(copied)).version == at + 2


@given(streams, st.data())
def test_an_event_of_another_place_put_in_between_is_found(
    records: Stream, data: st.DataObject
) -> None:
    source = data.draw(st.integers(0, len(records) - 1))
    at = data.draw(st.integers(0, len(records) - 1).filter(lambda at: at != source))
    inserted = renumbered([*records[:at], records[source], *records[at:]])
    assert fault_of(inserted).version == at + 1


def test_a_stream_that_begins_in_the_middle_is_found() -> None:
    records = recorded([SessionStarted(at=AT, agent="a"), *numbered(5)])
    assert fault_of(renumbered(records[2:])) == Fault(
        1, "altered, or the events before it are missing"
    )


@pytest.mark.parametrize(
    "payload", [b"", b"\xff", b"[]", b"7", b'{"prev":7}', b"[" * 100_000, None]
)
@pytest.mark.parametrize("at", [0, 2, 5])
def test_bytes_that_are_no_event_are_found(payload: bytes, at: int) -> None:
    records = recorded([SessionStarted(at=AT, agent="a"), *numbered(5)])
    records[at] = records[at]._replace(payload=payload)
    assert fault_of(records) == Fault(at + 1, "altered: it is no JSON object any more")


def test_the_chain_of_a_fork_goes_on_from_its_source() -> None:
    source = recorded([SessionStarted(at=AT, agent="a"), *numbered(5)])
    fork = [record._replace(session_id="fork", position=9) for record in source[:4]]
    topic, payload = CODEC.encode(StateChanged(at=AT, value="b"), head(fork))
    fork.append(StoredRecord(10, "fork", 5, topic, payload))
    assert verify(fork) is None


stored = st.tuples(st.text(st.characters()), st.integers(1, 999), st.binary())


@given(stored, stored)
def test_different_events_have_different_digests(
    one: tuple[str, int, bytes], other: tuple[str, int, bytes]
) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", 1, b"c"), ("a", 1, b"bc")),
        (("a", 1, b" b c"), ("a b", 1, b" c")),
        (("a", 11, b"x"), ("a", 1, b"1x")),
        (("1 a", 2, b""), ("a", 2, b"1 ")),
    ],
)
def test_no_shift_between_topic_version_and_payload_keeps_the_digest(
    one: tuple[str, int, bytes], other: tuple[str, int, bytes]
) -> None:
    assert digest(*one) != digest(*other)


def test_the_digest_is_part_of_the_storage_format() -> None:
    assert digest("state_changed", 7, b"{}") == "BBA-hWLmGHte3Sh3XtSdH2L2ueHQYBOLy7VNYaaSdWc"


def test_ten_thousand_events_are_verified_in_well_under_a_second() -> None:
    event = ToolResultRecorded(at=AT, turn_id="t", call_id="c", content={"rows": ["x" * 50] * 18})
    records = recorded([event] * 10_000)
    assert len(records[0].payload) > 1000
    started = perf_counter()
    assert verify(records) is None
    assert perf_counter() - started < 0.9


def numbered(count: int) -> list[SessionEvent]:
    return [StateChanged(at=AT, value=number) for number in range(count)]


def fault_of(records: Stream, known: str = "") -> Fault:
    fault = verify(records, known)
    assert fault is not None
    return fault
