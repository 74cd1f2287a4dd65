"""What a model reads of plain data."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite, isnan
from typing import Any

from msgspec import Raw, Struct, to_builtins
from msgspec.json import Encoder
from msgspec.structs import replace

from .messages import Content, Part
from .values import PARTS, is_json, is_parts

_encode = Encoder(decimal_format="string").encode


def render(value: Any) -> Content:
    """What a model reads of plain data: text as it is, content parts as parts, all else as
    strict JSON.

    What JSON has no words for becomes text: ``NaN`` and ``Infinity``, bytes in base64, dates in
    ISO format. The result can always be encoded as UTF-8: halves of surrogate pairs are joined
    where both are there, and replaced by U+FFFD where one is missing.
    """
    if isinstance(value, str):
        return well_formed(value)
    if is_parts(value):
        parts = (value,) if isinstance(value, PARTS) else value
        return tuple(_well_formed_part(part) for part in parts)
    return _json_text(value)


def well_formed(text: str) -> str:
    """The text, with any halves of surrogate pairs joined or replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _well_formed_part(part: Part) -> Part:
    texts = {name: getattr(part, name) for name in part.__struct_fields__ if name != "data"}
    return replace(part, **{name: well_formed(text) for name, text in texts.items()})


def _json_text(value: Any) -> str:
    if is_json(value):
        try:
            return _encode(value).decode()
        except UnicodeEncodeError:
            pass
    return _encode(_readable(value)).decode()


def _readable(value: Any) -> Any:
    match value:
        case bool():
            return value
        case str():
            return well_formed(value)
        case int():
            return Raw(_digits(value))
        case float():
            return value if isfinite(value) else _non_finite(value)
        case datetime() | date() | time():
            return value.isoformat()
        case list() | tuple():
            return [_readable(item) for item in value]
        case dict():
            return _readable_dict(value)
        case Struct():
            return _readable(to_builtins(value))
        case _:
            return value


def _readable_dict(value: dict[Any, Any]) -> Any:
    """Keys of different types can read the same (1 and "1"): then pairs, so that none is lost."""
    items = {_readable_key(key): _readable(item) for key, item in value.items()}
    if len(items) == len(value):
        return items
    return [[_readable(key), _readable(item)] for key, item in value.items()]


def _readable_key(key: Any) -> str:
    text = _readable(key)
    return text if isinstance(text, str) else _encode(text).decode().strip('"')


def _non_finite(value: float) -> str:
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _digits(value: int) -> bytes:
    """All of them: ``Decimal`` knows no limit on the length of an integer's text."""
    return str(Decimal(value)).encode()
