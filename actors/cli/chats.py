"""Files of conversations in OpenAI chat format, or in ATIF.

A file holds one conversation, as JSON, or one a line. A conversation is a list of messages, an
object with ``messages`` and perhaps an ``id``, or a trajectory in ATIF. A file may be packed with
gzip. Lines are read one at a time, so a file may be of any size.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..atif_reading import is_trajectory

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


class Chat(NamedTuple):
    """A conversation that was found in line ``line``, or in the whole file (0)."""

    line: int
    id: str
    messages: list[Any]


class Trajectory(NamedTuple):
    """A trajectory that was found in line ``line``, or in the whole file (0)."""

    line: int
    id: str
    document: dict[str, Any]


class Unreadable(NamedTuple):
    """What stands in line ``line``, or in the whole file (0), is no conversation."""

    line: int
    reason: str


Conversation: TypeAlias = Chat | Trajectory
Row: TypeAlias = tuple[int, bytes] | Unreadable


def read_rows(source: BufferedReader) -> Iterator[Row]:
    """The lines of a file, unpacked, each with its number."""
    return _rows(_unpacked(source))


def read_chats(rows: Iterator[Row], *, by_line: bool) -> Iterator[Conversation | Unreadable]:
    """The conversations of a file. ``by_line`` says that each line is one; otherwise the
    first line tells: if it is one, and not alone, so are the others."""
    if by_line:
        yield from _lines(rows)
        return
    head = list(_head(rows))
    found = list(_lines(head))
    if len(found) == 2 and not isinstance(found[0], Unreadable):
        yield from found
        yield from _lines(rows)
    else:
        yield _whole(chain(head, rows))


def has_lines(file: Path) -> bool:
    """Whether a file's name says that each line is a conversation."""
    return Path(file.name.removesuffix(".gz")).suffix in (".jsonl", ".ndjson")


def _unpacked(source: BufferedReader) -> Iterable[bytes]:
    packed = source.peek(2).startswith(_GZIP)
    return gzip.GzipFile(fileobj=source) if packed else source


def _rows(source: Iterable[bytes]) -> Iterator[Row]:
    number = 0
    try:
        for number, row in enumerate(source, 1):
            yield number, row.removeprefix(_BOM) if number == 1 else row
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        yield Unreadable(number + 1, f"the packed file is damaged from here on: {error}")


def _head(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows up to the second one that is not blank."""
    filled = 0
    for row in rows:
        yield row
        filled += not _is_blank(row)
        if filled == 2:
            return


def _lines(rows: Iterable[Row]) -> Iterator[Conversation | Unreadable]:
    for row in rows:
        if isinstance(row, Unreadable):
            yield row
        elif not _is_blank(row):
            yield _conversation(*row)


def _is_blank(row: Row) -> bool:
    return not isinstance(row, Unreadable) and not row[1].strip()


def _whole(rows: Iterable[Row]) -> Conversation | Unreadable:
    texts = []
    for row in rows:
        if isinstance(row, Unreadable):
            return row
        texts.append(row[1])
    return _conversation(0, b"".join(texts))


def _conversation(line: int, text: bytes) -> Conversation | Unreadable:
    try:
        found = json.loads(text.decode())
    except UnicodeDecodeError as error:
        return Unreadable(line, f"no UTF-8, at byte {error.start}")
    except (ValueError, RecursionError) as error:
        return Unreadable(line, f"no JSON: {error}")
    match found:
        case list():
            return Chat(line, "", found)
        case {"steps": list()} if is_trajectory(found):
            own = found.get("session_id")
            return Trajectory(line, own if isinstance(own, str) else "", found)
        case {"messages": list(messages)}:
            own = found.get("id")
            return Chat(line, own if isinstance(own, str) else "", messages)
        case _:
            return Unreadable(line, "neither a list of messages nor an object with 'messages'")
