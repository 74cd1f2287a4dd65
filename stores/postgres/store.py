"""Streams in a PostgreSQL database, which processes on many machines share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from threading import Lock

from ...events.envelope import EncodedEvent, Replay, StoredRecord
from ...events.errors import StoreError
from ...events.identifiers import check_session_id
from ...events.session import Status
from ..port import Append, Appended, SessionRow
from ..read_models import ReadModelTables
from ..subscription import LogSubscription
from ..validity import check_append, check_erasure
from .address import SCHEMA, Place
from .appending import AppendCall
from .datastore import PostgresSessions
from .faults import closed
from .reading import first_page, read_log, read_stream
from .recorder import PostgresSessionRecorder
from .rows import bury, draw_generation, erase, find_session, list_sessions, restore
from .snapshots import PostgresSnapshots
from .tables import PostgresTables
from .upkeep import compact, examine, list_stream_ids


class PostgresStore:
    """A store in a schema of the database that ``conninfo`` leads to (what libpq takes: an
    address, or ``key=value`` pairs); the schema is made if there is none. Any number of threads,
    processes and machines may use it.

    ``timeout`` is how long, in seconds, to wait for the server, when it is away, and for other
    writers, before ``StoreUnavailable`` or ``StoreBusy``. ``pool`` is how many connections read
    at most; one more appends, and one listens while the log is followed. After a fork the child
    connects anew on first use.

    Raises ``NotAStore``, ``NotSupported``, ``StoreTooNew``, ``StoreBusy`` or
    ``StoreUnavailable``.
    """

    durable = True

    def __init__(
        self, conninfo: str, *, schema: str = SCHEMA, timeout: float = 5.0, pool: int = 10
    ) -> None:
        self._place = Place(conninfo, schema=schema, timeout=timeout)
        self._open = partial(PostgresSessions, self._place, max(1, pool))
        self._reopening = Lock()
        self._closed = False
        self._sessions = self._open()
        self.snapshots: PostgresSnapshots = PostgresSnapshots(self._opened)

    @property
    def read_models(self) -> ReadModelTables:
        return PostgresTables(self._opened)

    @property
    def recorder(self) -> PostgresSessionRecorder:
        """The same streams, for eventsourcing's own tools."""
        return PostgresSessionRecorder(self._opened())

    def append(self, append: Append) -> Appended:
        check_append(append)
        return self._opened().appends.write(AppendCall(append))

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        check_append(append)
        call = AppendCall(append)
        try:
            appends = self._opened().appends
        except StoreError as error:
            done(error)
        else:
            appends.submit(call, done)

    def read(
        self, session_id: str, *, after: int = 0, upto: int | None = None
    ) -> Sequence[StoredRecord]:
        check_session_id(session_id)
        return self._opened().ask(lambda cursor: read_stream(cursor, session_id, after, upto))

    def replay(self, session_id: str, *, after: int = 0) -> Generator[Replay, None, None]:
        check_session_id(session_id)
        sessions, after = self._opened(), max(after, 0)
        page = sessions.ask(lambda cursor: first_page(cursor, session_id, after))
        if page is None:
            yield from sessions.replay(session_id, after)
        elif page.topics:
            yield page

    def read_all(self, *, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        return self._opened().ask(lambda cursor: read_log(cursor, after, limit))

    def subscribe(self, *, after: int = 0) -> LogSubscription:
        return self._opened().follow(after)

    def session(self, session_id: str) -> SessionRow | None:
        check_session_id(session_id)
        return self._opened().ask(lambda cursor: find_session(cursor, session_id))

    def sessions(
        self,
        *,
        status: Status | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        forked_from: str | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        wanted = {"status": status, "agent": agent, "tenant": tenant, "parent": forked_from}
        return self._opened().ask(lambda cursor: list_sessions(cursor, wanted, limit))

    def restore(self, row: SessionRow) -> bool:
        check_session_id(row.session_id)
        return self._opened().transact(lambda cursor, _: restore(cursor, row))

    def delete(self, session_id: str, *, expected_version: int | None = None) -> int:
        check_session_id(session_id)
        at = datetime.now(UTC)
        return self._opened().transact(
            lambda cursor, again: bury(cursor, session_id, at, expected_version, again=again)
        )

    def erase(self, append: Append, payloads: Mapping[int, EncodedEvent]) -> Appended:
        check_erasure(append, payloads)
        sessions = self._opened()
        appended = sessions.transact(lambda cursor, _: erase(cursor, append, payloads))
        sessions.listeners.notify()
        return appended

    def stream_ids(self, *, after: str = "", limit: int = 1000) -> Sequence[str]:
        return self._opened().ask(lambda cursor: list_stream_ids(cursor, after, limit))

    def check(self) -> Sequence[str]:
        return self._opened().ask(examine)

    def compact(self) -> int:
        return self._opened().ask(lambda cursor: compact(cursor, self._place))

    def next_generation(self) -> int:
        return self._opened().transact(lambda cursor, _: draw_generation(cursor))

    def close(self) -> None:
        self._closed = True
        if not self._sessions.inherited:
            self._sessions.close()

    def _opened(self) -> PostgresSessions:
        if self._closed:
            raise closed(self._place)
        if self._sessions.inherited:
            with self._reopening:
                if self._sessions.inherited:
                    self._sessions = self._open()
        return self._sessions
