"""Stored text, made fit for a terminal and for JSON lines.

Whatever a stream holds was written by models, tools and users. Shown as it is, it could move the
cursor, hide text, retitle the window or end a line too early. So nothing is shown as it is.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any, NoReturn
from unicodedata import category

from ...events.envelope import StoredRecord
from ...events.rendering import render

_DRIVING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
_BEYOND_ASCII = re.compile(r"[^\x20-\x7e]")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


def printable(text: str) -> str:
    """The text in one line; control and format characters, and halves of surrogate pairs, as
    escapes (``\\x1b``)."""
    return text if text.isprintable() else "".join(map(_shown, text))


def printable_lines(text: str) -> list[str]:
    """The text's lines, each as ``printable`` gives it; tabs become spaces."""
    return [printable(line.expandtabs(4)) for line in _LINE_BREAK.split(text)]


def shortened(text: str, length: int = 100) -> str:
    """The text's beginning in one line, of at most about ``length`` characters."""
    if len(text) <= length:
        return printable(" ".join(text.split()))
    return printable(" ".join(text[: length - 1].split())) + "…"


def readable(value: Any) -> str:
    """Plain data in words: text as it is, all else as JSON."""
    rendered = value if isinstance(value, str) else render(value)
    return rendered if isinstance(rendered, str) else _as_json(rendered)


def quoted(value: Any) -> str:
    """Plain data as JSON, text too."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else readable(value)


def utc(moment: datetime | None) -> str:
    """A moment to the millisecond; dashes for an unknown one."""
    if moment is None:
        return "-" * len("2000-01-01 00:00:00.000Z")
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def json_line(value: Any) -> str:
    """A value as one line of strict JSON, in ASCII. Data that JSON has no words for is rendered
    as models read it."""
    return _in_ascii(_as_json(value))


def record_line(record: StoredRecord) -> str:
    """A stored event as one line of strict JSON, in ASCII; the payload is the stored one. One
    that is no JSON stands as ``payload_base64``."""
    envelope = json.dumps(
        {
            "position": record.position,
            "session_id": record.session_id,
            "version": record.version,
            "topic": record.topic,
        }
    )
    return f"{envelope[:-1]}, {_payload(record.payload)}}}"


def _shown(char: str) -> str:
    if category(char) in _DRIVING and char not in _JOINERS:
        return char.encode("unicode_escape").decode()
    return char


def _as_json(value: Any) -> str:
    rendered = render({"": value})
    assert isinstance(rendered, str)
    return rendered[len('{"":') : -1]


def _payload(payload: bytes) -> str:
    try:
        text = payload.decode()
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return f'"payload": null, "payload_base64": "{b64encode(payload).decode()}"'
    return f'"payload": {_in_ascii(_LINE_BREAK.sub(" ", text))}'


def _in_ascii(text: str) -> str:
    return _BEYOND_ASCII.sub(_escaped, text)


def _escaped(char: re.Match[str]) -> str:
    return " " if char[0] == "\t" else json.dumps(char[0])[1:-1]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
