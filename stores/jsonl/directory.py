"""A directory of sessions, opened: what reads, and what writes.

Readers follow the log and take what it says from the files; they never wait for a writer. Where a
file is not as the log says, a writer may be replacing it, or may have died doing so: then the
reader takes the lock, puts things right, and looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ...events.envelope import StoredRecord
from ...events.errors import CorruptEvent, StoreClosed, StoreError, StoreUnavailable
from ..committer import Committer, Write
from ..forking import ProcessBound
from ..port import SessionRow
from ..subscription import Listeners, LogSubscription
from .files import disk_error, disk_errors
from .healing import heal_file, rebuild
from .index import Extract, Index
from .lines import Unfit
from .log import Log
from .opening import can_be_written, create, heal, identify
from .places import LOG, READ_MODELS, Files
from .reading import Damage, read_pages, read_records
from .round import END, FlushFailed, Round
from .tables import TableFile

T = TypeVar("T")

_UNSETTLED: object = object()


class StoreDirectory(ProcessBound):
    """The store in the directory at ``place``, made if there is none. ``timeout``, in seconds,
    is how long to wait for other writers. Raises ``NotAStore``, ``StoreTooNew``, ``StoreBusy``
    or ``StoreUnavailable``."""

    def __init__(self, place: Path, *, sync: bool, timeout: float) -> None:
        self.place: Path = place
        self.index: Index = Index()
        self.log: Log = Log(place / LOG, self.index)
        self.files: Files = Files(place, self.log, sync=sync, timeout=timeout)
        self.listeners: Listeners = Listeners()
        self.damaged: Mapping[str, CorruptEvent] = {}
        self._tables = TableFile(place / READ_MODELS)
        self._committer = Committer(self._commit)
        self._closed, self._restarts = False, 0
        super().__init__()
        with disk_errors(place):
            self._open()

    @property
    def writes(self) -> Committer:
        """What takes the writes, each of which is given a ``Round``."""
        self._check()
        return self._committer

    def row(self, session_id: str) -> SessionRow | None:
        """The row of a session."""
        self.refresh()
        return self.index.row(session_id)

    def end(self) -> int:
        """The position of the last event."""
        self.refresh()
        return self.index.end()

    def stream_ids(self) -> set[str]:
        """The ids of all streams, the damaged ones among them."""
        self.refresh()
        lost = {error.session_id for error in self.damaged.values() if error.session_id}
        return self.index.session_ids() | (lost - self.index.deleted())

    def extract(self, session_id: str, after: int, upto: int) -> Extract | None:
        """Where to read some of a stream; None where there is nothing to read. Raises
        ``CorruptEvent`` for a file that the log does not know and that can't be read."""
        self.refresh()
        if not self.index.knows(session_id) and self.files.path_of(session_id).exists():
            self._settle(session_id)
        return self.index.extract(session_id, max(after, 0), upto)

    def read(self, session_id: str, after: int, upto: int) -> Sequence[StoredRecord]:
        """Events of a stream."""

        def attempt() -> Sequence[StoredRecord]:
            extract = self.extract(session_id, after, upto)
            if extract is None:
                return ()
            records = read_records(self.files.path_of(session_id), extract)
            return [each for each in records if after < each.version <= upto]

        return self._patiently(attempt)

    def pages(self, session_id: str, after: int) -> Iterator[Sequence[StoredRecord]]:
        """Events of a stream with versions above ``after``, some at a time."""
        begun, before = after, _UNSETTLED
        while True:
            try:
                with disk_errors(self.place):
                    extract = self.extract(session_id, after, END)
                    path = self.files.path_of(session_id)
                    for records in () if extract is None else read_pages(path, extract):
                        if page := [each for each in records if each.version > after]:
                            after = page[-1].version
                            yield page
            except Damage as damage:
                settled = self._settle(session_id)
                if settled == before or after > begun:
                    raise damage.told() from damage
                before = settled
            else:
                return

    def read_log(self, after: int, limit: int) -> Sequence[StoredRecord]:
        """Events of all streams with positions above ``after``, at most ``limit``."""

        def attempt() -> Sequence[StoredRecord]:
            self.refresh()
            records: list[StoredRecord] = []
            for extract in self.index.page(after, limit):
                found = read_records(self.files.path_of(extract.session_id), extract)
                records += [each for each in found if each.position > after]
            return records[: max(limit, 0)]

        return self._patiently(attempt)

    def tables(self, *, held: bool = False) -> TableFile:
        """The tables of read models, as they are now; ``held`` says that the caller holds the
        store's lock."""
        self._check()
        with disk_errors(self.place):
            try:
                self._tables.refresh()
            except Unfit:
                if held:
                    self._tables.reset()
                else:
                    self.writes.write(lambda _: self.tables(held=True))
        return self._tables

    def follow(self, after: int) -> LogSubscription:
        """All events with positions above ``after``, and then those that come."""
        self._check()
        return LogSubscription(
            self.read_log, self.listeners, after=after, foreign=_ForeignCommits(self)
        )

    def refresh(self) -> None:
        """Take in what others wrote."""
        self._check()
        with disk_errors(self.place):
            try:
                self.log.refresh()
            except Unfit:
                self._settle(None)

    def check_open(self) -> None:
        """Raise ``StoreClosed`` after ``close``."""
        if self._closed:
            raise StoreClosed(f"{self.place}: the store was closed; open it again")

    def close(self) -> None:
        """Finish what was submitted, then release everything. May be called more than once."""
        self.listeners.close()
        self._committer.close()
        if not self._closed and can_be_written(self.place):
            with suppress(StoreError, OSError), self.files.lock.held():
                if not self.files.lock.interrupted:
                    self.files.journal.empty()
        self._closed = True
        self.files.close()

    def suspend(self) -> None:
        self.files.lock.suspend()
        self.files.journal.close()

    def resume(self) -> None:
        self.files.lock.resume()

    def _check(self) -> None:
        if self.inherited:
            raise StoreClosed(f"{self.place} was opened before a fork; open it in this process")
        self.check_open()

    def _open(self) -> None:
        is_there = identify(self.place)
        if not is_there:
            self.place.mkdir(parents=True, exist_ok=True)
        elif not can_be_written(self.place):
            self._open_to_read()
            return
        with self.files.lock.held():
            if not is_there:
                create(self.files)
            self._heal()

    def _open_to_read(self) -> None:
        try:
            self.log.refresh()
        except (Unfit, FileNotFoundError) as error:
            raise StoreUnavailable(
                f"{self.log.path} is missing or damaged, and can't be made again: give this user "
                "write permission on the directory and on all in it"
            ) from error

    def _patiently(self, attempt: Callable[[], T]) -> T:
        """What the attempt gives. Where it meets damage it is made again, as long as others
        change what it reads."""
        before = _UNSETTLED
        while True:
            with disk_errors(self.place):
                try:
                    return attempt()
                except Damage as damage:
                    settled = self._settle(damage.session_id)
                    if settled == before:
                        raise damage.told() from damage
                    before = settled

    def _settle(self, session_id: str | None) -> object:
        """Put right what an interrupted writer left, or what became of a file; what is
        the same again as long as nobody writes to the session. Raises ``CorruptEvent``."""
        try:
            with self.files.lock.held():
                self._catch_up()
                if session_id is not None:
                    self.files.journal.recover()
                    self.log.refresh()
                    heal_file(self.log, self.files.path_of(session_id), session_id)
                return session_id, self.index.state(session_id or "")
        except StoreUnavailable:
            if can_be_written(self.place):
                raise
            return session_id

    def _catch_up(self) -> None:
        if self.files.lock.interrupted:
            self.files.journal.recover()
            self.files.lock.note(under_way=False)
        try:
            self.log.refresh()
        except (Unfit, FileNotFoundError):
            # Or its places in the log that was would be filled again in the one that is made.
            self.files.journal.recover()
            rebuild(self.log, self.files.sessions, sync=self.files.sync)
        if self.log.is_torn() or self.log.restarts != self._restarts:
            # It was cut, or it was made anew, and may have lost what it said.
            self._heal()

    def _heal(self) -> None:
        self.damaged = heal(self.files)
        self._restarts = self.log.restarts

    def _commit(self, writes: Sequence[Write[Any]]) -> Sequence[object]:
        """Commit the writes; for each its result, or the ``StoreError`` it failed with."""
        outcomes: list[object] = []
        try:
            with self.files.lock.held(), disk_errors(self.place):
                self._catch_up()
                outcomes = self._run(writes)
        except StoreError as error:
            outcomes = [error] * len(writes)
        self.listeners.notify()
        return outcomes

    def _run(self, writes: Sequence[Write[Any]]) -> list[object]:
        into = Round(self.files)
        try:
            for write in writes:
                into.outcomes.append(self._outcome(write, into))
            into.flush()
        except FlushFailed as failed:
            cause = failed.__cause__
            assert isinstance(cause, OSError)
            error, settled = disk_error(cause, self.place), into.outcomes[: into.settled]
            return [*settled, *[error] * (len(writes) - len(settled))]
        return into.outcomes

    def _outcome(self, write: Write[Any], into: Round) -> object:
        try:
            with disk_errors(self.place):
                return write(into)
        except StoreError as error:
            return error


class _ForeignCommits:
    """What other processes write, as ``ForeignCommits``."""

    def __init__(self, directory: StoreDirectory) -> None:
        self._directory = directory
        self._closed = False

    def mark(self) -> object:
        if self._closed:
            return None
        if self._directory.inherited:
            place = self._directory.place
            raise StoreClosed(f"{place} was followed before a fork; follow it anew")
        with disk_errors(self._directory.place):
            return self._directory.log.mark()

    def close(self) -> None:
        self._closed = True
