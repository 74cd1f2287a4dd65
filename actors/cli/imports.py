"""Conversations and exported sessions from a file, each as a session.

Each is one append, so an import can be stopped anywhere and started again: what stands there
already is recognised and left as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import Literal, cast

from msgspec import Struct

from ...events.codec import CODEC
from ...events.errors import (
    CorruptEvent,
    DamagedFile,
    InvalidSessionId,
    InvalidTranscript,
    SessionDeleted,
    Unstorable,
    WrongExpectedVersion,
)
from ...events.session import UnknownEvent
from ...stores import EventStore
from ..archive import BEGINNING, Archive, read_archives
from ..archive_reading import restore
from ..atif_reading import import_trajectory
from ..importing import import_transcript
from ..transcribing import IMPORTED
from .chats import Conversation, Row, Trajectory, Unreadable, read_chats, read_rows

_AT_FAULT = (InvalidSessionId, InvalidTranscript, SessionDeleted, Unstorable)
_SHAPELESS = (AttributeError, KeyError, TypeError, ValueError, RecursionError)


class Imported(Struct, frozen=True):
    """What became of the conversation of one line (0: the whole file). ``present`` says that the
    session began with the very same conversation before; ``version`` is where it ends."""

    line: int
    session_id: str
    outcome: Literal["imported", "present", "failed"]
    version: int = 0
    reason: str = ""


@contextmanager
def opened_file(path: Path) -> Iterator[BufferedReader]:
    """The file at ``path``; standard input for ``-``."""
    if str(path) == "-":
        yield cast(BufferedReader, sys.stdin.buffer)
    else:
        with path.open("rb") as file:
            yield file


class Naming(Struct, frozen=True):
    """How imported sessions are named: as ``given`` on the command line, else by an id of their
    own, else by the file's ``stem``; given names and stems get the line's number."""

    given: str | None
    stem: str

    @classmethod
    def of(cls, file: Path, given: str | None) -> Naming:
        """For a file on the command line."""
        stem = Path(file.name.removesuffix(".gz")).stem
        return cls(given, "stdin" if stem == "-" else stem)

    def name(self, chat: Conversation) -> str:
        """The session id of a conversation."""
        if self.given is None and chat.id:
            return chat.id
        name = self.stem if self.given is None else self.given
        return f"{name}-{chat.line}" if chat.line else name


def import_file(
    source: BufferedReader, store: EventStore, naming: Naming, agent: str | None, *, by_line: bool
) -> Iterator[Imported]:
    """Import what a file holds, whatever it is: exported sessions, or conversations.

    What can't be imported does not stop what comes after it, unless the file is damaged. Raises
    what the store raises when it can't be written to.
    """
    rows = read_rows(source)
    first = list(islice(rows, 1))
    rows = chain(first, rows)
    if first and not isinstance(first[0], Unreadable) and first[0][1].startswith(BEGINNING):
        return import_archives(rows, store, naming.given)
    return import_chats(read_chats(rows, by_line=by_line), store, naming, agent)


def import_archives(
    rows: Iterable[Row], store: EventStore, given: str | None
) -> Iterator[Imported]:
    """Import exported sessions, as they were. A file that is damaged is read up to there."""
    try:
        for archive in read_archives(map(_undamaged, rows)):
            yield _restore(archive, store, given)
    except DamagedFile as error:
        yield Imported(error.line, "", "failed", reason=error.reason)


def import_chats(
    chats: Iterable[Conversation | Unreadable],
    store: EventStore,
    naming: Naming,
    agent: str | None,
) -> Iterator[Imported]:
    """Import one conversation after the other; one that can't be does not stop the others."""
    for chat in chats:
        match chat:
            case Unreadable(line=line, reason=reason):
                yield Imported(line, "", "failed", reason=reason)
            case _:
                yield _import(chat, store, naming.name(chat), agent)


def _undamaged(row: Row) -> bytes:
    if isinstance(row, Unreadable):
        raise DamagedFile(row.reason, line=row.line)
    return row[1]


def _restore(archive: Archive, store: EventStore, given: str | None) -> Imported:
    try:
        restored = restore(archive, store, given)
    except WrongExpectedVersion as error:
        reason = f"session {error.session_id!r} exists with other events; choose another id"
        return Imported(archive.line, error.session_id, "failed", reason=reason)
    except (*_AT_FAULT, CorruptEvent) as error:
        return Imported(archive.line, archive.session_id, "failed", reason=str(error))
    outcome: Literal["present", "imported"] = "present" if restored.present else "imported"
    return Imported(archive.line, restored.session_id, outcome, restored.version)


def _import(chat: Conversation, store: EventStore, session_id: str, agent: str | None) -> Imported:
    try:
        version = _write(chat, store, session_id, agent)
    except WrongExpectedVersion:
        return _compare(chat, store, session_id, agent)
    except _AT_FAULT as error:
        return Imported(chat.line, session_id, "failed", reason=str(error))
    except _SHAPELESS as error:
        reason = f"a message is not of the chat format: {type(error).__name__}: {error}"
        return Imported(chat.line, session_id, "failed", reason=reason)
    return Imported(chat.line, session_id, "imported", version)


def _write(
    chat: Conversation,
    store: EventStore,
    session_id: str,
    agent: str | None,
    at: datetime | None = None,
) -> int:
    if isinstance(chat, Trajectory):
        return import_trajectory(chat.document, store, session_id, agent=agent, at=at)
    return import_transcript(chat.messages, store, session_id, agent=agent or IMPORTED, at=at)


def _compare(chat: Conversation, store: EventStore, session_id: str, agent: str | None) -> Imported:
    """A store takes an append that already stands there, byte for byte, as written; and the only
    thing in it that this import did not determine is the time of the first."""
    first = store.read(session_id, upto=1)[0]
    event = CODEC.decode(first.topic, first.payload)
    try:
        if not isinstance(event, UnknownEvent):
            version = _write(chat, store, session_id, agent, event.at)
            return Imported(chat.line, session_id, "present", version)
    except WrongExpectedVersion:
        pass
    reason = f"session {session_id!r} exists and holds something else; choose another id"
    return Imported(chat.line, session_id, "failed", reason=reason)
