"""What all sessions of one system share: dispatcher, directory, effects, store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Any

from pykka import ActorDeadError

from ..events.errors import ActorError
from ..events.terms import Owner
from ..stores import EventStore
from .agent import Agent
from .children import Children
from .commands import Continue, OfACall, Submit
from .directory import Directory
from .dispatcher import Dispatcher
from .effects import Effects
from .following import Follower
from .letters import Asked, Drain, IdleFor
from .listening import Listeners
from .logging_context import about
from .mailbox import Envelope, Mailbox
from .nodes import Nodes
from .ready import ReadyAgent
from .refusals import closed, stopped
from .roster import Roster
from .session import SessionActor
from .waiting import Promise

log: logging.Logger = logging.getLogger("turnstream")

WORKERS = 4
CALL_THREADS = 256
CANCEL_GRACE = 1.0


class _Job:
    """Something for a worker that is no actor."""

    def __init__(self, job: Callable[[], object]) -> None:
        self._job = job

    def run(self, share: int) -> None:
        self._job()

    def refuse(self) -> None:
        pass


class Runtime:
    """Runs the sessions of one system. ``idle_timeout`` and ``lease`` are in seconds."""

    def __init__(
        self,
        roster: Roster,
        make_ready: Callable[[Agent], ReadyAgent],
        store: EventStore,
        *,
        idle_timeout: float,
        mailbox_limit: int,
        lease: float,
    ) -> None:
        self._roster, self._make_ready = roster, make_ready
        self._ready: dict[str, ReadyAgent] = {}
        self.store: EventStore = store
        self.mailbox_limit: int = mailbox_limit
        self.nodes: Nodes = Nodes(store, lease)
        self.effects: Effects = Effects(threads=CALL_THREADS, grace=CANCEL_GRACE)
        self.listeners: Listeners = Listeners(store, self.effects.loop)
        self._dispatcher = Dispatcher(WORKERS)
        self.directory: Directory[str] = Directory(
            self._activate,
            limit=mailbox_limit,
            on_dead_letters=self._dead_letters,
            on_crash=self._crashed,
        )
        self.children: Children = Children(self)
        self.follower: Follower = Follower(store, self.nodes, self.directory)
        self._idle_timeout = idle_timeout
        self._closing = Event()
        self._sweeper = Thread(target=self._sweep, name="turnstream-sweeper", daemon=True)
        self._sweeper.start()

    @property
    def owner(self) -> Owner:
        """This node, as the turns name it that it runs."""
        return self.nodes.owner

    def agent(self, name: str) -> ReadyAgent:
        """The agent of that name or alias, made ready when it is first wanted; ``UnknownAgent``
        where the system has none."""
        ready = self._ready.get(name)
        if ready is None:
            agent = self._roster.agent(name)
            ready = self._ready.setdefault(agent.name, self._make_ready(agent))
            self._ready[name] = ready
        return ready

    def is_idle(self, session_id: str, agent: str) -> bool:
        """Whether a session of that agent could run here and does not."""
        actor = self.directory.find(session_id)
        runs = isinstance(actor, SessionActor) and actor.runs_a_turn
        return self._roster.find(agent) is not None and not runs

    def tell(self, session_id: str, asked: Asked) -> None:
        """Hand a request to the session's actor. Raises ``SystemClosed``, and for an input
        ``MailboxFull``."""
        if self._closing.is_set():
            raise closed(session_id)
        bounded = isinstance(asked.command, (Submit, Continue))
        self.directory.tell(session_id, asked, bounded=bounded)

    def tell_later(self, session_id: str, asked: Asked, seconds: float) -> None:
        """``tell``, in so many seconds; not at all once the system is closed."""

        def tell() -> None:
            with suppress(ActorError):
                self.tell(session_id, asked)

        self.effects.loop.call(self.effects.loop.call_later, max(seconds, 0), tell)

    def soon(self, job: Callable[[], object]) -> None:
        """Have ``job`` done by a worker; not at all once the system is closed. May be called
        from a finalizer, which can come in the middle of anything."""
        self._dispatcher.execute(_Job(job))

    def post(self, inbox: Mailbox, envelope: Envelope) -> None:
        """Hand a completion to an actor; an actor that is gone does without."""
        try:
            inbox.put(envelope)
        except ActorDeadError:
            log.debug("a completion came after its actor had stopped")

    def ask(self, session_id: str, inbox: Mailbox, command: OfACall, asker: Promise[Any]) -> None:
        """Ask an actor, also while the system closes, on behalf of a call that it runs."""
        asked = Asked(command, asker, "")
        if not inbox.offer(Envelope(asked, user=True)):
            self._dead_letters(session_id, [asked])

    def close(self, timeout: float) -> bool:
        """Drain: steps under way are recorded for at most ``timeout`` seconds, the rest is
        interrupted and stays resumable. True if nothing had to be interrupted."""
        if self._closing.is_set():
            return True
        self._closing.set()
        self.directory.closing = True
        deadline = time.monotonic() + timeout
        clean = self._drain(deadline, now=False)
        if not clean:
            self._drain(time.monotonic() + 2 * CANCEL_GRACE, now=True)
        clean &= self.listeners.close(max(deadline - time.monotonic(), CANCEL_GRACE))
        clean &= self.effects.close(max(deadline - time.monotonic(), CANCEL_GRACE))
        self.follower.close()
        self._dispatcher.shutdown(CANCEL_GRACE)
        self._sweeper.join(CANCEL_GRACE)
        return clean

    def _drain(self, deadline: float, *, now: bool) -> bool:
        for session_id in self.directory.live():
            self.directory.put(session_id, Drain(now))
        return self.directory.join(max(deadline - time.monotonic(), 0))

    def _activate(self, session_id: str) -> SessionActor:
        return SessionActor.on(self._dispatcher, session_id, self)

    def _crashed(self, session_id: str, message: object) -> None:
        crash, extra = type(message).__name__, about(session_id)
        log.error("the actor of session %r crashed on a %s", session_id, crash, extra=extra)
        _fail([message], stopped(session_id))

    def _dead_letters(self, session_id: str, letters: Sequence[object]) -> None:
        _fail(letters, (closed if self._closing.is_set() else stopped)(session_id))

    def _sweep(self) -> None:
        while not self._closing.wait(min(self._idle_timeout / 4, 5)):
            self.directory.sweep(self._idle_timeout, IdleFor())


def _fail(letters: Sequence[object], error: Exception) -> None:
    for letter in letters:
        if isinstance(letter, Asked):
            letter.asker.fail(error)
