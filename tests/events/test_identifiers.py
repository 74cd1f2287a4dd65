"""What can name a session."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstream.events import InvalidSessionId, check_session_id


@pytest.mark.parametrize(
    "session_id",
    [
        "a",
        "user-42",
        "two words",
        " ",
        "../x",
        "/etc/x",
        "a/../../b",
        "..",
        ".",
        "a\\b",
        "C:x",
        "~",
        "%2e%2e",
        "nul",
        "'; DROP TABLE events; --",
        "日本語",
        "\U0001f600",
        "a" * 300,
        "a" * 512,
        "\U0001f600" * 512,
    ],
)
def test_printable_text_of_any_script_names_a_session(session_id: str) -> None:
    assert check_session_id(session_id) == session_id


@pytest.mark.parametrize(
    ("session_id", "fault"),
    [
        ("", "empty"),
        ("a\0b", r"U\+0000.*index 1"),
        ("x\n", r"U\+000A.*index 1"),
        ("\x7f", r"U\+007F"),
        ("\x85", r"U\+0085"),
        ("\ud800", r"U\+D800"),
        ("a\u2028b", r"U\+2028"),
        ("\u202egnp.exe", r"U\+202E"),
        ("\ufeff", r"U\+FEFF"),
        ("a" * 513, "has 513 characters"),
        ("a" * 5000, "has 5000 characters"),
        (None, "not NoneType"),
        (7, "not int"),
        (b"bytes", "not bytes"),
        (["a"], "not list"),
    ],
)
def test_what_cannot_name_a_session_is_refused_with_the_reason_and_the_way_out(
    session_id: Any, fault: str
) -> None:
    with pytest.raises(InvalidSessionId, match=fault) as refused:
        check_session_id(session_id)
    assert "choose 1 to 512 printable characters" in str(refused.value)


def test_an_enum_is_taken_as_the_text_it_stands_for() -> None:
    class Name(StrEnum):
        FIRST = "first"

    assert type(check_session_id(Name.FIRST)) is str


@given(st.text(st.characters(), max_size=600))
def test_any_text_is_either_returned_unchanged_or_refused_in_a_short_printable_message(
    session_id: str,
) -> None:
    if 0 < len(session_id) <= 512 and session_id.isprintable():
        assert check_session_id(session_id) == session_id
        return
    with pytest.raises(InvalidSessionId) as refused:
        check_session_id(session_id)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400
