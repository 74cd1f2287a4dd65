"""Reading and writing a session's stream: what is known of it, what an append makes of that, and
a decision recorded where no agent is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import NamedTuple

from ..events.approvals import session_of
from ..events.chain import digest
from ..events.codec import CODEC
from ..events.errors import InvalidSessionId, WrongExpectedVersion
from ..events.session import AgentConfigured, Budget, Owner, SessionEvent
from ..projections import INITIAL, SessionState, fold
from ..stores import EventStore
from ..stores.port import Append, RowChange
from .approving import not_found, take
from .commands import Resolve, Rules, Stamp
from .draft import Draft

MAX_CONFLICTS = 20


class Known(NamedTuple):
    """What a stream says up to a version, and the digest of its last event."""

    state: SessionState = INITIAL
    version: int = 0
    prev: str = ""


def read_on(store: EventStore, session_id: str, known: Known) -> Known:
    """What the stream says by now. Raises the store's errors, and ``CorruptEvent``."""
    with closing(store.replay(session_id, after=known.version)) as pages:
        for page in pages:
            prev = digest(page.topics[-1], page.version, page.payloads[-1])
            known = Known(fold(CODEC.replayed(page), known.state), page.version, prev)
    return known


def append_after(
    known: Known, session_id: str, events: Sequence[SessionEvent], state: SessionState
) -> tuple[Append, Known]:
    """The append of events that lead to ``state``, and what is known once it is done."""
    encoded, prev = CODEC.chained(events, known.version, known.prev)
    row = row_of(state, session_id, events[-1].at, prev)
    append = Append(session_id, known.version, encoded, row)
    return append, Known(state, known.version + len(encoded), prev)


def row_of(state: SessionState, session_id: str, at: datetime, head: str) -> RowChange:
    """The session's row, where its last event, of that time and digest, led to ``state``."""
    approvals = state.approvals(session_id)
    return RowChange(state.status, state.agent, at, state.tenant, approvals, head)


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
