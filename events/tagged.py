r"""Events in tagged form: JSON with words for what it has no word for.

Most events are JSON as it is. One that holds anything else is stored in tagged form, and says
so in its first member:

    {"$tagged":true,"turn_id":"turn-1","content":{"mean":{"$float":"nan"}},...}

There an object with a single key that starts with one ``$`` is a value of that kind; keys of
users that start with ``$`` have one ``$`` more. The value is made by the function registered
for the word, never by a name found in the data. Halves of surrogate pairs are written as
escapes (``\ud83d``) in any field; everything else of text is written as it is.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from .errors import Unstorable
from .frozen import FrozenDict, FrozenList
from .messages import AssistantMessage, Message, Part, ToolMessage, UserMessage
from .values import MAX_DEPTH, PARTS, is_json

MARK = b'{"$tagged":true,'

_StructT = TypeVar("_StructT", bound=Struct)
_SIDE_BY_SIDE = re.compile(r"\\\\|\\u(d[89ab][0-9a-f]{2})(?=\\ud[c-f])")


def dumps(struct: Struct) -> bytes:
    """An event in tagged form, without its tag. ``Unstorable`` if it holds what is no plain
    data."""
    fields = tree(struct)
    fields.pop("type")
    return written({"$tagged": True, **fields})


def tree(struct: Struct) -> dict[str, Any]:
    """A Struct as JSON with tags. Raises ``Unstorable`` where it holds what is no plain data."""
    fields: dict[str, Any] = to_builtins(_rebuilt(struct, tag))
    return fields


def written(tree: Any) -> bytes:
    """JSON with tags as bytes. Halves of pairs are all that UTF-8 can't encode, and what Python
    then writes is JSON's escape."""
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def loads(payload: bytes) -> Any:
    """The stored object. Its values still have their tags.

    Of two escaped halves side by side, the first is put in as it is before json sees them: it
    would join them.
    """
    text = payload.decode()
    if "\\ud" in text:
        text = _SIDE_BY_SIDE.sub(_apart, text)
    return json.loads(text, parse_constant=_no_constant)


def restored(struct: _StructT) -> _StructT:
    """The Struct, with the tagged values in it restored."""
    return _rebuilt(struct, untag)


def is_plain_json(struct: Struct) -> bool:
    """Whether JSON alone gives every value in the Struct back equal."""
    for name, nested in open_fields(struct.__class__).items():
        value = getattr(struct, name)
        if nested:
            if value and not all(map(_is_plain_item, value)):
                return False
        elif not is_json(value):
            return False
    return True


def _is_plain_item(item: Any) -> bool:
    return is_plain_json(item) if open_fields(item.__class__) else is_json(item)


@cache
def open_fields(kind: type) -> dict[str, bool]:
    """The fields of a Struct that can hold any value; of each, whether it is a tuple of such
    values or of Structs with such fields."""
    if not issubclass(kind, Struct):
        return {}
    hints = get_type_hints(kind)
    return {name: _holds_tuple(hint) for name, hint in hints.items() if _is_open(hint)}


def tag(value: Any, room: int = MAX_DEPTH) -> Any:
    """Plain data as JSON with tags. Raises ``Unstorable`` for what is no plain data."""
    kind = _THAWED.get(type(value), type(value))
    if kind is not dict and kind is not list and is_json(value):
        return value
    if kind in _WRITE:
        word, write = _WRITE[kind]
        return {word: write(value)}
    if not room:
        raise Unstorable(f"a value is nested deeper than {MAX_DEPTH} levels; flatten it")
    if kind is list:
        return [tag(item, room - 1) for item in value]
    if kind is tuple:
        return {"$tuple": [tag(item, room - 1) for item in value]}
    if kind is dict:
        return _tag_dict(value, room - 1)
    raise Unstorable(
        f"a value of type {kind.__module__}.{kind.__qualname__} is no plain data; pass what "
        "comes from user code through turnstream.events.plain first"
    )


def untag(value: Any) -> Any:
    """The plain data that was tagged. Raises ``LookupError``, ``ValueError``, ``TypeError`` or
    ``ArithmeticError`` for tags nobody wrote."""
    if type(value) is list:
        return [untag(item) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((word, content),) = value.items()
        if word.startswith("$") and not word.startswith("$$"):
            return _READ[word](content)
    return {key.removeprefix("$"): untag(item) for key, item in value.items()}


def _tag_dict(value: dict[Any, Any], room: int) -> dict[str, Any]:
    if all(type(key) is str for key in value):
        return {
            f"${key}" if key.startswith("$") else key: tag(item, room)
            for key, item in value.items()
        }
    return {"$dict": [tag(piece, room) for pair in value.items() for piece in pair]}


def _untag_dict(pieces: list[Any]) -> dict[Any, Any]:
    found = [untag(piece) for piece in pieces]
    return dict(zip(found[::2], found[1::2], strict=True))


_THAWED: dict[type, type] = {FrozenDict: dict, FrozenList: list}
_WRITE: dict[type, tuple[str, Callable[[Any], Any]]] = {
    int: ("$int", lambda value: str(Decimal(value))),
    float: ("$float", str),
    bytes: ("$bytes", lambda value: b2a_base64(value, newline=False).decode()),
    datetime: ("$datetime", datetime.isoformat),
    date: ("$date", date.isoformat),
    time: ("$time", time.isoformat),
    timedelta: ("$timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: ("$decimal", str),
    UUID: ("$uuid", str),
    **dict.fromkeys(PARTS, ("$part", to_builtins)),
    **dict.fromkeys(
        (UserMessage, AssistantMessage, ToolMessage),
        ("$message", tree),
    ),
}


def _whole_number(text: str) -> int:
    """``Decimal`` knows no limit on the length of an integer's text, but it knows exponents."""
    if not text.removeprefix("-").isdecimal():
        raise ValueError("not an integer")
    return int(Decimal(text))


_READ: dict[str, Callable[[Any], Any]] = {
    "$int": _whole_number,
    "$float": {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}.__getitem__,
    "$bytes": lambda text: a2b_base64(text, strict_mode=True),  # base64 would copy the text
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
    "$decimal": Decimal,
    "$uuid": UUID,
    "$part": lambda stored: convert(stored, Part),
    "$message": lambda stored: restored(convert(stored, Message)),
    "$tuple": lambda items: tuple(untag(items)),
    "$dict": _untag_dict,
}


def _rebuilt(struct: _StructT, leaf: Callable[[Any], Any]) -> _StructT:
    def item(value: Any) -> Any:
        return _rebuilt(value, leaf) if open_fields(value.__class__) else leaf(value)

    changes: dict[str, Any] = {}
    for name, nested in open_fields(struct.__class__).items():
        value = getattr(struct, name)
        if not nested:
            changes[name] = leaf(value)
        elif isinstance(value, tuple):
            changes[name] = tuple(map(item, value))
    return replace(struct, **changes)


def _is_open(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Struct):
        return bool(open_fields(hint))
    return hint is Any or any(map(_is_open, get_args(hint)))


def _holds_tuple(hint: Any) -> bool:
    return get_origin(hint) is tuple or any(get_origin(part) is tuple for part in get_args(hint))


def _apart(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else found[0]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
