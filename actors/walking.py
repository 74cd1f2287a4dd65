"""One way through a stream, page by page, and what is seen on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..events.approvals import dump_approvals
from ..events.chain import Fault, link
from ..events.codec import CODEC
from ..events.envelope import StoredRecord
from ..events.errors import CorruptEvent, StoreBusy, StoreClosed, StoreError
from ..events.session import AnyEvent, SessionStarted, UnknownEvent
from ..projections import Audit
from ..stores import EventStore, SessionRow
from .snapshotting import latest_fold

PAGE = 500


class Walk:
    """A way through a session's stream, up to where its ``row`` says that it ends; without one, to
    its end. Whoever goes through ``records`` has in the end what they say (``audit``), how many
    they are and weigh, and the link at the version that a fork shares with its origin
    (``shared``). ``unread`` is what could not be read, ``corrupt`` what is no event;
    ``false_snapshot`` is the version of a snapshot that is not the fold of the events up to it."""

    def __init__(self, store: EventStore, session_id: str, row: SessionRow | None) -> None:
        self._store, self._id, self._row = store, session_id, row
        self.audit: Audit = Audit()
        self.count: int = 0
        self.size: int = 0
        self.head: str = ""
        self.shared: str = ""
        self.last: AnyEvent | None = None
        self.begun: SessionStarted | None = None
        self.saw_created: bool = False
        self.corrupt: Fault | None = None
        self.unread: Fault | None = None
        self.false_snapshot: int = 0
        self._snapshot = latest_fold(store, session_id)

    def records(self) -> Iterator[StoredRecord]:
        """The stream's records in order."""
        for page in self._pages():
            for record in page:
                self._see(record)
                yield record

    def _pages(self) -> Iterator[Sequence[StoredRecord]]:
        after, end = 0, self._row.version if self._row is not None else None
        while end is None or after < end:
            upto = after + PAGE if end is None else min(after + PAGE, end)
            page = self._page(after, upto)
            if page is None or not (page or end):
                return
            yield page
            after = upto

    def _page(self, after: int, upto: int) -> Sequence[StoredRecord] | None:
        try:
            return self._store.read(self._id, after=after, upto=upto)
        except (StoreClosed, StoreBusy):
            raise
        except Exception as error:  # whatever damaged bytes make of a read is to be told
            self.unread = Fault(self._first_unreadable(after, upto), told(error))
            return None

    def _first_unreadable(self, after: int, upto: int) -> int:
        for version in range(after + 1, upto + 1):
            try:
                self._store.read(self._id, after=version - 1, upto=version)
            except Exception:  # as above
                return version
        return after + 1

    def _see(self, record: StoredRecord) -> None:
        _, _, version, topic, payload = record
        self.count += 1
        self.size += len(payload)
        if self._row is not None and version == shared_version(self._row):
            self.shared = link(topic, version, payload)
        try:
            event = CODEC.decode(topic, payload)
        except CorruptEvent as error:
            self.corrupt = self.corrupt or Fault(version, str(error))
            return
        self.last = event
        self.audit.take(version, topic, payload, event)
        kept = self._snapshot
        if kept is not None and kept.version == version:
            known = (kept.state, kept.prev)
            if known != (self.audit.state, link(topic, version, payload)):
                self.false_snapshot = version
        if isinstance(event, UnknownEvent) or self._row is None:
            return
        self.saw_created = self.saw_created or event.at == self._row.created
        if isinstance(event, SessionStarted) and event.forked_from is not None:
            self.begun = event


def shared_version(row: SessionRow) -> int:
    """The last version that a fork shares with its origin; 0 for what is no fork."""
    return 0 if row.forked_from is None else row.forked_from.version


def disagreements(row: SessionRow | None, walk: Walk) -> Iterator[str]:
    """In what the row beside a stream is not what the stream's fold says."""
    state, last = walk.audit.state, walk.last
    if row is None:
        if walk.count:
            yield "the stream has no row, or was deleted and has events again"
        return
    if row.version != walk.count:
        yield f"its row is at version {row.version}, the stream at {walk.count}"
    if row.size != walk.size:
        yield f"its row says {row.size} bytes, the stream has {walk.size}"
    if (row.agent, row.tenant) != (state.active, state.tenant):
        yield "its row names another agent or tenant than the stream"
    if walk.begun is not None and row.forked_from != walk.begun.forked_from:
        yield "its row names another origin than the stream"
    if walk.audit.unknown or last is None or isinstance(last, UnknownEvent):
        return
    if row.status != state.status:
        yield f"its row says {row.status}, the stream {state.status}"
    if dump_approvals(row.approvals) != dump_approvals(state.own_approvals(row.session_id)):
        yield "its row shows other open approvals than the stream"
    if row.updated != last.at or not walk.saw_created:
        yield "its row says other times than the stream"


def told(error: Exception) -> str:
    """What kept something from being read; of foreign errors only the kind, as their text can
    quote what is stored."""
    return str(error) if isinstance(error, StoreError) else type(error).__name__
