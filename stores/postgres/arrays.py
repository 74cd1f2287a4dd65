"""Lists of text and of bytes, packed as PostgreSQL reads them.

psycopg looks at each element of a list to find out what it is, which takes longer than the rest
of an append's way to the server.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from psycopg import postgres
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

_HEAD = Struct("!iiIii").pack  # dimensions, whether there are nulls, element type, length, first
_LENGTH = Struct("!i").pack
_TEXT = postgres.types["text"]
_BYTEA = postgres.types["bytea"]


class TextArray(bytes):
    """A ``text[]``, packed."""


class ByteaArray(bytes):
    """A ``bytea[]``, packed."""


class _PackedText(Dumper):
    format = Format.BINARY
    oid = _TEXT.array_oid

    def dump(self, obj: TextArray) -> bytes:
        return obj


class _PackedBytea(Dumper):
    format = Format.BINARY
    oid = _BYTEA.array_oid

    def dump(self, obj: ByteaArray) -> bytes:
        return obj


def text_array(texts: Iterable[str]) -> TextArray:
    """Texts that PostgreSQL can hold, as a parameter."""
    return TextArray(_packed(_TEXT.oid, [text.encode() for text in texts]))


def bytea_array(values: Iterable[bytes]) -> ByteaArray:
    """Bytes as a parameter."""
    return ByteaArray(_packed(_BYTEA.oid, [*values]))


def register(adapters: AdaptersMap) -> None:
    """Let them be parameters."""
    adapters.register_dumper(TextArray, _PackedText)
    adapters.register_dumper(ByteaArray, _PackedBytea)


def _packed(element: int, values: list[bytes]) -> bytes:
    parts = [_HEAD(1, 0, element, len(values), 1)]
    for value in values:
        parts += (_LENGTH(len(value)), value)
    return b"".join(parts)
