"""Which sessions work for which, as the store says. No agent is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

from ..events.codec import CODEC, topic_of
from ..events.errors import CorruptEvent
from ..events.session import (
    ModelTurnRecorded,
    SessionStarted,
    ToolCallStarted,
    ToolResultRecorded,
    TurnResumed,
    TurnStarted,
)
from ..events.terms import ParentCall
from ..stores import EventStore
from .parentage import PREFIX, child_id

_STARTED, _RESUMED = topic_of(ToolCallStarted), topic_of(TurnResumed)
_PROGRESS = {topic_of(each) for each in (TurnStarted, ModelTurnRecorded, ToolResultRecorded)}


def parent_of(store: EventStore, session_id: str) -> ParentCall | None:
    """The call that a session serves; None where it is no sub-agent's, or a copy of one."""
    if not session_id.startswith(PREFIX):
        return None
    with suppress(CorruptEvent):
        for record in store.read(session_id, upto=1):
            begun = CODEC.recorded(record).event
            if isinstance(begun, SessionStarted) and (parent := begun.parent) is not None:
                name = child_id(parent.session_id, parent.turn_id, parent.call_id)
                return parent if name == session_id else None
    return None


def children_of(store: EventStore, session_id: str) -> Sequence[str]:
    """The sessions of a session's sub-agents that there are, but for those of the one that it is
    a fork of. What can't be read is left out."""
    found = dict.fromkeys(_named(store, session_id))
    return [each for each in found if _serves(store, each, session_id)]


def descendants(store: EventStore, session_id: str) -> Sequence[str]:
    """The sessions of its sub-agents and of theirs, each after those that work for it."""
    found = list[str]()
    for child in children_of(store, session_id):
        found += [*descendants(store, child), child]
    return found


def got_on(store: EventStore, session_id: str, resumed: int) -> bool:
    """Whether its sub-agents recorded something since the last so many times that it was
    resumed."""
    times = [each.position for each in store.read(session_id) if each.topic == _RESUMED]
    since = times[-resumed]
    return any(
        each.position > since and each.topic in _PROGRESS
        for child in descendants(store, session_id)
        for each in store.read(child)
    )


def _named(store: EventStore, session_id: str) -> Iterator[str]:
    with closing(store.replay(session_id)) as pages:
        for page in pages:
            for topic, payload in zip(page.topics, page.payloads, strict=True):
                if topic == _STARTED and b'"child"' in payload:
                    with suppress(CorruptEvent):
                        started = CODEC.decode(topic, payload)
                        if isinstance(started, ToolCallStarted) and started.child:
                            yield started.child


def _serves(store: EventStore, child: str, session_id: str) -> bool:
    parent = parent_of(store, child)
    return parent is not None and parent.session_id == session_id
