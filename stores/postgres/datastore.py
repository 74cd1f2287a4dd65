"""A database of sessions, opened: a connection that appends, and a pool for everything else.

Appends go through group commit, as in SQLite: all of a process that come at the same time share a
transaction. Everything else has a connection and a transaction of its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Lock, Thread
from typing import Any, TypeVar
from weakref import finalize

from eventsourcing.postgres import ConnectionPool, PostgresDatastore
from psycopg_pool import PoolTimeout

from ...events.envelope import Replay, StoredRecord
from ...events.errors import StoreBusy, StoreClosed, StoreUnavailable
from ..committer import Committer
from ..forking import ProcessBound
from ..subscription import Listeners, LogSubscription
from .address import Place
from .appending import Writer
from .connections import AppendConnection, Connection, Cursor, connect, open_pool, read_on
from .faults import is_lost, persistently, store_errors
from .listening import Audience
from .reading import read_log, replay_stream
from .schema import prepare

R = TypeVar("R")

_log = logging.getLogger(__name__)


class PostgresSessions(PostgresDatastore, ProcessBound):
    """The schema at ``place``, made if there is none, with at most ``pool_size`` connections that
    read.

    Raises ``NotAStore``, ``NotSupported``, ``StoreTooNew``, ``StoreBusy`` or
    ``StoreUnavailable``.
    """

    def __init__(self, place: Place, pool_size: int) -> None:
        PostgresDatastore.__init__(
            self, "", "", "", "", "", schema=place.schema, originator_id_type="text"
        )
        ProcessBound.__init__(self)
        self.place = place
        with store_errors(place), ExitStack() as undo:
            connection = connect(place)
            undo.callback(connection.close)
            prepare(connection, place)
            undo.pop_all()
        self.pool: ConnectionPool[Connection] = open_pool(place, pool_size)
        self.listeners: Listeners = Listeners()
        self._lent, self._counting = 0, Lock()
        self._appends = AppendConnection(place, connection)
        self._writer = Writer(self._appends, place)
        self._committer = Committer(self._commit)
        self._audience = Audience(place, self.listeners.notify, self.listeners.any)
        left = (self._appends, self._audience, self.pool)
        finalize(self, _abandon, *left, os.getpid()).atexit = False

    @property
    def appends(self) -> Committer:
        """What takes appends: ``AppendCall``s."""
        self._check_process()
        return self._committer

    def ask(self, question: Callable[[Cursor], R]) -> R:
        """The answer to a question that is one statement; asked again where the connection is
        lost. What fails is a ``StoreError``."""

        def attempt(_: int) -> R:
            with self._lend() as connection:
                return question(read_on(connection))

        return self._persistently(attempt)

    def transact(self, work: Callable[[Cursor, bool], R]) -> R:
        """Do the work in one transaction, and again where the connection is lost: it is told
        whether it may have been done before. What fails is a ``StoreError``."""

        def attempt(tried: int) -> R:
            with self._lend() as connection, connection.transaction():
                return work(read_on(connection), tried > 0)

        return self._persistently(attempt)

    def replay(self, session_id: str, after: int) -> Iterator[Replay]:
        """A long stream, page by page."""
        self._check_process()
        with store_errors(self.place), self._lend() as connection:
            yield from replay_stream(read_on(connection), session_id, after)

    def follow(self, after: int) -> LogSubscription:
        """All events with positions above ``after``, and then those that come."""
        followed = LogSubscription(self._read_log, self.listeners, after=after)
        self._audience.join()
        return followed

    def close(self) -> None:
        """Finish what was submitted, then release everything. May be called more than once."""
        self.listeners.close()
        self._committer.close()
        self._appends.close()
        self._audience.close()
        self.pool.close()

    def suspend(self) -> None:
        """Nothing: what a child inherits it neither uses nor closes."""

    def resume(self) -> None:
        """Nothing: nothing was suspended."""

    def __del__(self) -> None:
        """Nothing: the library would close here, and wait, in whatever thread collects it."""

    @contextmanager
    def _lend(self) -> Iterator[Connection]:
        try:
            connection = self.pool.getconn()
        except PoolTimeout:
            if self._lent >= self.pool.max_size:
                raise
            # The server is away, and this says so; or it was, and the pool has not noticed yet.
            with connect(self.place) as alone:
                yield alone
            return
        with self._counting:
            self._lent += 1
        try:
            yield connection
        finally:
            with self._counting:
                self._lent -= 1
            self.pool.putconn(connection)

    def _persistently(self, attempt: Callable[[int], R]) -> R:
        self._check_process()

        def with_fresh_connections(tried: int) -> R:
            if tried:
                # Where one connection was lost, others may have been.
                self.pool.check()
            return attempt(tried)

        with store_errors(self.place):
            return persistently(self.place, with_fresh_connections)

    def _check_process(self) -> None:
        if self.inherited:
            raise StoreClosed(f"{self.place} was opened before a fork; open it in this process")

    def _read_log(self, after: int, limit: int) -> Sequence[StoredRecord]:
        try:
            return self.ask(lambda cursor: read_log(cursor, after, limit))
        except (StoreBusy, StoreUnavailable) as error:
            cause = error.__cause__
            if isinstance(error, StoreUnavailable) and not (cause and is_lost(cause)):
                raise
            # Whoever follows goes on when the server is back, and is woken until then.
            _log.warning("the log can't be followed for now: %s", error)
            return ()

    def _commit(self, writes: Sequence[Any]) -> Sequence[object]:
        outcomes = self._writer.commit(writes)
        self.listeners.notify()
        return outcomes


def _abandon(
    appends: AppendConnection, audience: Audience, pool: ConnectionPool[Connection], owner: int
) -> None:
    """Release what nobody closed. In a forked child it is its parent's, who still uses it."""

    def release() -> None:
        appends.close()
        audience.close()
        pool.close()

    if os.getpid() == owner:
        # Whatever thread collects it may be one of those that are waited for.
        with suppress(RuntimeError):
            Thread(target=release, name="turnstream-closer", daemon=True).start()
