"""Reading and writing a session's stream: what is known of it, what an append makes of that, and
a decision recorded where no agent is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import NamedTuple

from ..events.approvals import session_of
from ..events.chain import link
from ..events.codec import CODEC
from ..events.errors import ApprovalDecided, InvalidSessionId, WrongExpectedVersion
from ..events.session import AgentConfigured, AnyEvent, ContentErased, SessionEvent
from ..events.terms import Budget, ForkOrigin, Owner, ParentCall
from ..projections import INITIAL, SessionState, fold
from ..stores import EventStore
from ..stores.port import Append, RowChange
from .approving import not_found, take
from .commands import Resolve, Rules, Stamp
from .draft import Draft
from .parentage import served, wants
from .snapshotting import latest_fold

MAX_CONFLICTS = 20


class Known(NamedTuple):
    """What a stream says up to a version, and the digest of its last event. It was folded from
    the version ``begun``, where there was a snapshot."""

    state: SessionState = INITIAL
    version: int = 0
    prev: str = ""
    begun: int = 0


def read_on(store: EventStore, session_id: str, known: Known) -> Known:
    """What the stream says by now. Raises the store's errors, and ``CorruptEvent``.

    Where content was erased since, that is in the state no more: the stream is read anew."""
    if not known.version and (kept := latest_fold(store, session_id)) is not None:
        known = Known(kept.state, kept.version, kept.prev, kept.version)
    held, erased = known.version, False
    with closing(store.replay(session_id, after=held)) as pages:
        for page in pages:
            events = CODEC.replayed(page)
            if held and any(isinstance(each, ContentErased) for each in events):
                erased = True
            prev = link(page.topics[-1], page.version, page.payloads[-1])
            known = Known(fold(events, known.state), page.version, prev, known.begun)
    return read_on(store, session_id, Known()) if erased else known


class News(NamedTuple):
    """What a stream says by now, and the events that say so since."""

    known: Known
    events: Sequence[AnyEvent]


def read_news(store: EventStore, session_id: str, known: Known) -> News:
    """What others wrote. Raises as ``read_on``."""
    records = store.read(session_id, after=known.version)
    if not records:
        return News(known, ())
    events, last = [CODEC.recorded(each).event for each in records], records[-1]
    if any(isinstance(each, ContentErased) for each in events):
        anew = read_on(store, session_id, Known())
        later = store.read(session_id, after=last.version, upto=anew.version)
        return News(anew, [*events, *(CODEC.recorded(each).event for each in later)])
    prev = link(last.topic, last.version, last.payload)
    return News(Known(fold(events, known.state), last.version, prev, known.begun), events)


def append_after(
    known: Known,
    session_id: str,
    events: Sequence[SessionEvent],
    state: SessionState,
    copied: ForkOrigin | None = None,
) -> tuple[Append, Known]:
    """The append of events that lead to ``state``, and what is known once it is done. With
    ``copied``, what is known is the origin's, and comes along."""
    encoded, prev = CODEC.chained(events, known.version, known.prev)
    row = row_after(state, session_id, events[-1].at, prev)
    append = Append(session_id, known.version, encoded, row, copied)
    return append, Known(state, known.version + len(encoded), prev, known.begun)


def row_after(state: SessionState, session_id: str, at: datetime, head: str) -> RowChange:
    """What a stream's row says in this state, whose last event happened ``at`` and has the digest
    ``head``."""
    approvals = state.own_approvals(session_id)
    return RowChange(state.status, state.active, at, state.tenant, approvals, head)


def row_of(state: SessionState, session_id: str, at: datetime, head: str) -> RowChange:
    """The session's row, where its last event, of that time and digest, led to ``state``."""
    approvals = state.own_approvals(session_id)
    return RowChange(state.status, state.active, at, state.tenant, approvals, head)


def those_above(
    store: EventStore, state: SessionState
) -> Iterator[tuple[ParentCall, SessionState]]:
    """The call that a sub-agent's session serves, with what the session of it says, and so on
    upwards. Raises as ``read_on``."""
    while (parent := served(state)) is not None:
        state = read_on(store, parent.session_id, Known()).state
        yield parent, state


def record_decision(store: EventStore, command: Resolve, at: datetime) -> None:
    """Record a decision, and start nothing: the turn goes on with whoever resumes it.

    Raises ``ApprovalNotFound``, ``ApprovalDecided``, and the store's errors. Edited arguments are
    checked when the call is about to run.
    """
    session_id = session_of(command.approval_id)
    for left in reversed(range(MAX_CONFLICTS)):
        try:
            known = read_on(store, session_id, Known())
        except InvalidSessionId:
            raise not_found(command.approval_id) from None
        for parent, above in those_above(store, known.state):
            if not wants(above, parent):
                raise ApprovalDecided(command.approval_id, "aborted")
        draft = Draft(known.state, _NO_RULES, Stamp(at, Owner(0, ""), session_id))
        take(draft, command)
        append, _ = append_after(known, session_id, draft.events, draft.state)
        try:
            store.append(append)
        except WrongExpectedVersion:
            if not left:
                raise
        else:
            return


_NO_RULES = Rules(
    AgentConfigured(at=datetime.fromtimestamp(0, UTC), name="", model=""),
    Budget(max_steps=0),
    1,
    {},
    lambda call: None,
    lambda call, session_id, state: None,
    {},
)
