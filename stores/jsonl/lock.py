"""The lock that the writers of a store share, over threads and processes.

The system takes it from a process that ends, however it ends. What such a process left undone
is noted in the file itself: its first byte is ``1`` while a round of writes is being put in its
places. Nobody needs the lock to read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep

from ...events.errors import StoreBusy, StoreUnavailable
from .files import disk_errors, read_at, write_at

NAP_SECONDS = 0.001

if sys.platform == "win32":
    import msvcrt

    def _takes(descriptor: int) -> bool:
        os.lseek(descriptor, 1, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _gives_back(descriptor: int) -> None:
        os.lseek(descriptor, 1, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _takes(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _gives_back(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class StoreLock:
    """The lock of the store whose file it is. ``timeout``, in seconds, is how long to wait."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._path, self._timeout = path, timeout
        self._descriptor: int | None = None
        self._thread = Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it. Raises ``StoreBusy``, or ``StoreUnavailable``."""
        if not self._thread.acquire(timeout=self._timeout):
            raise self._busy()
        try:
            with disk_errors(self._path.parent):
                descriptor = self._opened()
                self._wait(descriptor)
            try:
                with disk_errors(self._path.parent):
                    self._check_in_place(descriptor)
                yield
            finally:
                with suppress(OSError):
                    _gives_back(descriptor)
        finally:
            self._thread.release()

    def suspend(self) -> None:
        """Release the file when nobody holds the lock, and let whoever wants it wait."""
        self._thread.acquire()
        self.close()

    def resume(self) -> None:
        """Let whoever wants it have it."""
        self._thread.release()

    @property
    def interrupted(self) -> bool:
        """Whether the last round was left undone. To be asked by who holds it."""
        return read_at(self._opened(), 0, 1) == b"1"

    def note(self, *, under_way: bool) -> None:
        """That a round is under way, or done."""
        write_at(self._opened(), 0, b"1" if under_way else b"0")

    def close(self) -> None:
        """Release the file. It is opened again when it is needed."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _opened(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        return self._descriptor

    def _wait(self, descriptor: int) -> None:
        deadline = monotonic() + self._timeout
        while not _takes(descriptor):
            if monotonic() >= deadline:
                raise self._busy()
            sleep(NAP_SECONDS)

    def _check_in_place(self, descriptor: int) -> None:
        ours, there = os.fstat(descriptor), self._path.stat()
        if (ours.st_ino, ours.st_dev) != (there.st_ino, there.st_dev):
            self.close()
            raise StoreUnavailable(
                f"{self._path.parent} was replaced while it was open; open the store again"
            )

    def _busy(self) -> StoreBusy:
        return StoreBusy(
            f"{self._path.parent} is held by another writer; try again, or wait longer with "
            "?timeout="
        )
