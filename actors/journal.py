"""Durable steps for code outside of any agent."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from typing import Any, Literal, TypeAlias

from ..events.errors import RunBusy, StepRefused, StoreError, SystemClosed
from ..events.fingerprints import arguments_digest
from ..events.identifiers import JOURNAL, check_session_id
from ..events.session import Status
from ..stores import EventStore, SessionRow
from ..stores.address import opened
from .following import BEATS_A_LEASE
from .journal_run import JournalRun
from .leaving import ClosedOnLeaving
from .models import is_async
from .nodes import Nodes
from .run_stream import Ended, RunStream, busy, finished
from .waiting import refuse_to_block

log: logging.Logger = logging.getLogger("turnstream")

POLL_SECONDS = 0.05
Entry: TypeAlias = Ended | Literal["begun", "busy"]


class Journal(ClosedOnLeaving):
    """Runs functions in durable steps, each run in a stream of its own.

    ``store`` is an address, or an open store, which is then not closed with the journal. ``wait``
    (seconds) is how long a run waits where another of its id is under way. ``lease`` (seconds) is
    how long others leave this process its runs when it gives no sign of life; with 0 it takes no
    heed of them.

    Use it with ``with`` or ``async with``, or call ``close``. Raises the store's errors where it
    can't be opened.
    """

    def __init__(self, store: str | EventStore, *, wait: float = 0.0, lease: float = 10.0) -> None:
        for name, value in (("wait", wait), ("lease", lease)):
            if not isinstance(value, (int, float)) or not value >= 0:
                raise ValueError(f"{name} must be 0 seconds or more, not {value!r}")
        self._owns_store = isinstance(store, str)
        self._store = opened(store)
        self._wait = wait
        self._nodes = Nodes(self._store, lease)
        self._lock = Lock()
        self._running: dict[str, RunStream] = {}
        self._closing = Event()
        self._beats = Thread(target=self._beat, name="turnstream-journal", daemon=True)
        if lease:
            self._beats.start()

    def run(self, run_id: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run ``fn(run, *args, **kwargs)``, where ``run`` is a ``JournalRun``, and record what it
        returns. Where the last run of this id was cut off or raised, it is gone on with: ``fn``
        runs again, and the steps that were recorded are not. Where it has ended, a new epoch
        begins, which knows of no steps.

        Blocks where ``fn`` is sync; where it is async, what is returned is to be awaited. What
        ``fn`` raises is raised, and leaves the run open.

        Raises ``RunBusy`` where the run is under way elsewhere, ``StepConflict`` where the open
        one was begun with other arguments, ``TurnTakenOver`` where another process took it over
        meanwhile, ``Unstorable`` for arguments or a result that are no plain data,
        ``SessionExists`` where the id is that of a session, and the store's errors.
        """
        return self._start(run_id, fn, args, kwargs, replays=False)

    def resume(self, run_id: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """``run``, but for a last run that has ended: its result is returned as it was recorded,
        and ``fn`` is not called. So a run is made once, however often this is called."""
        return self._start(run_id, fn, args, kwargs, replays=True)

    def abandon(self, run_id: str) -> bool:
        """End the open run of an id without a result, so that the next one begins anew; whether
        there was one. Raises ``RunBusy``, ``SessionExists`` and the store's errors."""
        refuse_to_block(run_id)
        stream = RunStream(self._store, self._nodes, check_session_id(run_id))
        try:
            self._take(stream)
            return stream.abandon()
        finally:
            self._leave(stream)

    def runs(self, status: Status | None = None) -> Sequence[SessionRow]:
        """The ids that were run, the last updated first: ``"idle"`` ones have ended, ``"failed"``
        and ``"running"`` ones are open."""
        return self._store.sessions(status=status, agent=JOURNAL)

    def close(self) -> None:
        """Release everything. A run under way can record nothing more, and stays open."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._beats.is_alive():
            self._beats.join(1.0)
        self._nodes.leave()
        if self._owns_store:
            self._store.close()

    def _start(
        self, run_id: str, fn: Callable[..., Any], args: Any, kwargs: Any, *, replays: bool
    ) -> Any:
        if not callable(fn):
            raise TypeError(f"a run is of a function, not of {type(fn).__name__}")
        stream = RunStream(self._store, self._nodes, check_session_id(run_id))
        digest = arguments_digest(args, kwargs)

        def begin() -> Ended | None:
            return stream.begin(digest, replays=replays)

        def call(*, is_async: bool) -> Any:
            return fn(JournalRun(stream, "", is_async=is_async), *args, **kwargs)

        if is_async(fn):
            return self._run_async(stream, begin, call)
        refuse_to_block(run_id)
        return self._run(stream, begin, call)

    def _run(
        self, stream: RunStream, begin: Callable[[], Ended | None], call: Callable[..., Any]
    ) -> Any:
        deadline = time.monotonic() + self._wait
        try:
            while (entry := self._enter(stream, begin, deadline)) == "busy":
                time.sleep(POLL_SECONDS)
            if isinstance(entry, Ended):
                return entry.result
            result = call(is_async=False)
            _refuse_awaitable(result, stream.run_id)
            return stream.finish(result)
        except BaseException as error:
            stream.fail(error)
            raise
        finally:
            self._leave(stream)

    async def _run_async(
        self, stream: RunStream, begin: Callable[[], Ended | None], call: Callable[..., Any]
    ) -> Any:
        deadline = time.monotonic() + self._wait
        try:
            entry = await finished(self._enter, stream, begin, deadline)
            while entry == "busy":
                await asyncio.sleep(POLL_SECONDS)
                entry = await finished(self._enter, stream, begin, deadline)
            if isinstance(entry, Ended):
                return entry.result
            return await finished(stream.finish, await call(is_async=True))
        except GeneratorExit as error:  # nothing can be awaited any more
            stream.fail(error)
            raise
        except BaseException as error:
            await finished(stream.fail, error)
            raise
        finally:
            self._leave(stream)

    def _enter(
        self, stream: RunStream, begin: Callable[[], Ended | None], deadline: float
    ) -> Entry:
        try:
            self._take(stream)
            return begin() or "begun"
        except RunBusy:
            self._leave(stream)
            if time.monotonic() >= deadline:
                raise
            return "busy"

    def _take(self, stream: RunStream) -> None:
        if self._closing.is_set():
            raise SystemClosed("the journal is closed: open another one", session_id=stream.run_id)
        with self._lock:
            if self._running.setdefault(stream.run_id, stream) is not stream:
                raise busy(stream.run_id, "in this very process")

    def _leave(self, stream: RunStream) -> None:
        with self._lock:
            if self._running.get(stream.run_id) is stream:
                del self._running[stream.run_id]

    def _beat(self) -> None:
        while not self._closing.wait(self._nodes.lease / BEATS_A_LEASE):
            try:
                self._nodes.beat()
            except StoreError as error:
                log.warning("this journal could not say that it lives: %s", error.code)


def _refuse_awaitable(result: object, run_id: str) -> None:
    if not inspect.isawaitable(result):
        return
    if inspect.iscoroutine(result):
        result.close()
    raise StepRefused(
        f"run {run_id!r}: the function gave something to be awaited and is not async itself: "
        "declare it with async def",
        session_id=run_id,
    )
