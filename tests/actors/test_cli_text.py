"""Stored text, made fit for a terminal and for JSON lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstream.actors.cli.text import json_line, printable, printable_lines, record_line, shortened
from turnstream.events.envelope import StoredRecord
from turnstream.events.rendering import well_formed

DRIVING = {*map(chr, range(32)), "\x7f", *map(chr, range(0x80, 0xA0)), "\u202e", "\u2028"}
any_text = st.text(st.characters(exclude_categories=()))


def strict(line: str) -> Any:
    """One value of strict JSON."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    assert "\n" not in line
    return json.loads(line, parse_constant=refuse)


@given(any_text)
def test_any_text_is_printed_in_one_line_without_driving_characters(text: str) -> None:
    for shown in (printable(text), shortened(text, 20)):
        assert DRIVING.isdisjoint(shown)
        shown.encode()


@given(any_text)
def test_lines_of_text_stay_lines(text: str) -> None:
    lines = printable_lines(text)
    assert len(lines) == text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    assert DRIVING.isdisjoint("".join(lines))


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_what_is_printable_is_printed_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(any_text)
def test_any_text_is_a_line_of_json_in_ascii(text: str) -> None:
    line = json_line({"text": text})
    assert line.isascii()
    assert line.isprintable()
    assert strict(line) == {"text": well_formed(text)}


@given(st.binary())
def test_any_stored_bytes_are_a_line_of_json(payload: bytes) -> None:
    line = record_line(StoredRecord(1, "s", 1, "t", payload))
    assert line.isprintable()
    strict(line)


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | any_text,
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_stored_json_is_shown_equal(value: Any) -> None:
    payload = json.dumps(value, indent=1).encode()
    assert strict(record_line(StoredRecord(1, "s", 1, "t", payload)))["payload"] == value
