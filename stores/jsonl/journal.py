"""How several files are written at once: first what is to be written, in one file, then they.

A round of appends is one entry of the journal, and is committed once that is on the disk: one
wait for all sessions of the round. Then the bytes go to their places, without waiting. From time
to time what was written there is brought to the disk too, and the journal is emptied. If a process
dies in between, whoever holds the lock next puts the bytes in their places again: that is always
right, as it is the same bytes in the same places.

An entry is a line that says what goes where, and the bytes; a session is named by its id, the
log by nothing. A file that takes another's place lies there already, beside it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import MsgspecError, Struct
from msgspec.json import decode, encode

from .files import NEW, TORN, opened_file, read_at, sync_directory, write_at
from .lines import hashed

LARGEST = 4_000_000
"""Bytes after which the journal is emptied."""

SMALL = 1_000_000
"""Bytes up to which an entry is put together before it is written."""

_log = logging.getLogger(__name__)


class Write(NamedTuple):
    """Bytes for the file at ``path`` from ``offset`` on. Without ``content`` the new file beside
    it takes its place."""

    session: str
    path: Path
    offset: int
    content: bytes | memoryview | None


class _Entry(Struct, frozen=True):
    """What goes where: session, offset, length; with length -1, the new file in its place."""

    writes: list[tuple[str, int, int]]
    digest: str


class Journal:
    """The journal of a store. Only who holds the store's lock may use it. ``path_of`` gives the
    file of a session, and that of the log for no id."""

    def __init__(self, path: Path, path_of: Callable[[str], Path], *, sync: bool) -> None:
        self._path, self._path_of, self._sync = path, path_of, sync
        self._descriptor: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether it is time to empty it."""
        return os.fstat(self._opened()).st_size > LARGEST

    def commit(self, writes: Sequence[Write]) -> int:
        """Have the writes outlive whatever comes; where their entry begins. Raises ``OSError``,
        and then nothing was written."""
        begun = end = os.fstat(self._opened()).st_size
        try:
            for piece in _spelled(writes):
                write_at(self._opened(), end, piece)
                end += len(piece)
            self._flush()
        except BaseException:
            self.withdraw(begun)
            raise
        return begun

    def withdraw(self, begun: int) -> None:
        """Forget the entry that begins there."""
        with suppress(OSError):
            os.ftruncate(self._opened(), begun)
            self._flush()

    def recover(self) -> None:
        """Put the bytes of all entries in their places again. What is no whole entry was told to
        nobody: it is put aside, and a warning says so."""
        content, end = self._content(), 0
        for writes, after in self._entries(content):
            for write in writes:
                _put_again(write)
            end = after
        if rest := content[end:]:
            self._put_aside(rest)
        self.empty()

    def empty(self) -> None:
        """Bring to the disk what was written in its places, and forget it here."""
        content = self._content()
        if not content:
            return
        if self._sync:
            entries = self._entries(content)
            paths = {write.path for writes, _ in entries for write in writes}
            for path in filter(Path.exists, paths):
                with opened_file(path) as descriptor:
                    os.fsync(descriptor)
            for directory in {path.parent for path in paths}:
                sync_directory(directory)
        os.ftruncate(self._opened(), 0)
        self._flush()

    def close(self) -> None:
        """Release the file. It is opened again when it is needed."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _opened(self) -> int:
        if self._descriptor is None:
            is_new = not self._path.exists()
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            if is_new and self._sync:
                sync_directory(self._path.parent)
        return self._descriptor

    def _flush(self) -> None:
        if self._sync:
            os.fsync(self._opened())

    def _content(self) -> bytes:
        return read_at(self._opened(), 0, os.fstat(self._opened()).st_size)

    def _entries(self, content: bytes) -> Iterator[tuple[Sequence[Write], int]]:
        """The whole entries, and where each ends."""
        begun, whole = 0, memoryview(content)
        while (found := _read(content, begun)) is not None:
            entry, start = found
            writes: list[Write] = []
            for session, offset, length in entry.writes:
                piece = whole[start : start + length] if length >= 0 else None
                writes.append(Write(session, self._path_of(session), offset, piece))
                start += max(length, 0)
            yield writes, start
            begun = start

    def _put_aside(self, rest: bytes) -> None:
        aside = self._path.with_name(self._path.name + TORN)
        _log.warning(
            "%s: its last %d bytes are no whole entry, and were told to nobody; they are in %s now",
            self._path,
            len(rest),
            aside.name,
        )
        aside.write_bytes(rest)


def apply(writes: Sequence[Write]) -> None:
    """Put bytes in their places, and then files. Where it raises ``OSError``, it has undone
    what it did."""
    begun: list[Write] = []
    try:
        for write in writes:
            if write.content is not None:
                begun.append(write)
                with opened_file(write.path, write=True, create=not write.offset) as descriptor:
                    write_at(descriptor, write.offset, write.content)
        for write in writes:
            if write.content is None:
                _new(write.path).replace(write.path)
    except BaseException:
        for write in reversed(begun):
            _undo(write)
        raise


def _undo(write: Write) -> None:
    with suppress(OSError):
        if write.offset:
            os.truncate(write.path, write.offset)
        else:
            write.path.unlink()


def _put_again(write: Write) -> None:
    if write.content is None:
        with suppress(FileNotFoundError):  # it took its place before
            _new(write.path).replace(write.path)
        return
    with opened_file(write.path, write=True, create=not write.offset) as descriptor:
        there = read_at(descriptor, write.offset, len(write.content))
        if there == write.content or os.fstat(descriptor).st_size < write.offset:
            return
        if len(there) == len(write.content):
            _log.warning("%s was not as it was written: put right by the journal", write.path)
        write_at(descriptor, write.offset, write.content)


def _new(path: Path) -> Path:
    return path.with_name(path.name + NEW)


def _spelled(writes: Sequence[Write]) -> Sequence[bytes | memoryview]:
    """An entry in pieces: large ones are not copied."""
    places = [
        (each.session, each.offset, -1 if each.content is None else len(each.content))
        for each in writes
    ]
    contents = [each.content for each in writes if each.content is not None]
    line = encode(_Entry(places, _digest(places, contents))) + b"\n"
    # Small ones are, so that an entry is as a rule one write.
    if sum(map(len, contents)) <= SMALL:
        return (b"".join([line, *contents]),)
    return line, *contents


def _read(content: bytes, begun: int) -> tuple[_Entry, int] | None:
    """The entry that begins there, and where its bytes begin; None where there is no whole one."""
    end = content.find(b"\n", begun)
    if end < 0:
        return None
    try:
        entry = decode(content[begun:end], type=_Entry)
    except (MsgspecError, UnicodeError, RecursionError):
        return None
    length = sum(max(each[2], 0) for each in entry.writes)
    contents = memoryview(content)[end + 1 : end + 1 + length]
    if len(contents) < length or entry.digest != _digest(entry.writes, [contents]):
        return None
    return entry, end + 1


def _digest(places: Sequence[tuple[str, int, int]], contents: Iterable[bytes | memoryview]) -> str:
    return hashed(encode(places), *contents)[:32]
