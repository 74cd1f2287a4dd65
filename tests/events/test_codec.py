"""From events to stored bytes and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from timeit import repeat
from types import UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from turnstream.events import (
    CODEC,
    MAX_DEPTH,
    TOPICS,
    Budget,
    FilePart,
    ImagePart,
    ModelTurnRecorded,
    Owner,
    SessionEvent,
    StateChanged,
    TextPart,
    ToolCall,
    ToolResultRecorded,
    ToolSpec,
    TurnFailed,
    TurnStarted,
    UnknownEvent,
    Unstorable,
    plain,
    topic_of,
)
from turnstream.events.codec import _IS_JSON
from turnstream.events.tagged import MARK, is_plain_json, open_fields

AT = datetime(2025, 5, 17, 12, 30, 15, 123456, UTC)
PREV = "ab" * 32

texts = st.text(st.characters())
numbers = st.integers() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False)
keys = (
    texts
    | st.sampled_from(["$", "$$", "$bytes", "$$bytes", "$float", "$tagged", "type", "prev"])
    | numbers
    | st.none()
    | st.booleans()
    | st.binary()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.dates()
    | st.timedeltas()
    | st.uuids()
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
rich_values = st.recursive(
    keys | st.times() | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=10,
)
values = json_values | rich_values.map(plain)
objects = st.dictionaries(st.text(), json_values) | st.dictionaries(texts, values)
parts = (
    st.builds(TextPart, text=texts)
    | st.builds(ImagePart, data=st.binary(min_size=1))
    | st.builds(FilePart, name=texts, url=texts.filter(bool))
)
offsets = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))])


def instances(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: field_values(hint) for name, hint in hints.items()})


def field_values(hint: Any) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return values
    if hint in (TextPart, ImagePart, FilePart):
        return parts
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of(*map(field_values, arguments))
    if origin is tuple:
        return st.lists(field_values(arguments[0]), max_size=3).map(tuple)
    if origin in (dict, Mapping):
        what = arguments[1]
        return objects if what is Any else st.dictionaries(texts, field_values(what), max_size=3)
    scalars = {
        str: texts,
        int: st.integers(-(2**70), 2**70),
        bool: st.booleans(),
        type(None): st.none(),
        datetime: st.datetimes(timezones=offsets).map(lambda moment: moment.replace(fold=0)),
    }
    return scalars[hint] if hint in scalars else instances(hint)


events: st.SearchStrategy[SessionEvent] = st.one_of(*map(instances, TOPICS.values()))


def strict(payload: bytes) -> Any:
    def refuse(name: str) -> NoReturn:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(payload.decode("utf-8"), parse_constant=refuse)


@given(events, st.sampled_from(["", PREV]))
def test_every_event_comes_back_equal_with_the_digest_of_the_one_before_it(
    event: SessionEvent, prev: str
) -> None:
    topic, payload = CODEC.encode(event, prev)
    decoded = CODEC.decode(topic, payload)
    assert decoded == replace(event, prev=prev)
    assert repr(decoded) == repr(replace(event, prev=prev))


@given(events)
def test_encoding_is_stable(event: SessionEvent) -> None:
    topic, payload = CODEC.encode(event, PREV)
    decoded = CODEC.decode(topic, payload)
    assert not isinstance(decoded, UnknownEvent)
    assert CODEC.encode(decoded, PREV) == (topic, payload)
    assert CODEC.encode(event, PREV) == (topic, payload)


@given(events)
def test_stored_bytes_are_strict_json_on_one_line(event: SessionEvent) -> None:
    _, payload = CODEC.encode(event, PREV)
    stored = strict(payload)
    assert "type" not in stored
    assert stored["prev"] == PREV
    assert b"\n" not in payload
    assert b"\r" not in payload


@given(json_values)
def test_what_json_can_say_is_stored_as_plain_json(value: Any) -> None:
    event = ToolResultRecorded(at=AT, turn_id="t", call_id="c", content=value)
    tag = b'"type":"tool_result_recorded",'
    assert CODEC.encode(event).payload == msgspec.json.encode(event).replace(tag, b"", 1)


@given(instances(ModelTurnRecorded) | instances(ToolResultRecorded))
def test_the_checks_that_are_spelled_out_agree_with_the_general_one(event: Any) -> None:
    assert _IS_JSON[type(event)](event) == is_plain_json(event)


def test_every_kind_of_event_that_can_hold_any_value_is_checked() -> None:
    assert {kind for kind in TOPICS.values() if open_fields(kind)} == set(_IS_JSON)
    assert {kind.__name__ for kind in _IS_JSON} == {
        "AgentConfigured",
        "ApprovalRequested",
        "ApprovalResolved",
        "ContextCarried",
        "ForkPatched",
        "ModelTurnRecorded",
        "StateChanged",
        "StepRecorded",
        "ToolResultRecorded",
        "TurnFinished",
    }


def test_a_topic_is_a_tag_and_nothing_else() -> None:
    assert TOPICS["input_queued"].__name__ == "InputQueued"
    assert len(TOPICS) == len(get_args(SessionEvent))
    for topic, kind in TOPICS.items():
        assert topic == topic_of(kind) == kind.__struct_config__.tag


def test_an_event_that_was_encoded_does_not_change_with_what_it_was_made_of() -> None:
    value = {"rows": [1]}
    event = StateChanged(at=AT, value=value)
    topic, payload = CODEC.encode(event)
    value["rows"].append(2)
    decoded = CODEC.decode(topic, payload)
    assert decoded == StateChanged(at=AT, value={"rows": [1]})
    assert isinstance(decoded, StateChanged)
    decoded.value.clear()
    assert CODEC.decode(topic, payload) == StateChanged(at=AT, value={"rows": [1]})


@pytest.mark.parametrize("topic", ["later", "state_changed@2", "state_changed@1", "os.system", ""])
def test_a_topic_of_another_version_is_kept_as_it_is(topic: str) -> None:
    assert CODEC.decode(topic, b'{"any": "bytes"}') == UnknownEvent(topic, b'{"any": "bytes"}')


def test_a_field_this_version_does_not_know_is_ignored() -> None:
    topic, payload = CODEC.encode(StateChanged(at=AT, value=1))
    for more in (b'{"later":{"x":[1]},', MARK + b'"later":{"x":[1]},'):
        assert CODEC.decode(topic, more + payload[1:]) == StateChanged(at=AT, value=1)


@pytest.mark.parametrize(
    "event",
    [
        StateChanged(at=AT, value=object()),
        StateChanged(at=AT, value={"rows": [1j]}),
        StateChanged(at=AT, value={1, 2}),
        ModelTurnRecorded(at=AT, turn_id="t", step=1, parts=(object(),)),
        ModelTurnRecorded(at=AT, turn_id="t", step=1, tool_calls=(ToolCall("c", "x", {"a": {1}}),)),
        TurnFailed(at=AT, turn_id="t", code="c", error=object()),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_what_is_no_plain_data_is_refused_by_name(event: SessionEvent) -> None:
    with pytest.raises(Unstorable, match=topic_of(type(event))):
        CODEC.encode(event)


class Words(str):
    __slots__ = ()


MISTAKES = (None, True, 7, 1.5, "x", b"x", Words("x"), (), (7,), [None], {}, {"x": 7}, AT, object())


@given(events, st.data())
def test_what_could_not_be_read_back_is_never_stored(event: Any, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(event.__struct_fields__))
    mistaken = replace(event, **{name: data.draw(st.sampled_from(MISTAKES))})
    with suppress(Unstorable):
        decoded: Any = CODEC.decode(*CODEC.encode(mistaken, mistaken.prev))
        again = CODEC.decode(*CODEC.encode(decoded, mistaken.prev))
        assert repr(again) == repr(decoded)


def test_a_field_of_another_type_is_named_and_its_value_is_not() -> None:
    event = replace(StateChanged(at=AT, value=1), at="a secret")  # type: ignore[arg-type]
    with pytest.raises(Unstorable, match=r"^state_changed: at is not of its declared") as refusal:
        CODEC.encode(event)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 5000])
def test_what_is_nested_deeper_than_plain_data_is_refused(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    with pytest.raises(Unstorable, match="nested deeper"):
        CODEC.encode(StateChanged(at=AT, value=value))


def test_what_contains_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["self"] = [value]
    with pytest.raises(Unstorable, match="nested deeper"):
        CODEC.encode(StateChanged(at=AT, value=value))


def test_schemas_of_tools_keep_any_value() -> None:
    spec = ToolSpec("search", schema={"default": float("inf"), "$id": "x", "enum": [2**70]})
    kind = TOPICS["agent_configured"]
    event = kind(at=AT, name="a", model="m", tools=(spec,))  # type: ignore[call-arg]
    assert CODEC.decode(*CODEC.encode(event)) == event


def test_every_stored_form_is_json_to_sqlite() -> None:
    database = sqlite3.connect(":memory:")
    for value in ("a\ud83d", float("nan"), b"\0", 2**70, "\0\u2028\ufeff", {1: 2}):
        payload = CODEC.encode(StateChanged(at=AT, value=value)).payload
        row = database.execute("SELECT json_valid(?)", (payload.decode(),)).fetchone()
        assert row == (1,)
    database.close()


def test_nested_structs_come_back_as_what_they_were() -> None:
    event = TurnStarted(
        at=AT,
        turn_id="t",
        input_ids=("a", "b"),
        agent="planner",
        budget=Budget(max_steps=3),
        owner=Owner(2, "n"),
    )
    assert CODEC.decode(*CODEC.encode(event)) == event


def test_an_ordinary_event_costs_a_small_multiple_of_bare_json() -> None:
    event = ToolResultRecorded(at=AT, turn_id="t", call_id="c", content="sunny, 25 degrees")
    topic, payload = CODEC.encode(event, PREV)
    write, read = msgspec.json.Encoder().encode, msgspec.json.Decoder(ToolResultRecorded).decode
    assert least(lambda: CODEC.encode(event, PREV)) < 15 * least(lambda: write(event))
    assert least(lambda: CODEC.decode(topic, payload)) < 8 * least(lambda: read(payload))


def least(call: Callable[[], object]) -> float:
    return min(repeat(call, number=2000, repeat=20))
