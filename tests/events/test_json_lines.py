"""Payloads as members of a line of JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstream.events.json_lines import ENCODED, PLAIN, payload_member, payload_of

PIECES = [
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"-", b".", b"e", b"0", b"1", b"/"),
    *(b"true", b"nul", b"null", b"NaN", b"ud83d", b'"a":1', b'"a"', b" ", b"\t", b"\n", b"\x00"),
    *("é".encode(), b"\xff", b"\xed\xa0\x80"),
]


def shown(payload: bytes) -> tuple[bytes, bool]:
    """The value of the member, and whether it is encoded."""
    member = b"".join(payload_member(payload))
    encoded = member.startswith(ENCODED)
    return member.removeprefix(ENCODED if encoded else PLAIN), encoded


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join) | st.binary())
def test_whatever_a_payload_is_it_makes_one_line_of_json_and_comes_back(payload: bytes) -> None:
    value, encoded = shown(payload)
    json.loads((b'{"a":%b}' % value).decode(), parse_constant=pytest.fail)
    assert b"\n" not in value and payload_of(value, encoded=encoded) == payload


@pytest.mark.parametrize(
    ("payload", "encoded"),
    [
        (b'{"a": 1}', False),
        (b'{"a":"\\ud83d"}', False),
        ('{"a":"é"}'.encode(), False),
        (b'{"a":\n1}', True),
        (b'{"a":NaN}', True),
        (b'{"a":"\x01"}', True),
        (b'{"a":"\xff"}', True),
        (b'{"a":1', True),
        (b"", True),
    ],
)
def test_only_what_is_no_line_of_json_is_encoded(payload: bytes, encoded: bool) -> None:
    assert shown(payload)[1] is encoded
