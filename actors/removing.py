"""What a session's actor does without deciding anything: its stream deleted, content erased."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeAlias

from msgspec import Struct

from ..events.errors import SessionDeleted
from ..stores import EventStore
from .erasure import erase_content


class Delete(Struct, frozen=True, gc=False):
    """Delete the session."""


class Erase(Struct, frozen=True, gc=False):
    """Erase the content of the events at these versions."""

    versions: tuple[int, ...]
    reason: str = ""
    by: str = ""


Removal: TypeAlias = Delete | Erase


class Removed(Struct, frozen=True):
    """``answer`` is for who asked: whether there was a session, or how many events lost their
    content. ``gone`` is what everybody who waits for a session is told that is there no more."""

    answer: Any
    gone: SessionDeleted | None = None


def remove(store: EventStore, session_id: str, removal: Removal) -> Removed:
    """Carry it out. Raises ``SessionNotFound``, ``ErasureRefused`` and the store's errors."""
    match removal:
        case Delete():
            there = store.delete(session_id) > 0
            return Removed(there, SessionDeleted(session_id) if there else None)
        case Erase(versions=versions, reason=reason, by=by):
            at = datetime.now(UTC)
            return Removed(erase_content(store, session_id, versions, at, reason=reason, by=by))
