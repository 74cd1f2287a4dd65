"""What a model reads of plain data."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NoReturn
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstream.events import FilePart, ImagePart, TextPart, plain, render


def strict(text: str) -> Any:
    def refuse(name: str) -> NoReturn:
        raise AssertionError(f"{name} is no JSON")

    text.encode("utf-8")
    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain text", "plain text"),
        ("", ""),
        (None, "null"),
        (0, "0"),
        (False, "false"),
        ([], "[]"),
        ({}, "{}"),
        (b"", '""'),
        (1.5, "1.5"),
        ({"city": "Rome", "days": [1, 2]}, '{"city":"Rome","days":[1,2]}'),
        (float("nan"), '"NaN"'),
        ({"y": float("inf"), "z": [float("-inf")]}, '{"y":"Infinity","z":["-Infinity"]}'),
        (b"\x00\xff", '"AP8="'),
        (2**70, str(2**70)),
        ([-(2**70)], f"[-{2**70}]"),
        (Decimal("1.10"), '"1.10"'),
        (UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
        (date(2025, 5, 17), '"2025-05-17"'),
        (time(12, 30), '"12:30:00"'),
        (datetime(2025, 5, 17, 12, tzinfo=UTC), '"2025-05-17T12:00:00+00:00"'),
        (timedelta(days=1, seconds=2), '"P1DT2S"'),
        ({1: "a", None: "b", False: "c"}, '{"1":"a","null":"b","false":"c"}'),
        ({1.5: 1, date(2025, 1, 1): 2, b"k": 3}, '{"1.5":1,"2025-01-01":2,"aw==":3}'),
        ({"é": "\u2028\0"}, '{"é":"\u2028\\u0000"}'),
    ],
    ids=repr,
)
def test_a_value_reads_as_strict_json_and_text_as_itself(value: Any, text: str) -> None:
    assert render(value) == text


def test_keys_that_would_read_the_same_are_all_kept() -> None:
    assert strict(str(render({1: "a", "1": "b"}))) == [[1, "a"], ["1", "b"]]


def test_every_digit_of_a_very_long_integer_is_there() -> None:
    assert render(10**5000) == "1" + "0" * 5000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\ud83d b", "a\ufffd b"),
        ("\ude00x\ud83d", "\ufffdx\ufffd"),
        ("\ud83d" + "\ude00", "\U0001f600"),
        ({"k\ud83d": ["\ud83d"]}, '{"k\ufffd":["\ufffd"]}'),
        ({1: "\ud83d"}, '{"1":"\ufffd"}'),
    ],
    ids=ascii,
)
def test_halves_of_surrogate_pairs_are_joined_or_visibly_replaced(value: Any, text: str) -> None:
    assert render(value) == text


def test_parts_are_read_as_parts() -> None:
    image = ImagePart(data=b"\x89PNG")
    assert render(TextPart("a")) == (TextPart("a"),)
    assert render([TextPart("a\ud83d"), image]) == (TextPart("a\ufffd"), image)
    named = FilePart("a\ud83d.txt", url="https://example.org/\ud83d")
    assert render([named]) == (FilePart("a\ufffd.txt", url="https://example.org/\ufffd"),)


def test_parts_among_other_values_are_read_as_json() -> None:
    assert strict(str(render([1, TextPart("a\ud83d")]))) == [1, {"type": "text", "text": "a\ufffd"}]


keys = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.datetimes()
    | st.times()
    | st.timedeltas()
    | st.uuids()
)
values = st.recursive(
    keys | st.decimals(),
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(values)
def test_whatever_is_plain_reads_as_strict_utf_8_json(value: Any) -> None:
    rendered = render(plain(value))
    assert isinstance(rendered, str)
    rendered.encode("utf-8")
    if not isinstance(value, str):
        strict(rendered)
        msgspec.json.decode(rendered)


@pytest.mark.slow
@given(values)
def test_the_live_value_reads_like_the_recorded_one(value: Any) -> None:
    assert render(plain(plain(value))) == render(plain(value))
