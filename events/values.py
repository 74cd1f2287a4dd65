"""Plain data: what may be part of an event.

User code returns anything. ``plain`` turns it, once and at the boundary, into data that every
store gives back equal, so that a live session and a resumed one see the same thing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from math import isfinite
from numbers import Integral
from typing import Any
from uuid import UUID

from msgspec import UNSET, Struct, ValidationError, convert, to_builtins

from .errors import Unstorable
from .frozen import FrozenDict, FrozenList
from .messages import FilePart, ImagePart, Part, TextPart

MAX_DEPTH = 128
"""How many containers may be nested. Low enough that what was accepted can be stored, read and
rendered with Python's default recursion limit, also from deep within a program."""

PARTS = (TextPart, ImagePart, FilePart)

_FEW_PIECES = 1_000
_CONTAINERS = frozenset({dict, list, tuple, FrozenDict, FrozenList})
_KEPT = frozenset({type(None), bool, int, float, str, bytes, date, timedelta, Decimal, UUID})
_JSON = frozenset({type(None), bool, str})
_KEYS = _KEPT | {datetime, time}
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1


def plain(value: Any, path: str = "value") -> Any:
    """Turn a value of user code into plain data, in new containers.

    Scalars, bytes, dates, ``Decimal`` and ``UUID`` stay what they are (of a time zone, the
    offset stays). Tuples and sets become lists, enums their values; dataclasses, Structs, named
    tuples and models (``model_dump``) become dicts. A content part stays itself, alone or in a
    list of parts.

    ``path`` names the value in errors. Raises ``Unstorable``, with the path to the piece at
    fault, for anything else, and for what is nested deeper than ``MAX_DEPTH`` or contains
    itself.
    """
    if type(value) in _KEPT:
        return value
    try:
        return _plain_parts(value) if is_parts(value) else _plain(value, MAX_DEPTH)
    except Exception as error:
        refusal = _refusal(error)
        raise refusal.as_unstorable(path) from refusal.__cause__


def is_json(value: Any, room: int = MAX_DEPTH) -> bool:
    """Whether JSON alone gives the value back equal, as far as types, ranges and nesting (at
    most ``room`` containers) go. Halves of surrogate pairs are left to the encoder to refuse."""
    kind = type(value)
    if kind in _JSON:
        return True
    if kind is int:
        return bool(_INT_MIN <= value <= _INT_MAX)
    if kind is float:
        return isfinite(value)
    if kind is dict:
        for key in value:
            if type(key) is not str:
                return False
        value = value.values()
    elif kind is not list:
        return False
    if not room:
        return False
    for item in value:
        # A call for each text and number would double the cost of appending an event.
        kind = type(item)
        if kind in _JSON or (kind is int and _INT_MIN <= item <= _INT_MAX):
            continue
        if not is_json(item, room - 1):
            return False
    return True


def is_light(value: Any) -> bool:
    """Whether turning the value into plain data, or copying it, takes but a moment: it has no
    code of its own, and few pieces. An event loop leaves what isn't to a thread."""
    room, pending = _FEW_PIECES, [value]
    while pending:
        piece = pending.pop()
        kind = type(piece)
        if kind in _KEPT:
            continue
        if kind not in _CONTAINERS or len(piece) > room:
            return False
        room -= len(piece)
        pending.extend(piece.values() if isinstance(piece, dict) else piece)
    return True


def is_parts(value: Any) -> bool:
    """Whether the value is a content part, or a list or tuple of nothing else."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(item, PARTS) for item in value)
    return isinstance(value, PARTS)


class _Refusal(Exception):
    """Why a piece is refused; on its way up it collects the steps that lead to the piece."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.steps: list[str] = []

    def as_unstorable(self, path: str) -> Unstorable:
        full = path + "".join(reversed(self.steps))
        shown = full if len(full) <= 200 else f"{full[:100]}…{full[-100:]}"
        return Unstorable(f"{shown} {self.reason}", path=full)


def _refusal(error: Exception, step: str = "") -> _Refusal:
    match error:
        case _Refusal():
            refusal = error
        case RecursionError():
            refusal = _Refusal("is nested deeper than the stack allows here; flatten it")
        case _:
            refusal = _Refusal(f"could not be read: {type(error).__name__} was raised")
            refusal.__cause__ = error
    refusal.steps.append(step)
    return refusal


def _too_deep() -> _Refusal:
    return _Refusal(
        f"is nested deeper than {MAX_DEPTH} levels, or contains itself; flatten it, or return "
        "a text"
    )


