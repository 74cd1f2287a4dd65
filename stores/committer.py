"""Group commit: who commits, and when.

A write that comes while nothing else is being written is committed by the thread that brings it:
no hand-over, the lowest latency. Writes that come meanwhile wait and then go together, in one
transaction, from a background thread, which starts the first time there is something for it to
do. So nobody commits for others longer than for the one round it came with. The thread that
commits is the *leader*; it stays so until the callers of its round are told, so that they are
told in the order of their writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Condition, Lock, Thread, current_thread, get_ident
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from ..events.errors import StoreClosed, StoreError, StoreUnavailable

ROUND = 512
"""The most writes in one transaction, so that the first of them is not kept waiting."""

R = TypeVar("R")
Write: TypeAlias = Callable[[Any], R]
"""A write, given the cursor of an open transaction. It raises ``StoreError`` only if it has
written nothing."""
Done: TypeAlias = Callable[[R | StoreError], None]

_log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    write: Write[Any]
    done: Done[Any]


class Committer:
    """Takes writes from any thread and hands them, in order, to ``commit``.

    ``commit`` gets the writes of a round and returns, for each, its result or its error. It is
    never called twice at the same time.
    """

    def __init__(self, commit: Callable[[Sequence[Write[Any]]], Sequence[object]]) -> None:
        self._commit = commit
        self._changed = Condition()
        self._waiting: list[_Waiting] = []
        self._leader = 0
        self._thread: Thread | None = None
        self._closed = False

    def submit(self, write: Write[R], done: Done[R]) -> None:
        """Have ``write`` committed; ``done`` is told once. Called from a ``done``, it commits
        before it returns."""
        waiting, me = _Waiting(write, done), get_ident()
        nested = self._leader == me
        try:
            if self._enters(waiting, me):
                self._run([waiting])
        finally:
            if self._leader == me and not nested:
                self._step_down()

    def write(self, write: Write[R]) -> R:
        """Have ``write`` committed, wait for it, and return its result or raise its error."""
        reply: Reply[R] = Reply()
        self.submit(write, reply.put)
        return reply.get()

    def close(self) -> None:
        """Refuse what comes, finish what waits, end the thread. May be called more than once."""
        me = get_ident()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._leader != me:
                self._changed.wait_for(lambda: not (self._leader or self._waiting))
        while batch := self._take_round():
            self._run(batch)
        thread = self._thread
        if thread is not None and thread is not current_thread():
            thread.join()

    def _enters(self, waiting: _Waiting, me: int) -> bool:
        """Whether this thread is the leader now; if not, the write waits its turn."""
        with self._changed:
            if not self._closed:
                if self._leader == me:
                    return True
                if self._leader or self._waiting:
                    self._waiting.append(waiting)
                    return False
                self._leader = me
                return True
        _tell(waiting.done, StoreClosed("the store was closed; open it again"))
        return False

    def _run(self, batch: Sequence[_Waiting]) -> None:
        try:
            outcomes = self._commit([waiting.write for waiting in batch])
        except BaseException:
            for waiting in batch:
                _tell(waiting.done, StoreUnavailable("the write was interrupted; try again"))
            raise
        for waiting, outcome in zip(batch, outcomes, strict=True):
            _tell(waiting.done, outcome)

    def _step_down(self) -> None:
        while not self._hands_over():
            self._run(self._take_round())

    def _hands_over(self) -> bool:
        """Whether what waits is another's concern now; not so where no thread can be had."""
        with self._changed:
            if self._waiting and self._thread is None and not self._starts():
                return False
            self._leader = 0
            if self._waiting or self._closed:
                self._changed.notify_all()
            return True

    def _starts(self) -> bool:
        thread = Thread(target=self._serve, name="turnstream-committer", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _serve(self) -> None:
        while batch := self._next_round():
            try:
                self._run(batch)
            except Exception:
                _log.exception("a round of writes failed; their callers were told")
            self._step_down()

    def _next_round(self) -> Sequence[_Waiting]:
        with self._changed:
            self._changed.wait_for(lambda: not self._leader and (self._waiting or self._closed))
            batch = self._take_round()
            self._leader = get_ident() if batch else 0
            return batch

    def _take_round(self) -> Sequence[_Waiting]:
        with self._changed:
            batch, self._waiting = self._waiting[:ROUND], self._waiting[ROUND:]
            return batch


class Reply(Generic[R]):
    """One outcome, put by one thread and waited for by another."""

    def __init__(self) -> None:
        self._due = Lock()
        self._due.acquire()

    def put(self, outcome: R | StoreError) -> None:
        """Hand over the outcome."""
        self._outcome = outcome
        self._due.release()

    def get(self) -> R:
        """Wait for the outcome, and return it or raise it."""
        with self._due:
            outcome = self._outcome
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome


def _tell(done: Done[Any], outcome: object) -> None:
    try:
        done(outcome)
    except Exception:
        _log.exception("a callback raised on being told the outcome of its write")
