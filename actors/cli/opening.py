"""The store that a command works on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import unquote

from ...events.errors import NotAStore, SessionNotFound
from ...stores import EventStore, SessionRow, open_store

DEFAULT_STORE = "sqlite:///turnstream.db"

_FILE = re.compile(r"(?:sqlite|jsonl):///([^?]+)")


@contextmanager
def store_to_read(url: str) -> Iterator[EventStore]:
    """The store at an address, which must be there: looking must not make one."""
    path = store_file(url)
    if path is not None and not path.exists():
        raise NotAStore(f"there is no store at {path}; name another with --store")
    with store_to_write(url) as store:
        yield store


@contextmanager
def store_to_write(url: str) -> Iterator[EventStore]:
    """The store at an address, made if there is none."""
    with closing(open_store(url)) as store:
        if not store.durable:
            raise NotAStore(
                "a store in memory ends with the command; name a file: --store sqlite:///FILE"
            )
        yield store


def store_file(url: str) -> Path | None:
    """The file or directory an address leads to; None for one that leads elsewhere."""
    found = _FILE.match(url)
    return Path(unquote(found[1], errors="surrogateescape")) if found else None


def existing_session(store: EventStore, session_id: str) -> SessionRow:
    """The session's row. Raises ``SessionNotFound`` and ``InvalidSessionId``."""
    row = store.session(session_id)
    if row is None:
        raise SessionNotFound(
            f"there is no session {session_id!r}; 'turnstream sessions' lists those there are",
            session_id=session_id,
        )
    return row