def _plain(value: Any, room: int) -> Any:
    kind: Any = type(value)
    if kind in _KEPT:
        return value
    if kind is dict:
        return _plain_dict(value, room)
    if kind is list:
        return _plain_list(value, room)
    match value:
        case Enum():
            return _plain(value.value, room)
        case tuple() if hasattr(kind, "_asdict"):
            return _plain_dict(kind._asdict(value), room)
        case list() | tuple():
            return _plain_list(value, room)
        case set() | frozenset():
            return _sorted(_plain_list(value, room))
        case dict():
            return _plain_dict(value, room)
    for scalar, exact in _EXACT:
        if isinstance(value, scalar):
            return exact(value)
    return _plain_object(value, room)


def _plain_dict(value: dict[Any, Any], room: int) -> dict[Any, Any]:
    if not room:
        raise _too_deep()
    items: dict[Any, Any] = {}
    pairs, key = list(dict.items(value)), None
    try:
        for key, item in pairs:
            name = key if type(key) is str else _plain_key(key)
            items[name] = item if type(item) in _KEPT else _plain(item, room - 1)
    except Exception as error:
        refusal = _refusal(error, _step(key))
        raise refusal from refusal.__cause__
    if len(items) < len(pairs):
        raise _Refusal("has two keys that become one when stored; rename one of them")
    return items


def _plain_list(value: Iterable[Any], room: int) -> list[Any]:
    if not room:
        raise _too_deep()
    items, index = list(value), 0
    try:
        for index, item in enumerate(items):
            if type(item) not in _KEPT:
                items[index] = _plain(item, room - 1)
    except Exception as error:
        refusal = _refusal(error, f"[{index}]")
        raise refusal from refusal.__cause__
    return items


def _plain_key(key: Any) -> Any:
    found = _plain(key, room=1)
    if type(found) not in _KEYS:
        raise _Refusal(f"is a key of type {_name(key)}; a key is a text, number, date or UUID")
    return found


def _plain_object(value: Any, room: int) -> Any:
    if not room:
        raise _too_deep()
    opened = _opened(value)
    return _plain_dict(opened, room) if type(opened) is dict else _plain(opened, room - 1)


def _plain_parts(value: Any) -> Any:
    if isinstance(value, PARTS):
        return _checked_part(value)
    return [_checked_part(part) for part in value]


def _checked_part(part: Part) -> Part:
    try:
        return convert(to_builtins(part), type(part))
    except (TypeError, ValidationError) as error:
        raise _Refusal(f"holds a {_name(part)} whose fields have wrong types") from error


def _opened(value: Any) -> Any:
    kind = type(value)
    if isinstance(value, Struct):
        return _struct_fields(value)
    if hasattr(kind, "model_dump"):
        return value.model_dump()
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    raise _Refusal(
        f"is of type {_name(value)}, which can't be stored; return None, bool, numbers, text, "
        "bytes, dates, Decimal, UUID, and lists, dicts, dataclasses or models of these"
    )


def _struct_fields(value: Struct) -> dict[str, Any]:
    config = value.__struct_config__
    fields = {} if config.tag_field is None else {config.tag_field: config.tag}
    for encoded, name in zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True):
        if (item := getattr(value, name)) is not UNSET:
            fields[encoded] = item
    return fields


def _sorted(items: list[Any]) -> list[Any]:
    try:
        return sorted(items)
    except (TypeError, ArithmeticError):
        return items


def _fixed_offset(value: datetime | time) -> timezone | None:
    """Rules of a zone are not stored, so they are dropped before anybody can rely on them."""
    offset = value.utcoffset()
    return None if offset is None else timezone(offset)


def _exact_datetime(value: datetime) -> datetime:
    day = date(value.year, value.month, value.day)
    return datetime.combine(day, _exact_time(value.timetz()), _fixed_offset(value))


def _exact_time(value: time) -> time:
    return time(value.hour, value.minute, value.second, value.microsecond, _fixed_offset(value))


_EXACT: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    ((bytes, bytearray, memoryview), bytes),
    (datetime, _exact_datetime),
    (date, lambda value: date(value.year, value.month, value.day)),
    (time, _exact_time),
    (timedelta, lambda value: timedelta(value.days, value.seconds, value.microseconds)),
    (Decimal, Decimal),
    (UUID, lambda value: UUID(int=value.int)),
    (Integral, int),
)


def _step(key: object) -> str:
    if not isinstance(key, str):
        return f"[<{type(key).__name__}>]"
    name = key if len(key) <= 40 else f"{key[:39]}…"
    return f".{name}" if key.isidentifier() else f"[{name!a}]"


def _name(value: object) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"
