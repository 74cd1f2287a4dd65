"""What the tests of history, forks and edits share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnstream.actors import Session, Turn
from turnstream.events import Message, verify
from turnstream.projections import View
from turnstream.stores import EventStore

WAIT = 20


def resumed(session: Session) -> Turn:
    """The unfinished turn, going on."""
    turn = session.resume()
    assert turn is not None
    return turn


def stored(store: EventStore, session_id: str) -> list[tuple[Any, ...]]:
    """A stream as it is stored, byte for byte."""
    return [tuple(each) for each in store.read(session_id)]


def shown(view: View) -> list[Message]:
    """All messages that a user sees: the conversation, and what is pending."""
    pending = view.pending
    return [*view.messages, *(pending.messages if pending is not None else ())]


def visible(session: Session) -> list[Message]:
    """The same, as of now."""
    return shown(session.at(version=session.version))


def texts(messages: Sequence[Message]) -> list[str]:
    """The texts of messages, whoever said them."""
    return [str(getattr(each, "text", None) or getattr(each, "content", "")) for each in messages]


def assert_sound(store: EventStore, *session_ids: str) -> None:
    """Each chain holds."""
    for each in session_ids:
        assert store.read(each)
        assert verify(store.read(each)) is None
