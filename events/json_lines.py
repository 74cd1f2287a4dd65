"""A stored payload as part of a line of JSON, and back, byte for byte.

A payload that is one line of JSON stands there as it is stored. Any other stands in base64, under
another name, so that nobody takes the one for the other.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import NoReturn

PLAIN = b'"payload":'
ENCODED = b'"payload_base64":'


def payload_member(payload: bytes) -> bytes:
    """The member of an object that holds the payload."""
    if _is_one_line(payload):
        return PLAIN + payload
    return b'%b"%b"' % (ENCODED, b64encode(payload))


def payload_of(value: bytes, *, encoded: bool) -> bytes:
    """The payload whose member has this value. Raises ``ValueError`` where it can't be one."""
    return b64decode(value.strip(b'"'), validate=True) if encoded else value


def _is_one_line(payload: bytes) -> bool:
    """Whether it is strict JSON in UTF-8 without a line break."""
    if b"\n" in payload or b"\r" in payload:
        return False
    try:
        json.loads(payload.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
