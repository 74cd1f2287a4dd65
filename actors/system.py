"""The actor system: the door to sessions and to the log of all events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from secrets import token_hex
from typing import Any, TypeVar, get_args
from weakref import WeakSet

from ..events.approvals import Approval, oldest_first, session_of
from ..events.codec import CODEC
from ..events.envelope import RecordedEvent, StoredRecord
from ..events.errors import InvalidSessionId
from ..events.identifiers import JOURNAL, check_session_id
from ..events.messages import Policy
from ..events.session import Status
from ..projections import Checkpoint, OpenTurn, ReadModel, View
from ..stores import EventStore, SessionRow, Subscription
from ..stores.address import opened
from .agent import Agent
from .approving import not_found
from .commands import Command, LateCommand, LookAtTheClock, OnDrift, Rewind
from .descent import got_on
from .effects import Place
from .forking import Lineage, fork, lineage
from .handles import Session, as_text, check_policy
from .leaving import ClosedOnLeaving
from .letters import Asked, Asker
from .logging_context import about
from .losing import warn_of_lost_questions, warn_that_nothing_was_kept
from .patching import Patch
from .projecting import Projector
from .ready import ReadyAgent
from .recording import Known, read_on
from .removing import Removal
from .retention import Pruned, prune
from .roster import Roster
from .runtime import Runtime
from .turns import Turn
from .viewing import Point, history, rewinding, view
from .waiting import Promise

R = TypeVar("R")

log: logging.Logger = logging.getLogger("turnstream")


class ActorSystem(ClosedOnLeaving):
    """Runs sessions of one or several agents on one store, and of the agents that these reach by
    hand-offs.

    ``store`` is an address (``memory://``, ``sqlite:///file.db``, ``sqlite://``) or an open
    store, which is then not closed with the system. ``turn_policy`` says what an input does while
    a turn runs (see ``Session.send``). ``on_agent_drift`` says what happens where an unfinished
    turn goes on with an agent that differs from the one that began it: ``"warn"``, ``"error"`` or
    ``"ignore"``. ``on_failure`` says whether a failed turn is kept for
    ``resume`` (``"keep"``) or dropped; by default it is kept where the store outlives the process.
    ``idle_timeout`` (seconds) is how long an idle session's actor stays; ``mailbox_limit`` how many
    inputs may wait in one session's mailbox; ``max_recoveries`` how often ``resume_all`` goes on
    with a turn that its process does not survive. ``lease`` (seconds) is how long other nodes on
    the store leave this one its turns when it gives no sign of life; with 0 it takes no heed of
    them.

    Use it with ``with`` or ``async with``, or call ``close``. Raises the store's errors where it
    can't be opened, and ``InvalidAgent`` where two agents share a name, or a hand-off is to nobody.
    """

    def __init__(
        self,
        agents: Agent | Iterable[Agent],
        *,
        store: str | EventStore = "memory://",
        turn_policy: Policy = "wait",
        on_agent_drift: OnDrift = "warn",
        on_failure: str | None = None,
        idle_timeout: float = 60.0,
        mailbox_limit: int = 1000,
        max_recoveries: int = 3,
        lease: float = 10.0,
    ) -> None:
        roster = Roster(agents)
        _check(on_agent_drift, on_failure, idle_timeout, mailbox_limit, max_recoveries)
        if not isinstance(lease, (int, float)) or not lease >= 0:
            raise ValueError(f"lease must be 0 seconds or more, not {lease!r}")
        self._turn_policy: Policy = check_policy(turn_policy)
        self._max_recoveries = max_recoveries
        self._default_agent = roster.default
        self._owns_store = isinstance(store, str)
        self._store = opened(store)
        self._projectors = WeakSet[Projector[Any]]()
        keep = self._store.durable if on_failure is None else on_failure == "keep"
        self._forgets = self._owns_store and not self._store.durable
        if self._forgets:
            warn_of_lost_questions(roster.agents)
        self._runtime = Runtime(
            roster,
            partial(ReadyAgent, keep_failed=keep, on_drift=on_agent_drift, roster=roster),
            self._store,
            idle_timeout=idle_timeout,
            mailbox_limit=mailbox_limit,
            lease=lease,
        )
        self._runtime.children.open = self._open

    def _open(self, session_id: str, agent: str, tenant: str) -> Session:
        return self.session(session_id, agent=agent, tenant=tenant)

    def session(
        self,
        id: str | None = None,
        *,
        agent: str | None = None,
        tenant: str = "",
        turn_policy: Policy | None = None,
    ) -> Session:
        """A handle on the session of that id, or on a new one. Opens nothing.

        ``agent`` and ``tenant`` count where the session does not exist yet; ``turn_policy`` is
        for what is sent through this handle. Raises
        ``InvalidSessionId``, and ``UnknownAgent`` where the system has no such agent.
        """
        session_id = token_hex(16) if id is None else check_session_id(id)
        name = agent or self._default_agent
        self._runtime.agent(name)
        policy = self._turn_policy if turn_policy is None else check_policy(turn_policy)
        return Session(self, session_id, name, as_text(tenant, "tenant"), policy)

    def sessions(
        self,
        status: Status | None = None,
        *,
        agent: str | None = None,
        tenant: str | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        """The sessions that match every filter given, the last updated first. ``ValueError`` for a
        status that there is not: it would match none, as if nothing were there."""
        if status is not None and status not in get_args(Status):
            raise ValueError(f"a status is one of {get_args(Status)}, not {status!r}")
        return self._store.sessions(status=status, agent=agent, tenant=tenant, limit=limit)

    def approvals(
        self, *, agent: str | None = None, tenant: str | None = None
    ) -> Sequence[Approval]:
        """The decisions that sessions wait for, of all sessions or those that match, the oldest
        first."""
        rows = self.sessions("awaiting-approval", agent=agent, tenant=tenant)
        return oldest_first(each for row in rows for each in row.approvals)

    def approve(
        self,
        id: str,
        *,
        by: str = "",
        note: str = "",
        arguments: dict[str, Any] | None = None,
    ) -> Turn:
        """``Session.approve``, for the session that the approval belongs to, which need not have
        been opened."""
        return self._session_of(id).approve(id, by=by, note=note, arguments=arguments)

    def reject(self, id: str, *, by: str = "", note: str = "") -> Turn:
        """``Session.reject``, for the session that the approval belongs to, which need not have
        been opened."""
        return self._session_of(id).reject(id, by=by, note=note)

    def asking(self, session: Session, approval_id: str) -> Session:
        """The session that takes a decision looked for in this one: it, or a sub-agent's. For
        handles."""
        try:
            return self.session(session_of(approval_id), agent=session.agent)
        except InvalidSessionId:
            return session

    def _session_of(self, approval_id: str) -> Session:
        try:
            return self.session(session_of(approval_id))
        except InvalidSessionId:
            raise not_found(approval_id) from None

    def resume_all(self) -> Sequence[Turn]:
        """Finish what is unfinished, in all sessions: the turns to wait for.

        A turn that waits for decisions goes on where one of them is no longer waited for. Left
        alone are turns that were stopped on purpose, and those whose process was lost
        ``max_recoveries`` times since anything was recorded: ``Session.resume`` goes on with them.
        """
        if self._forgets:
            warn_that_nothing_was_kept()
        return self.resume_those("running", "failed", "awaiting-approval")

    def resume_those(self, *statuses: Status, idle_here: bool = False) -> Sequence[Turn]:
        """``resume_all`` for sessions of these statuses and of the system's agents; of those that
        are ``idle_here`` only, if so. For who serves."""
        rows = [row for status in statuses for row in self.sessions(status) if row.agent != JOURNAL]
        if idle_here:
            rows = [each for each in rows if self._runtime.is_idle(each.session_id, each.agent)]
        turns = (self._resumed(self.session(row.session_id)) for row in rows)
        return [turn for turn in turns if turn is not None]

    def _resumed(self, session: Session) -> Turn | None:
        state = read_on(self._store, session.id, Known()).state
        turn = state.turn
        if self._runtime.children.leave_to_parent(session.id, state):
            return None
        if turn is not None and turn.is_paused:
            answered, now = self._runtime.children.answered(state), datetime.now(UTC)
            over = [gated.approval_id in answered or gated.is_over(now) for _, gated in turn.gated]
            if any(over) and not all(over):
                self.tell(session, LookAtTheClock(), Promise(session.id))
            return session.resume_from(state) if all(over) else None
        if turn is not None and self._is_set_aside(session.id, turn):
            return None
        if turn is not None and self._runtime.nodes.runs_elsewhere(turn):
            return None
        return session.resume_from(state)

    def _is_set_aside(self, session_id: str, turn: OpenTurn) -> bool:
        if turn.halt is not None or turn.recoveries < self._max_recoveries:
            return False
        if got_on(self._store, session_id, self._max_recoveries):
            return False
        log.warning(
            "session %r is set aside: its process was lost %d times and nothing was recorded",
            session_id,
            turn.recoveries + 1,
            extra=about(session_id, turn.turn_id),
        )
        return True

    def prune(self, *, older_than: timedelta, dry_run: bool = False) -> Pruned:
        """Delete the sessions whose last event is older than that, and in which nothing is
        unfinished: no open turn, no waiting input, no open question. ``dry_run`` only counts.

        Blocks until it is done; each session is deleted by itself. ``compact`` of the store gives
        the space back.
        """
        if not isinstance(older_than, timedelta):
            raise TypeError(f"older_than is a timedelta, not {type(older_than).__name__}")
        return prune(self._store, datetime.now(UTC) - older_than, dry_run=dry_run)

    def events(self, after: int = 0) -> Iterator[RecordedEvent]:
        """All events with positions above ``after``, in order, as far as they are there now."""
        while records := self._store.read_all(after=after):
            yield from map(CODEC.recorded, records)
            after = records[-1].position

    def subscribe(self, after: int = 0) -> EventSubscription:
        """All events with positions above ``after``, then those that come; close it to end."""
        return EventSubscription(self._store.subscribe(after=after))

    def read_model(self, model: ReadModel[R]) -> Projector[R]:
        """What keeps a read model in this system's store: read its rows, ``catch_up`` or
        ``follow``. It is closed with the system."""
        projector = Projector(self._store, model)
        self._projectors.add(projector)
        return projector

    def close(self, timeout: float = 10.0) -> bool:
        """Stop accepting, let steps under way be recorded for at most ``timeout`` seconds,
        interrupt the rest. What was interrupted can be resumed. True if nothing was."""
        clean = self._runtime.close(timeout)
        for projector in list(self._projectors):
            projector.close()
        if self._owns_store:
            self._store.close()
        return clean

    def tell(
        self, session: Session, command: Command | LateCommand | Removal, asker: Asker
    ) -> None:
        """Hand a command to a session's actor. For handles."""
        self._runtime.tell(session.id, Asked(command, asker, session.agent, session.tenant))

    def trace(self, session_id: str, agent: str) -> str:
        """Which trace an input is sent in. For handles."""
        hooking = self._runtime.agent(agent).hooking
        return "" if hooking is None else hooking.sending(session_id, agent)

    def place(self, session_id: str) -> Place:
        """Where code of that session runs. For handles."""
        return self._runtime.effects.place(session_id)

    def soon(self, job: Callable[[], object]) -> None:
        """Have ``job`` done by a worker. For handles."""
        self._runtime.soon(job)

    def view(self, session_id: str, at: Point | None = None) -> View:
        """A session as it is or was. For handles."""
        return view(self._store, session_id, at)

    async def view_async(self, session_id: str, at: Point | None = None) -> View:
        """The same, off the event loop. For handles."""
        return await asyncio.to_thread(self.view, session_id, at)

    def history(self, session_id: str, limit: int | None) -> Sequence[Checkpoint]:
        """What a session was. For handles."""
        return history(self._store, session_id, limit)

    def lineage(self, session_id: str) -> Lineage:
        """A session's forks. For handles."""
        return lineage(self._store, session_id)

    def fork(
        self, session: Session, at: Point | None, patch: Patch | None, session_id: str | None
    ) -> Session:
        """A copy of a session. For handles."""
        name = fork(self._store, session.id, at, patch=patch, name=session_id)
        return self.session(
            name, agent=session.agent, tenant=session.tenant, turn_policy=session.turn_policy
        )

    def rewinding(self, session_id: str, at: Point, by: str) -> Rewind:
        """What goes back to a point. For handles."""
        return rewinding(self._store, session_id, at, by)

    def read_events(self, session_id: str, after: int) -> Sequence[RecordedEvent]:
        """A session's recorded events. For handles."""
        return [CODEC.recorded(each) for each in self._store.read(session_id, after=after)]

    def read_records(self, session_id: str) -> Sequence[StoredRecord]:
        """A session's events as they are stored. For handles."""
        return self._store.read(session_id)


class EventSubscription:
    """All events in order, as they become durable. Ends when it is closed."""

    def __init__(self, records: Subscription) -> None:
        self._records = records

    def __iter__(self) -> Iterator[RecordedEvent]:
        return map(CODEC.recorded, self._records)

    def close(self) -> None:
        """End the iteration, from whatever thread."""
        self._records.close()

    def __enter__(self) -> EventSubscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _check(
    on_agent_drift: str,
    on_failure: str | None,
    idle_timeout: float,
    mailbox_limit: int,
    max_recoveries: int,
) -> None:
    if on_agent_drift not in get_args(OnDrift):
        raise ValueError(
            f"on_agent_drift must be one of {get_args(OnDrift)}, not {on_agent_drift!r}"
        )
    if on_failure not in (None, "keep", "drop"):
        raise ValueError(f"on_failure must be None, 'keep' or 'drop', not {on_failure!r}")
    if not idle_timeout > 0:
        raise ValueError(f"idle_timeout must be more than 0 seconds, not {idle_timeout!r}")
    if mailbox_limit < 1:
        raise ValueError(f"mailbox_limit must be 1 or more, not {mailbox_limit!r}")
    if max_recoveries < 1:
        raise ValueError(f"max_recoveries must be 1 or more, not {max_recoveries!r}")
