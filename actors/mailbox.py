"""The inbox of an actor that has no thread.

pykka's receive loop asks its inbox for the next message and would wait there. This one never
waits: where nothing is to be had, ``get`` raises ``Yielded``, which carries the loop off the
worker's back; the next message puts the actor in line again.

Whoever puts an actor in line does so because it was not there, so one worker at most runs it.
That worker is the mailbox's owner until the actor yields, and what only the owner does (``get``,
``hold``, ``seal_if_empty``, ``close``) is never done twice at once.
"""

from __future__ import annotations

import time
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pykka import ActorDeadError

from ..events.errors import MailboxFull

if TYPE_CHECKING:
    from .dispatcher import Dispatcher, Runnable


class Letter(Protocol):
    """What pykka reads of an envelope, be it its own or ours."""

    @property
    def message(self) -> Any: ...
    @property
    def reply_to(self) -> Any: ...


class Envelope(NamedTuple):
    """A message on its way. A ``user`` message is handled or reported, whatever happens; the
    others (control, completions) end with the activation they were meant for."""

    message: Any
    reply_to: Any = None
    user: bool = False


class Yielded(Exception):
    """Leaves pykka's loop between two messages. No error."""


class Mailbox:
    """Messages for one actor, in the order they came, from any number of threads."""

    __slots__ = (
        "_actor",
        "_closed",
        "_dispatcher",
        "_held",
        "_in_line",
        "_lock",
        "_offered",
        "_queue",
        "_sealed",
        "_share",
        "_taken",
        "quiet_since",
    )

    def __init__(self) -> None:
        self._queue: deque[Letter] = deque()
        self._lock = Lock()
        self._sealed = self._closed = self._held = False
        self._in_line = True  # so that no sender runs an actor that has not begun
        self._share = self._offered = self._taken = 0
        self._actor: Runnable | None = None
        self._dispatcher: Dispatcher | None = None
        self.quiet_since: float = time.monotonic()

    def bind(self, actor: Runnable, dispatcher: Dispatcher) -> None:
        """Put ``actor`` in line for the first time, and keep it alive until ``close``: pykka's
        references to it are weak."""
        self._actor, self._dispatcher = actor, dispatcher
        self._wake()

    def put(self, envelope: Letter) -> None:
        """Queue a control message or a completion. It is never refused before ``close``; after
        it a question is answered with ``ActorDeadError``, and other messages raise it."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._queue.append(envelope)
                if self._in_line or self._held:
                    return
                self._in_line = True
        if closed:
            _refuse(envelope)
        else:
            self._wake()

    def offer(self, envelope: Envelope, limit: int | None = None) -> bool:
        """Queue a user message. False once the mailbox is sealed: it is for the next activation.

        Raises ``MailboxFull`` where ``limit`` user messages wait. The others do not count.
        """
        with self._lock:
            if self._sealed:
                return False
            if limit is not None and self._offered - self._taken >= limit:
                raise MailboxFull(
                    f"{limit} messages wait in the mailbox, its limit: nothing was accepted; "
                    "send again when some of them were handled"
                )
            self._offered += 1
            self._queue.append(envelope)
            if self._in_line or self._held:
                return True
            self._in_line = True
        self._wake()
        return True

    def hold(self) -> None:
        """In a handler: look at no other message until ``release``, and take no worker
        meanwhile. What is sent queues up."""
        assert not self._held, "the mailbox is held already: release it first"
        self._held = True

    def unhold(self) -> None:
        """In the handler that called ``hold``: there is nothing to wait for after all."""
        self._held = False

    def release(self, envelope: Letter) -> bool:
        """End a hold: ``envelope`` is handled next, before all that waits.

        May be called from any thread, and before the handler that called ``hold`` has returned.
        False where the actor ended meanwhile: nobody is left to look at it.
        """
        with self._lock:
            if self._closed:
                return False
            assert self._held, "the mailbox is not held: there is nothing to release"
            self._queue.appendleft(envelope)
            self._held = False  # in this order: the owner looks at both without the lock
            if self._in_line:
                return True
            self._in_line = True
        self._wake()
        return True

    def seal_if_empty(self) -> bool:
        """The point of passivation: nothing is inside or awaited, and from here on no user
        message gets in. False, and no change, where that is not so."""
        with self._lock:
            if self._queue or self._held or self._sealed:
                return False
            self._sealed = True
            return True

    def allow(self, share: int) -> None:
        """Let the owner take ``share`` messages before others have their turn."""
        self._share = share

    def empty(self) -> bool:
        """Whether nothing waits. For pykka, and for a look from outside."""
        return not self._queue

    @property
    def held(self) -> bool:
        """Whether the actor waits for a ``release``."""
        return self._held

    def get(self) -> Any:
        """The next message; ``Yielded`` where there is none, or none is to be looked at now."""
        if self._share <= 0 or self._held or not self._queue:
            raise Yielded
        self._share -= 1
        envelope = self._queue.popleft()
        if type(envelope) is Envelope and envelope.user:
            self._taken += 1
        return envelope

    def rest(self) -> bool:
        """After ``Yielded``: leave the line. False where there is more to do at once."""
        self.quiet_since = time.monotonic()
        with self._lock:
            self._in_line = bool(self._queue) and not self._held
            return not self._in_line

    def close(self) -> list[Envelope]:
        """Accept nothing more. Returns the user messages that nobody looked at, in order;
        questions stay inside, for pykka to answer them."""
        with self._lock:
            self._sealed = self._closed = True
            self._held = False
            left = self._queue
            self._queue = deque(each for each in left if each.reply_to is not None)
            self._share = len(self._queue)
            self._actor = self._dispatcher = None
        return [each for each in left if isinstance(each, Envelope) and _is_undelivered(each)]

    def _wake(self) -> None:
        assert self._dispatcher is not None
        assert self._actor is not None
        self._dispatcher.execute(self._actor)


def _is_undelivered(envelope: Envelope) -> bool:
    return envelope.user and envelope.reply_to is None


def _refuse(envelope: Letter) -> None:
    error = ActorDeadError("the actor stopped before it looked at the message")
    if envelope.reply_to is None:
        raise error
    envelope.reply_to.set_exception((ActorDeadError, error, None))
