"""Conversations from a file, each as a session.

Each conversation is one append, so an import can be stopped anywhere and started again: what
stands there already is recognised and left as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Literal, cast

from msgspec import Struct

from ...events.codec import CODEC
from ...events.errors import (
    InvalidSessionId,
    InvalidTranscript,
    SessionDeleted,
    Unstorable,
    WrongExpectedVersion,
)
from ...events.session import UnknownEvent
from ...stores import EventStore
from ..importing import import_transcript
from .chats import Chat, Unreadable

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

    def name(self, chat: Chat) -> str:
        """The session id of a conversation."""
        if self.given is None and chat.id:
            return chat.id
        name = self.stem if self.given is None else self.given
        return f"{name}-{chat.line}" if chat.line else name


def import_chats(
    chats: Iterable[Chat | Unreadable], store: EventStore, naming: Naming, agent: str
) -> Iterator[Imported]:
    """Import one conversation after the other; one that can't be does not stop the others.

    Raises what the store raises when it can't be written to.
    """
    for chat in chats:
        match chat:
            case Unreadable(line=line, reason=reason):
                yield Imported(line, "", "failed", reason=reason)
            case Chat():
                yield _import(chat, store, naming.name(chat), agent)


def _import(chat: Chat, store: EventStore, session_id: str, agent: str) -> Imported:
    try:
        version = import_transcript(chat.messages, store, session_id, agent=agent)
    except WrongExpectedVersion:
        return _compare(chat, store, session_id, agent)
    except _AT_FAULT as error:
        return Imported(chat.line, session_id, "failed", reason=str(error))
    except _SHAPELESS as error:
        reason = f"a message is not of the chat format: {type(error).__name__}: {error}"
        return Imported(chat.line, session_id, "failed", reason=reason)
    return Imported(chat.line, session_id, "imported", version)


def _compare(chat: Chat, store: EventStore, session_id: str, agent: str) -> Imported:
    """A store takes an append that already stands there, byte for byte, as written; and the only
    thing in it that this import did not determine is the time of the first."""
    first = store.read(session_id, upto=1)[0]
    event = CODEC.decode(first.topic, first.payload)
    try:
        if not isinstance(event, UnknownEvent):
            version = import_transcript(chat.messages, store, session_id, agent=agent, at=event.at)
            return Imported(chat.line, session_id, "present", version)
    except WrongExpectedVersion:
        pass
    reason = f"session {session_id!r} exists and holds something else; choose another id"
    return Imported(chat.line, session_id, "failed", reason=reason)
