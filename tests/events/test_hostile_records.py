"""Stored bytes that nobody wrote, or that somebody altered."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstream.events import CODEC, TOPICS, CorruptEvent, StateChanged
from turnstream.events.tagged import MARK

AT = datetime(2025, 5, 17, 12, 30, 15, 123456, UTC)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"7",
        b"{}",
        b'{"at":"yesterday"}',
        b'{"type":"turn_failed","at":"2025-01-01T00:00:00Z"}',
        b'{"at":"2025-01-01T00:00:00Z","value":NaN}',
        b'{"at":"2025-01-01T00:00:00Z","value":"cut',
        b'{"at":"2025-01-01T00:00:00Z","value":' + b"[" * 100_000,
        b'{"at":"2025-01-01T00:00:00Z","value":1e999}',
        MARK,
        MARK + b'"at":"2025-01-01T00:00:00Z","value":NaN}',
        MARK + b'"at":"2025-01-01T00:00:00Z","value":' + b"[" * 100_000,
    ],
)
def test_bytes_that_are_no_such_event_are_corrupt(payload: bytes) -> None:
    with pytest.raises(CorruptEvent, match="state_changed") as corrupt:
        CODEC.decode("state_changed", payload)
    assert "yesterday" not in str(corrupt.value)


@pytest.mark.parametrize("payload", [None, 7, "text", memoryview(b"{}")])
def test_a_payload_that_is_no_bytes_is_corrupt(payload: Any) -> None:
    with pytest.raises(CorruptEvent):
        CODEC.decode("state_changed", payload)


def test_an_error_about_corrupt_bytes_does_not_quote_them() -> None:
    payload = b'{"at":"2025-01-01T00:00:00Z","turn_id":"hunter2","kept":"hunter2"}'
    with pytest.raises(CorruptEvent) as corrupt:
        CODEC.decode("turn_failed", payload)
    assert corrupt.value.__suppress_context__
    assert "hunter2" not in str(corrupt.value)


class Touch:
    """Unpickling one makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


HOSTILE_TAGS = [
    {"$os.system": "touch pwned"},
    {"$import": "os"},
    {"$part": {"type": "os.system", "args": ["touch pwned"]}},
    {"$part": {"type": "text", "text": {"$bytes": "AA=="}}},
    {"$part": {"type": "image"}},
    {"$message": {"role": "system", "content": "x"}},
    {"$bytes": "no base64!"},
    {"$bytes": 7},
    {"$float": "1.5"},
    {"$float": ["nan"]},
    {"$int": "1e999999999"},
    {"$int": "0x10"},
    {"$int": ""},
    {"$decimal": "one"},
    {"$uuid": 7},
    {"$datetime": None},
    {"$date": "2025-13-01"},
    {"$time": "25:00"},
    {"$timedelta": [10**12, 0, 0]},
    {"$timedelta": "P1D"},
    {"$dict": ["odd"]},
    {"$dict": [[], 1]},
    {"$dict": 7},
    {"$tuple": 7},
]


@pytest.mark.parametrize("value", HOSTILE_TAGS, ids=repr)
def test_a_tag_that_nobody_wrote_is_corrupt(value: object) -> None:
    stored = {"at": "2025-01-01T00:00:00Z", "value": [value]}
    with pytest.raises(CorruptEvent):
        CODEC.decode("state_changed", MARK + json.dumps(stored).encode()[1:])


@pytest.mark.parametrize("value", HOSTILE_TAGS, ids=repr)
def test_without_the_mark_a_tag_is_data_of_the_user(value: object) -> None:
    event = StateChanged(at=AT, value=[value])
    assert CODEC.decode(*CODEC.encode(event)) == event


def test_planted_records_run_nothing(tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    records = [
        pickle.dumps(Touch(planted)),
        json.dumps({"type": "os.system", "args": [f"touch {planted}"]}).encode(),
        b"!!python/object/apply:os.system ['touch planted']",
        MARK + json.dumps({"at": "2025-01-01T00:00:00Z", "py/object": "os.system"}).encode()[1:],
    ]
    for topic in ("state_changed", "os.system", "builtins:eval", "state_changed@9", "a\0b\ud83d"):
        for payload in records:
            with suppress(CorruptEvent):
                CODEC.decode(topic, payload)
    assert list(tmp_path.iterdir()) == []
    pickle.loads(records[0])
    assert planted.exists()


@given(st.sampled_from(sorted(TOPICS)), st.binary() | st.binary().map(MARK.__add__))
def test_no_bytes_make_decoding_fail_in_another_way(topic: str, payload: bytes) -> None:
    with suppress(CorruptEvent):
        CODEC.decode(topic, payload)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text() | st.sampled_from(["$part", "$dict", "$int", "$message"]), inner
        )
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    st.sampled_from(sorted(TOPICS)),
    st.dictionaries(
        st.sampled_from(sorted({f for k in TOPICS.values() for f in k.__struct_fields__})),
        json_values,
    ),
    st.sampled_from([b"{", MARK]),
)
def test_no_object_makes_decoding_fail_in_another_way(
    topic: str, stored: dict[str, Any], start: bytes
) -> None:
    stored["at"] = "2025-01-01T00:00:00Z"
    with suppress(CorruptEvent):
        CODEC.decode(topic, start + json.dumps(stored).encode()[1:])
