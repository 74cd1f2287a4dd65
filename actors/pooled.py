"""A pykka actor without a thread of its own.

It runs pykka's own receive loop on a dispatcher's worker while its mailbox has something for it,
and leaves that loop between two messages: pykka calls ``inbox.get()`` outside its ``try`` block,
so what ``get`` raises ends the loop and nothing else.

Of pykka it uses the three hooks made for new actor types (``_create_actor_inbox``,
``_create_future``, ``_start_actor_loop``) and the loop's parts (``_actor_loop_setup``,
``_actor_loop_running``, ``_actor_loop_teardown``, ``_handle_receive``, ``_handle_failure``).
pykka's own test suite is run on it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

from msgspec import Struct
from pykka import Actor, ActorRegistry, ThreadingFuture

from ..events.errors import ActorError
from .dispatcher import Dispatcher
from .mailbox import Envelope, Mailbox, Yielded

log: logging.Logger = logging.getLogger("turnstream.actors")


class Stopped(Struct, frozen=True):
    """The actor was told to stop. ``letters``: user messages that came too late for it."""

    letters: Sequence[Envelope]


class Crashed(Struct, frozen=True):
    """The actor failed, handling ``message`` (None where it failed before or after all
    messages). ``letters``: the user messages behind it."""

    letters: Sequence[Envelope]
    message: object


class Unrunnable(Struct, frozen=True):
    """The dispatcher was shut down. ``letters``: user messages nobody will look at."""

    letters: Sequence[Envelope]


Ending: TypeAlias = Stopped | Crashed | Unrunnable


class PooledActor(Actor):
    """Takes a thread only while it handles messages.

    ``start`` works as with any pykka actor, given a ``dispatcher`` on the class, and registers it
    with pykka's ``ActorRegistry``, whose cost grows with the number of actors. ``on`` and
    ``begin`` leave the registry out. ``on_ended`` is called once, on a worker, after the actor's
    last hook.
    """

    # Never replaced once made, so a narrower type does no harm.
    actor_inbox: Mailbox  # pyright: ignore[reportIncompatibleVariableOverride]
    dispatcher: Dispatcher
    on_ended: Callable[[Ending], None] | None = None
    _begun = False
    _failed = False
    _failing: object = None

    @classmethod
    def on(cls, dispatcher: Dispatcher, *args: Any, **kwargs: Any) -> Self:
        """Make an actor for ``dispatcher``, with the constructor's arguments. It does nothing
        before ``begin``."""
        actor = cls(*args, **kwargs)
        actor.dispatcher = dispatcher
        return actor

    def begin(self) -> None:
        """Start the actor; ``on_start`` runs on a worker."""
        self._start_actor_loop()

    def run(self, share: int) -> None:
        """Handle at most ``share`` messages. For the dispatcher."""
        self.actor_inbox.allow(share)
        try:
            if not self._begun:
                self._begun = True
                self._actor_loop_setup()
            self._actor_loop_running()
        except Yielded:
            if not self.actor_inbox.rest():
                self.dispatcher.execute(self)
            return
        except BaseException:  # pykka lets those of on_start and on_failure through
            self._handle_failure(*sys.exc_info())
        letters = self.actor_inbox.close()
        self._end(Crashed(letters, self._failing) if self._failed else Stopped(letters))

    def refuse(self) -> None:
        """End without running: no worker is left. For the dispatcher."""
        ActorRegistry.unregister(self.actor_ref)
        self.actor_stopped.set()
        self._end(Unrunnable(self.actor_inbox.close()))

    def _end(self, ending: Ending) -> None:
        self._actor_loop_teardown()
        ended, self.on_ended = self.on_ended, None
        if ended is not None:
            try:
                ended(ending)
            except BaseException:
                log.exception("the end of %s could not be dealt with", self)
        elif ending.letters:
            log.warning("%s ended with %d messages not handled", self, len(ending.letters))

    @staticmethod
    def _create_actor_inbox() -> Mailbox:
        return Mailbox()

    @staticmethod
    def _create_future() -> ThreadingFuture[Any]:
        return ThreadingFuture()

    def _start_actor_loop(self) -> None:
        self.actor_inbox.bind(self, self.dispatcher)

    def _handle_receive(self, message: Any) -> Any:
        try:
            return super()._handle_receive(message)
        except Exception:
            self._failing = message
            raise
        except BaseException as error:  # on which pykka would stop all actors of the process
            self._failing = message
            raise ActorError(
                f"a handler of {self} raised {type(error).__name__}, which is kept from stopping "
                "the process's other actors; see the cause"
            ) from error

    def _handle_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._failed = True
        super()._handle_failure(exception_type, exception_value, traceback)

    def _stop(self) -> None:
        self._failing = None  # what fails from here on is not the doing of a message
        super()._stop()
