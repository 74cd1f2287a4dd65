"""Actors found or made by id: one activation of an id at a time, and no message lost between two.

An actor that wants to leave seals its mailbox, which succeeds only while it is empty, and stops.
From the seal to the end of its last hook, messages for its id are kept here, and go first into
the next activation. An actor that crashes loses the message it crashed on; the others go to the
next activation in the same way. Nothing here waits for an actor.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from threading import Condition, Lock
from typing import Any, Generic, TypeVar

from pykka import ActorDeadError

from ..events.errors import MailboxFull, SystemClosed
from .logging_context import about, log_failure
from .mailbox import Envelope
from .pooled import Crashed, Ending, PooledActor, Unrunnable

log: logging.Logger = logging.getLogger("turnstream.directory")

K = TypeVar("K", bound=Hashable)

_STRIPES = 16


class Directory(Generic[K]):
    """The live actors of one kind, by id.

    ``activate`` makes the actor of an id, without starting it; it is called under a lock and must
    be quick (loading is for ``on_start`` or the first message). ``limit`` bounds the user
    messages that wait in one mailbox.

    An actor that crashes with messages waiting is started again, ``max_restarts`` times within
    ``within_seconds``; after that, and on shutdown, those messages go to ``on_dead_letters``.
    The message whose handler raised goes to ``on_crash``. Both are called with the id, on a
    worker, and must not wait.
    """

    def __init__(
        self,
        activate: Callable[[K], PooledActor],
        *,
        limit: int | None = None,
        max_restarts: int = 3,
        within_seconds: float = 10.0,
        on_dead_letters: Callable[[K, Sequence[Any]], None] | None = None,
        on_crash: Callable[[K, Any], None] | None = None,
    ) -> None:
        self._activate, self._limit = activate, limit
        self._max_restarts, self._within = max_restarts, within_seconds
        self._on_dead_letters = on_dead_letters or _log_dead_letters
        self._on_crash = on_crash or _log_crash
        self._live: dict[K, PooledActor] = {}
        self._waiting: dict[K, list[Envelope]] = {}
        self._restarts: dict[K, deque[float]] = {}
        self._locks = tuple(Lock() for _ in range(_STRIPES))
        self._emptied = Condition()
        self._closing = False

    def tell(self, id: K, message: object, *, bounded: bool = True) -> None:
        """Hand a user message to the actor of that id, which is made if need be.

        Raises ``MailboxFull`` above the limit, for what is ``bounded`` by it, and
        ``SystemClosed`` where an actor would have to be made after ``closing``; in both cases
        nothing was accepted.
        """
        envelope = Envelope(message, user=True)
        limit = self._limit if bounded else None
        actor = self._live.get(id)
        if actor is not None and actor.actor_inbox.offer(envelope, limit):
            return
        with self._lock(id):
            made = self._accept(id, envelope, limit)
        if made is not None:
            made.begin()

    def put(self, id: K, message: object) -> bool:
        """Hand a control message to the actor of that id. False where none is live; it is not
        bounded, and is gone if the actor ends before it came to it."""
        actor = self._live.get(id)
        if actor is None:
            return False
        try:
            actor.actor_inbox.put(Envelope(message))
        except ActorDeadError:
            return False
        return True

    def passivate(self, actor: PooledActor) -> bool:
        """For an idle actor, in its own handler: leave. False where a message came first, and the
        actor has to go on."""
        if not actor.actor_inbox.seal_if_empty():
            return False
        actor.stop()
        return True

    def sweep(self, idle_seconds: float, message: object) -> int:
        """Tell ``message`` to the actors that handled nothing for ``idle_seconds``; how many."""
        limit = time.monotonic() - idle_seconds
        told = 0
        for key in list(self._live):
            actor = self._live.get(key)
            if actor is None:
                continue
            inbox = actor.actor_inbox
            if inbox.quiet_since < limit and inbox.empty() and not inbox.held:
                told += self.put(key, message)
        return told

    def find(self, id: K) -> PooledActor | None:
        """The actor of that id, if one is live."""
        return self._live.get(id)

    def live(self) -> list[K]:
        """The ids that have an actor now."""
        return list(self._live)

    def __len__(self) -> int:
        return len(self._live)

    @property
    def closing(self) -> bool:
        """Whether actors are no longer made. Once it is set, ``live`` names every actor that is
        left."""
        return self._closing

    @closing.setter
    def closing(self, closing: bool) -> None:
        self._closing = closing
        for lock in self._locks:
            with lock:
                pass  # whoever was making an actor has made it now

    def join(self, timeout: float) -> bool:
        """Wait until no actor is left, at most ``timeout`` seconds; whether it came to that."""
        with self._emptied:
            return self._emptied.wait_for(lambda: not self._live, timeout)

    def _lock(self, id: K) -> Lock:
        return self._locks[hash(id) % _STRIPES]

    def _accept(self, id: K, envelope: Envelope, limit: int | None) -> PooledActor | None:
        actor = self._live.get(id)
        if actor is None:
            if self._closing:
                raise SystemClosed("the system is closing and starts nothing: open another one")
            return self._make(id, [envelope])
        if not actor.actor_inbox.offer(envelope, limit):
            self._keep(id, envelope, limit)
        return None

    def _keep(self, id: K, envelope: Envelope, limit: int | None) -> None:
        kept = self._waiting.setdefault(id, [])
        if limit is not None and len(kept) >= limit:
            raise MailboxFull(
                f"{limit} messages wait for the next activation, the limit: nothing was "
                "accepted; send again later"
            )
        kept.append(envelope)

    def _make(self, id: K, letters: Sequence[Envelope]) -> PooledActor:
        """Everything is in place before the actor begins: it may be gone before that returns."""
        actor = self._activate(id)
        actor.on_ended = partial(self._ended, id)
        for letter in letters:
            actor.actor_inbox.offer(letter)
        self._live[id] = actor
        return actor

    def _ended(self, id: K, ending: Ending) -> None:
        if isinstance(ending, Crashed) and ending.message is not None:
            _report(self._on_crash, id, ending.message)
        with self._lock(id):
            letters = [*ending.letters, *self._waiting.pop(id, ())]
            made = self._make_next(id, letters, ending) if letters else None
            if made is None:
                self._forget(id)
        if made is not None:
            made.begin()
            return
        if letters:
            _report(self._on_dead_letters, id, [letter.message for letter in letters])
        self._tell_if_empty()

    def _forget(self, id: K) -> None:
        del self._live[id]
        restarts = self._restarts.get(id)
        if restarts and time.monotonic() - restarts[-1] > self._within:
            del self._restarts[id]

    def _make_next(self, id: K, letters: Sequence[Envelope], ending: Ending) -> PooledActor | None:
        if self._closing or not self._may_restart(id, ending):
            return None
        try:
            return self._make(id, letters)
        except BaseException as error:
            log_failure(log, error, about(str(id)), "the actor of %r could not be made again", id)
            return None

    def _may_restart(self, id: K, ending: Ending) -> bool:
        match ending:
            case Unrunnable():
                return False
            case Crashed():
                now = time.monotonic()
                restarts = self._restarts.setdefault(id, deque())
                while restarts and now - restarts[0] > self._within:
                    restarts.popleft()
                if len(restarts) >= self._max_restarts:
                    return False
                restarts.append(now)
        return True

    def _tell_if_empty(self) -> None:
        if not self._live:
            with self._emptied:
                self._emptied.notify_all()


def _report(to: Callable[[K, Any], None], id: K, what: Any) -> None:
    try:
        to(id, what)
    except Exception as error:
        unheard = "what became of the actor of %r could not be reported"
        log_failure(log, error, about(str(id)), unheard, id)


def _log_dead_letters(id: object, messages: Sequence[Any]) -> None:
    left, extra = len(messages), about(str(id))
    log.warning("%d messages for %r were not handled: its actor is gone", left, id, extra=extra)


def _log_crash(id: object, message: object) -> None:
    kind, extra = type(message).__name__, about(str(id))
    log.error("the actor of %r crashed on a %s, which is dropped", id, kind, extra=extra)
