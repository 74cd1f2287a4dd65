"""A stored payload as part of a line of JSON, and back, byte for byte.

A payload that is one line of JSON stands there as it is stored. Any other stands in base64, under
another name, so that nobody takes the one for the other.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import NoReturn

from msgspec import MsgspecError, Raw
from msgspec.json import Decoder

PLAIN = b'"payload":'
ENCODED = b'"payload_base64":'

_SYNTAX = Decoder(Raw)


def payload_member(payload: bytes) -> Sequence[bytes]:
    """The member of an object that holds the payload, in pieces: large ones are not copied."""
    if _is_one_line(payload):
        return PLAIN, payload
    return ENCODED, b'"', b64encode(payload), b'"'


def payload_of(value: bytes, *, encoded: bool) -> bytes:
    """The payload whose member has this value. Raises ``ValueError`` where it can't be one."""
    return b64decode(value.strip(b'"'), validate=True) if encoded else value


def _is_one_line(payload: bytes) -> bool:
    """Whether it is strict JSON in UTF-8 without a line break."""
    if b"\n" in payload or b"\r" in payload or not _is_utf8(payload):
        return False
    try:
        _SYNTAX.decode(payload)
    except (MsgspecError, RecursionError):
        return _is_json(payload)
    return True


def _is_utf8(payload: bytes) -> bool:
    if payload.isascii():
        return True
    try:
        payload.decode()
    except UnicodeError:
        return False
    return True


def _is_json(payload: bytes) -> bool:
    """The same of text with halves of surrogate pairs, which the quicker way does not take."""
    try:
        json.loads(payload, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
