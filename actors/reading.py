"""What is read of a session, as of now or as of then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..events.envelope import RecordedEvent, StoredRecord
from ..events.messages import Message, Usage
from ..events.session import Status
from ..projections import Checkpoint, Pending, View
from .forking import Lineage
from .viewing import Point, point

if TYPE_CHECKING:
    from .system import ActorSystem


class SessionReading:
    """The part of a handle that reads. Each call is one short read of the store."""

    _system: ActorSystem
    id: str
    agent: str

    def pending(self) -> Pending | None:
        """What is unfinished; None where nothing is."""
        return self._system.view(self.id).pending

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the turns that ended, as of now."""
        return self._system.view(self.id).messages

    @property
    def state(self) -> Any:
        """The application's own state, as of now."""
        return self._system.view(self.id).state

    @property
    def usage(self) -> Usage:
        """The tokens of all recorded model turns, as of now."""
        return self._system.view(self.id).usage.recorded

    @property
    def active_agent(self) -> str:
        """The agent that goes on: with the open turn, or with the next one, as of now."""
        return self._system.view(self.id).active_agent or self.agent

    @property
    def status(self) -> Status:
        """Idle, running, failed, aborted or awaiting approval, as of now."""
        return self._system.view(self.id).status

    @property
    def version(self) -> int:
        """How many events the stream has, as of now."""
        return self._system.view(self.id).version

    def at(
        self,
        *,
        version: int | None = None,
        step: int | None = None,
        time: datetime | None = None,
    ) -> View:
        """The session as it was right after the event of a version, when a step ended, or at a
        time. Raises ``CheckpointNotFound`` where there is no such point, and
        ``SessionNotFound``."""
        return self._system.view(self.id, _given(version, step, time))

    async def view(
        self,
        *,
        version: int | None = None,
        step: int | None = None,
        time: datetime | None = None,
    ) -> View:
        """The session as of now, or as ``at`` gives it, without blocking the event loop."""
        return await self._system.view_async(self.id, point(version, step, time))

    def history(self, limit: int | None = None) -> Sequence[Checkpoint]:
        """What the session was at the end of each of its steps, newest first, at most so many.
        A step is a model turn, counted from 1; step 0 is where the first turn began."""
        return self._system.history(self.id, limit)

    def lineage(self) -> Lineage:
        """The tree of forks that the session is part of. Raises ``SessionNotFound``."""
        return self._system.lineage(self.id)

    def events(self, after: int = 0) -> Sequence[RecordedEvent]:
        """The recorded events with versions above ``after``, in order."""
        return self._system.read_events(self.id, after)

    def records(self) -> Sequence[StoredRecord]:
        """The events as they are stored, in order. For comparing and replaying."""
        return self._system.read_records(self.id)


def _given(version: int | None, step: int | None, time: datetime | None) -> Point:
    if (at := point(version, step, time)) is None:
        raise TypeError("give a version, a step or a time")
    return at
