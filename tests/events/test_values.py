"""From what user code returns to plain data."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstream.events import MAX_DEPTH, FilePart, ImagePart, TextPart, Unstorable, plain


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Outer:
    class Inner(Enum):
        B = ("b", 1)


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Row:
    name: str
    tags: set[str] = field(default_factory=set)


@dataclass
class Box:
    content: Any


class Tagged(msgspec.Struct, tag="tagged", rename="camel"):
    first_name: str
    note: str | msgspec.UnsetType = msgspec.UNSET


class Model:
    def __init__(self, dumped: Any) -> None:
        self.dumped = dumped

    def model_dump(self) -> Any:
        return self.dumped


class Text(str):
    __slots__ = ()


class Count(int):
    def __int__(self) -> int:
        return 0


class FrozenDatetime(datetime):
    pass


INDIA = timezone(timedelta(hours=5, minutes=30))
MOMENT = datetime(2025, 5, 17, 12, 30, 15, 123456, INDIA)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        2**70,
        -(10**5000),
        1.5,
        -0.0,
        "",
        "a\ud83d b\0",
        b"",
        b"\xff",
        date(2025, 5, 17),
        time(12, 30, tzinfo=INDIA),
        MOMENT,
        datetime(2025, 5, 17, 12, 30),  # noqa: DTZ001
        timedelta(days=-1, microseconds=5),
        Decimal("1.10"),
        UUID(int=7),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_values_stay_what_they_are(value: Any) -> None:
    found = plain(value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Outer.Inner.B, ["b", 1]),
        (Text("text"), "text"),
        (Count(4), 4),
        ((1, (2, 3)), [1, [2, 3]]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abcd")[::2], b"ac"),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Row("a", {"t"}), {"name": "a", "tags": ["t"]}),
        (Tagged("Ada"), {"type": "tagged", "firstName": "Ada"}),
        (
            Model({"when": date(2025, 1, 1), "items": (1,)}),
            {"when": date(2025, 1, 1), "items": [1]},
        ),
        (Model([1, 2]), [1, 2]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ({1: "a", "1": "b", None: "c", date(2025, 1, 1): "d"},) * 2,
        ({Level.HIGH: Colour.RED}, {3: "red"}),
        (FrozenDatetime(2025, 1, 1, tzinfo=INDIA), datetime(2025, 1, 1, tzinfo=INDIA)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_richer_values_become_plain_ones(value: Any, expected: Any) -> None:
    found = plain(value)
    assert found == expected
    assert repr(found) == repr(expected)


def test_a_set_that_cannot_be_sorted_keeps_all_its_elements() -> None:
    assert sorted(plain({1, "a", None}), key=str) == [1, None, "a"]


def test_of_a_time_zone_the_offset_stays() -> None:
    berlin = datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    found = plain(berlin)
    assert found.tzinfo == timezone(timedelta(hours=1))
    assert found.timestamp() == berlin.timestamp()
    assert found.fold == 0


def test_parts_stay_themselves_alone_and_in_a_list_of_parts() -> None:
    text, image = TextPart("a\ud83d"), ImagePart(data=b"\x89PNG")
    assert plain(text) == text
    assert plain((text, image)) == [text, image]
    assert plain([FilePart("a.txt", url="https://example.org/a")])[0].name == "a.txt"


def test_parts_among_other_values_become_dicts() -> None:
    assert plain([1, TextPart("a")]) == [1, {"type": "text", "text": "a"}]
    assert plain({"part": TextPart("a")}) == {"part": {"type": "text", "text": "a"}}


def test_a_part_with_a_field_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(Unstorable, match="TextPart whose fields have wrong types"):
        plain(TextPart(5))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_later_changes_by_the_caller_change_nothing() -> None:
    raw = bytearray(b"ab")
    value: dict[str, Any] = {"rows": [1, {"deep": [2]}], "raw": raw}
    kept = plain(value)
    value["rows"].append(3)
    value["rows"][1]["deep"].clear()
    raw[:] = b"xx"
    assert kept == {"rows": [1, {"deep": [2]}], "raw": b"ab"}


@pytest.mark.parametrize(
    ("value", "path", "kind"),
    [
        (object(), "result", "object"),
        ({"rows": [1, 2, {"x": lambda: 1}]}, "result.rows[2].x", "function"),
        ({"two words": object()}, "result['two words']", "object"),
        ({"a\nb": object()}, "result['a\\nb']", "object"),
        ({7: object()}, "result[<int>]", "object"),
        ([Box("a"), Box(object())], "result[1].content", "object"),
        ({"a": {(1, 2): "x"}}, "result.a[<tuple>]", "tuple"),
        (iter([]), "result", "list_iterator"),
        (int, "result", "type"),
        (Row, "result", "type"),
        (ZoneInfo("UTC"), "result", "zoneinfo.ZoneInfo"),
        (1j, "result", "complex"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_refused_with_the_path_and_the_type(
    value: Any, path: str, kind: str
) -> None:
    with pytest.raises(Unstorable) as refused:
        plain(value, "result")
    assert refused.value.path == path
    assert str(refused.value).startswith(path)
    assert kind in str(refused.value)


def test_a_refusal_shows_neither_the_value_nor_a_long_key() -> None:
    class Secret:
        def __repr__(self) -> str:
            return "hunter2"

    with pytest.raises(Unstorable) as refused:
        plain({"k" * 1000: {"password": ["hunter2", Secret()]}})
    assert "hunter2" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_two_keys_that_would_become_one_are_refused() -> None:
    class Name(Enum):
        A = "a"

    with pytest.raises(Unstorable, match="two keys that become one"):
        plain({Name.A: 1, "a": 2})


@pytest.mark.parametrize("error", [ValueError("hunter2"), RecursionError(), KeyError("x")])
def test_a_value_that_raises_while_it_is_read_is_refused(error: Exception) -> None:
    class Broken:
        def model_dump(self) -> object:
            raise error

    with pytest.raises(Unstorable) as refused:
        plain({"a": [Broken()]})
    assert refused.value.path == "value.a[0]"
    assert "hunter2" not in str(refused.value)


def test_a_value_that_grows_while_it_is_read_is_taken_as_it_was() -> None:
    class Growing:
        def model_dump(self) -> int:
            value["late"] = 1
            value["rows"].append(2)
            return 7

    value: dict[str, Any] = {"rows": [Growing()], "last": True}
    assert plain(value) == {"rows": [7], "last": True}


def nested_lists(depth: int) -> Any:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def nested_dicts(depth: int) -> Any:
    value: dict[Any, Any] = {}
    for _ in range(depth - 1):
        value = {1: value}
    return value


def nested_boxes(depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        value = Box(value)
    return value


@pytest.mark.parametrize("nested", [nested_lists, nested_dicts, nested_boxes])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 5000])
def test_what_is_nested_too_deep_is_refused_and_told_the_limit(
    nested: Callable[[int], Any], depth: int
) -> None:
    with pytest.raises(Unstorable, match=str(MAX_DEPTH)) as refused:
        plain(nested(depth))
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("nested", [nested_lists, nested_dicts, nested_boxes])
def test_what_is_nested_up_to_the_limit_is_plain(nested: Callable[[int], Any]) -> None:
    plain(nested(MAX_DEPTH))


def test_what_contains_itself_is_refused() -> None:
    rows: list[Any] = [1]
    rows.append({"rows": rows})
    box = Box(None)
    box.content = {"box": box}
    itself = Model(None)
    itself.dumped = itself
    for value in (rows, box, itself):
        with pytest.raises(Unstorable, match="contains itself"):
            plain(value)


def test_a_stack_that_is_used_up_is_a_refusal_and_no_crash() -> None:
    def deeper(room: int) -> None:
        if room:
            deeper(room - 1)
        else:
            plain(nested_lists(MAX_DEPTH))

    depth = len(list(frames()))
    with pytest.raises(Unstorable, match="stack"):
        deeper(sys.getrecursionlimit() - depth - 40)


def frames() -> Any:
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.dates()
    | st.decimals(allow_nan=False)
    | st.uuids()
)


@pytest.mark.slow
@given(
    st.recursive(
        scalars,
        lambda inner: st.lists(inner) | st.dictionaries(scalars, inner) | st.tuples(inner, inner),
    )
)
def test_plain_data_is_plain_already(value: Any) -> None:
    once = plain(value)
    assert plain(once) == once
    assert repr(plain(once)) == repr(once)
