"""What must not cross a fork.

SQLite keeps, per process and file, a note of the locks it holds. A forked child inherits the note
without the locks, and the two then delete each other's log. So every connection is closed before
a fork and opened again after it, when it is needed: in the parent by whoever had it, in the child
by a store that opens the file anew.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from threading import Lock
from weakref import WeakSet


class ProcessBound(ABC):
    """Something that has connections, and belongs to the process that made it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        _living.add(self)

    @property
    def inherited(self) -> bool:
        """Whether it was made by another process and came here by a fork. It may hold locks
        that nobody will release: it must not be used then."""
        return self._pid != os.getpid()

    @abstractmethod
    def suspend(self) -> None:
        """Close all connections, when those at work have done, and open none before ``resume``."""

    @abstractmethod
    def resume(self) -> None:
        """Open connections again when they are needed."""


_living: WeakSet[ProcessBound] = WeakSet()
_suspended: list[ProcessBound] = []
_forking = Lock()


def _before() -> None:
    _forking.acquire()
    for bound in list(_living):
        if not bound.inherited:
            bound.suspend()
            _suspended.append(bound)


def _after_in_parent() -> None:
    while _suspended:
        _suspended.pop().resume()
    _forking.release()


def _after_in_child() -> None:
    _suspended.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
