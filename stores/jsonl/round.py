"""A round of writes: what several callers want to be written, committed together.

A write sees what those before it in the round wrote. Nothing is in any file before the round is
flushed; what fails to be flushed leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...events.envelope import EncodedEvent, StoredRecord
from ..port import SessionRow
from .files import NEW, sync_directory, write_new
from .healing import heal_file
from .index import Change, Head, Index, Span
from .journal import Write, apply
from .lines import FORMAT, Header, row_line, sealed, unit_lines
from .places import Files
from .reading import Damage, read_records

END = 2**62


class FlushFailed(Exception):
    """The round could not be written; the cause says why. Nothing of it was."""


class Round:
    """The writes of one round, made while the store's lock is held."""

    def __init__(self, files: Files) -> None:
        self.files: Files = files
        self.index: Index = files.log.index
        self.outcomes: list[object] = []
        self.settled: int = 0
        self._last: int = self.index.last
        self._begin()

    def head(self, session_id: str) -> Head:
        """Where a stream ends. Raises ``SessionDeleted``, or ``CorruptEvent`` where its file is
        shorter than it was."""
        if (pending := self._heads.get(session_id)) is not None:
            return pending
        head, path = self.index.head(session_id), self.files.path_of(session_id)
        size = _size(path)
        if size != head.end or self.files.met.get(session_id) != head.edition:
            if size != head.end:
                self.files.journal.recover()
                self.files.log.refresh()
            heal_file(self.files.log, path, session_id)
            head, size = self.index.head(session_id), _size(path)
            self._last = max(self._last, self.index.last)
        if size < head.end:
            told = f"the file has {size} of {head.end} bytes"
            raise Damage(path, session_id, head.version, told).told()
        self.files.met[session_id] = head.edition
        self._heads[session_id] = head
        return head

    def read(self, session_id: str, after: int = 0, upto: int = END) -> Sequence[StoredRecord]:
        """Events of a stream, those of this round among them."""
        if session_id in self._chunks:
            self.flush()
        extract = self.index.extract(session_id, after, upto)
        if extract is None:
            return ()
        try:
            records = read_records(self.files.path_of(session_id), extract)
        except Damage as damage:
            raise damage.told() from damage
        return [record for record in records if after < record.version <= upto]

    def extend(self, session_id: str, events: Sequence[EncodedEvent], row: SessionRow) -> int:
        """Let a unit follow the stream; the position of its last event, or of the last that was
        given out."""
        head = self.head(session_id)
        begun, edition = b"", head.edition or 1
        if not head.end:
            begun = sealed(Header(FORMAT, session_id, edition))
        unit = unit_lines(head.version + 1, self._last + 1, events, row)
        offset, count = head.end + len(begun), len(events)
        end = offset + len(unit)
        spans = [Span(self._last + 1, head.version + 1, count, offset, len(unit))] if count else []
        self._chunks.setdefault(session_id, (head.end, []))[1].extend(filter(None, (begun, unit)))
        self._log.append(sealed(Change(session_id, end, edition, spans, row_line(row))))
        self._heads[session_id] = Head(head.version + count, row, end, edition)
        self._last += count
        return self._last

    def replace(self, change: Change, content: bytes) -> None:
        """Write a session's file anew, and be done with what came before in this round."""
        self.flush()
        path = self.files.path_of(change.session)
        try:
            self.files.journal.empty()
            new = path.with_name(path.name + NEW)
            write_new(new, content, sync=self.files.sync)
            if self.files.sync:
                sync_directory(path.parent)
            log = Write("", self.files.log.path, self.files.log.end, sealed(change))
            self._write([log, Write(change.session, path, 0, None)])
            self.files.journal.empty()
        except OSError as error:
            raise FlushFailed from error

    def flush(self) -> None:
        """Write what was brought so far. Raises ``FlushFailed``."""
        if writes := self._taken():
            try:
                self._write(writes)
                writes.clear()  # or an emptying journal would be read beside what is in it
                self._empty_full_journal()
            except OSError as error:
                raise FlushFailed from error
        self.settled = len(self.outcomes)

    def _taken(self) -> list[Write]:
        """What was brought so far; the round begins anew."""
        chunks, log = self._chunks, b"".join(self._log)
        self._begin()
        if not log:
            return []
        writes = [
            Write(sid, self.files.path_of(sid), offset, b"".join(pieces))
            for sid, (offset, pieces) in chunks.items()
        ]
        return [*writes, Write("", self.files.log.path, self.files.log.end, log)]

    def _begin(self) -> None:
        self._heads: dict[str, Head] = {}
        self._chunks: dict[str, tuple[int, list[bytes]]] = {}
        self._log: list[bytes] = []
        self._last = self.index.last

    def _write(self, writes: Sequence[Write]) -> None:
        journal, lock = self.files.journal, self.files.lock
        lock.note(under_way=True)
        try:
            begun = journal.commit(writes)
        except OSError:
            # It may be the journal itself that fills the disk.
            journal.empty()
            begun = journal.commit(writes)
        try:
            apply(writes)
        except OSError:
            journal.withdraw(begun)
            raise
        lock.note(under_way=False)
        self.files.log.refresh()
        self._last = self.index.last

    def _empty_full_journal(self) -> None:
        if self.files.journal.is_full:
            self.files.journal.empty()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
