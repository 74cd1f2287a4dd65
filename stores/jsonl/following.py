"""A file of lines that grows, read as far as it goes and then followed.

Its first line is another each time the file is made anew; then all of it is read again. What
follows the last line break is not there yet.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import RLock

from .files import opened_file, read_at, write_at
from .lines import Unfit

_FIRST_LINE = 200


class LineFile:
    """The file at ``path``. ``restart`` is given its first line, and ``take`` each of the others,
    while the ``lock`` is held. They raise ``Unfit``. ``restarts`` counts the first lines."""

    def __init__(
        self,
        path: Path,
        lock: RLock,
        restart: Callable[[bytes], None],
        take: Callable[[bytes], None],
    ) -> None:
        self.path: Path = path
        self.end: int = 0
        self.restarts: int = 0
        self._lock, self._restart, self._take = lock, restart, take
        self._first = b""
        self._seen: object = None

    def mark(self) -> object:
        """Something that changes with everything that is written. Raises ``OSError``."""
        stat = self.path.stat()
        return stat.st_ino, stat.st_dev, stat.st_size, stat.st_mtime_ns

    def refresh(self) -> None:
        """Take in what was written since. Raises ``Unfit`` where a line is not as it was written,
        and ``OSError``."""
        if self.mark() == self._seen:
            return
        with self._lock:
            seen = self.mark()
            try:
                self._read()
            except Unfit:
                self.forget()
                raise
            self._seen = seen

    def forget(self) -> None:
        """Read all of it anew next time."""
        with self._lock:
            self.end, self._first, self._seen = 0, b"", None

    def is_torn(self) -> bool:
        """Whether something follows the last whole line."""
        return self.path.stat().st_size > self.end

    def extend(self, line: bytes) -> None:
        """Let a line follow the last whole one. Needs the store's lock. Raises ``OSError``, and
        then it does not."""
        with opened_file(self.path, write=True) as descriptor:
            os.ftruncate(descriptor, self.end)
            try:
                write_at(descriptor, self.end, line)
            except OSError:
                os.ftruncate(descriptor, self.end)
                raise
        self.refresh()

    def _read(self) -> None:
        with opened_file(self.path) as descriptor:
            size, first = os.fstat(descriptor).st_size, self._first
            if size < self.end or not first or read_at(descriptor, 0, len(first)) != first:
                line, found, _ = read_at(descriptor, 0, _FIRST_LINE).partition(b"\n")
                if not found:
                    raise Unfit("the first line is missing")
                self._restart(line)
                self.restarts += 1
                self._first, self.end = line + found, len(line) + 1
            content = read_at(descriptor, self.end, size - self.end)
        for line in content.split(b"\n")[:-1]:
            self._take(line)
            self.end += len(line) + 1
