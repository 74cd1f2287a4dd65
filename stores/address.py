"""Where a store is, in one line of text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias, cast
from urllib.parse import parse_qsl, unquote

from ..events.errors import NotAStore, NotSupported
from .port import EventStore

FORMS = """\
memory://                    in this process, gone with it
sqlite:///relative/path.db   in a file
sqlite:////absolute/path.db  in a file
sqlite://                    in memory, in SQLite
jsonl:///relative/directory  in a file for each session
jsonl:////absolute/directory in a file for each session
postgresql://user@host/db    in a schema of a PostgreSQL database
A SQLite address takes ?synchronous=normal|full and ?timeout=SECONDS, a JSONL address \
?sync=full|none and ?timeout=SECONDS; a ? or % that belongs to the path is written %3F or %25. \
A PostgreSQL address takes ?schema=, ?timeout=SECONDS, ?pool=NUMBER and the options of libpq."""


class Address(NamedTuple):
    """A store's address, taken apart. ``path`` is None where there is none; ``url`` is the whole
    as it was written."""

    scheme: str
    path: str | None
    options: Mapping[str, str]
    url: str


Opener: TypeAlias = Callable[[Address], EventStore]


def open_store(url: str) -> EventStore:
    """Open the store at an address, and make it if there is none.

    Raises ``NotAStore`` where the address is none or holds something else, ``NotSupported``,
    ``StoreTooNew``, ``StoreBusy`` or ``StoreUnavailable``.
    """
    address = _parse(url)
    opener = OPENERS.get(address.scheme)
    if opener is None:
        raise _no_address(f"there is no store of the kind {address.scheme!r}")
    return opener(address)


def opened(store: str | EventStore) -> EventStore:
    """An open store as it is, or the one at an address. Raises as ``open_store``."""
    if isinstance(store, str):
        return open_store(store)
    if not hasattr(store, "durable"):
        raise _no_address(f"an address or an open store is wanted, not {type(store).__name__}")
    return store


def _parse(url: str) -> Address:
    # Not urlsplit: it would lose a # and what follows.
    found = re.fullmatch(r"([a-z]+)://([^?]*)(?:\?(.*))?", url, re.DOTALL)
    if found is None:
        raise _no_address("this is no address of a store")
    scheme, place, query = found.groups()
    options = dict(parse_qsl(query or "", keep_blank_values=True))
    return Address(scheme, unquote(place, errors="surrogateescape") or None, options, url)


def _no_address(why: str) -> NotAStore:
    # The address itself may hold a password.
    return NotAStore(f"{why}; write one of\n{FORMS}")


def _memory(address: Address) -> EventStore:
    from .memory import MemoryStore

    if address.path or address.options:
        raise _no_address("a memory store has neither path nor options")
    return MemoryStore()


def _sqlite(address: Address) -> EventStore:
    from .sqlite import SQLiteStore

    if unknown := address.options.keys() - {"synchronous", "timeout"}:
        raise _no_address(f"a SQLite store has no option {min(unknown)!r}")
    return SQLiteStore(
        _file(address.path),
        synchronous=_synchronous(address.options.get("synchronous", "full")),
        timeout=_seconds(address.options.get("timeout", "5")),
    )


def _jsonl(address: Address) -> EventStore:
    from .jsonl import JSONLStore

    if unknown := address.options.keys() - {"sync", "timeout"}:
        raise _no_address(f"a JSONL store has no option {min(unknown)!r}")
    if (path := address.path or "").strip("/") == "" or not path.startswith("/"):
        raise _no_address("a JSONL address names a directory, after three slashes")
    if (sync := address.options.get("sync", "full")) not in ("full", "none"):
        raise _no_address("?sync= is full or none")
    timeout = _seconds(address.options.get("timeout", "5"))
    return JSONLStore(path[1:], sync=sync == "full", timeout=timeout)


def _file(path: str | None) -> str | None:
    match path:
        case None:
            return None
        case "/" | "/:memory:":
            raise _no_address("this SQLite address names no file")
        case _ if path.startswith("/"):
            return path[1:]
        case _:
            raise _no_address("the path of a SQLite address comes after three slashes")


def _synchronous(value: str) -> Literal["full", "normal"]:
    if value not in ("full", "normal"):
        raise _no_address("?synchronous= is full or normal")
    return cast(Literal["full", "normal"], value)


def _seconds(value: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", value, re.ASCII):
        raise _no_address("?timeout= is a number of seconds")
    return float(value)


def _postgresql(address: Address) -> EventStore:
    try:
        from .postgres import PostgresStore
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("psycopg", "psycopg_pool"):
            raise
        raise NotSupported(
            "a PostgreSQL store needs psycopg: pip install 'turnstream[postgres]'"
        ) from error
    ours = address.options.keys() & {"schema", "timeout", "pool"}
    given = {key: address.options[key] for key in ours}
    # The rest is for the client library, word for word: it has quoting of its own.
    place, _, query = address.url.partition("?")
    theirs = "&".join(each for each in query.split("&") if each.partition("=")[0] not in ours)
    return PostgresStore(
        f"{place}?{theirs}" if theirs else place,
        schema=given.get("schema", "turnstream"),
        timeout=_seconds(given.get("timeout", "5")),
        pool=_number(given.get("pool", "10")),
    )


def _number(value: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", value, re.ASCII):
        raise _no_address("?pool= is a number of connections")
    return int(value)


OPENERS: Mapping[str, Opener] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "jsonl": _jsonl,
}
"""What opens each kind of address. A new kind of store is one line here."""
