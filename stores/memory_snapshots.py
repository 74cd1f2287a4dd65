"""Snapshots in memory."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

from .port import Snapshot


class MemorySnapshots:
    """Snapshots in this process's memory. ``opened`` gives the lock of the streams or raises
    ``StoreClosed``, ``version_of`` the version of a stream."""

    def __init__(self, opened: Callable[[], RLock], version_of: Callable[[str], int]) -> None:
        self._opened, self._version_of = opened, version_of
        self._kept: dict[str, list[Snapshot]] = {}

    def latest(self, session_id: str, *, fold: int, upto: int | None = None) -> Snapshot | None:
        with self._opened():
            found = [
                each
                for each in self._kept.get(session_id, ())
                if each.fold == fold and (upto is None or each.version <= upto)
            ]
        return max(found, key=lambda each: each.version, default=None)

    def keep(self, snapshot: Snapshot) -> bool:
        with self._opened():
            if self._version_of(snapshot.session_id) < snapshot.version:
                return False
            others = [
                each
                for each in self._kept.get(snapshot.session_id, ())
                if each.fold >= snapshot.fold and each[1:3] != snapshot[1:3]
            ]
            self._kept[snapshot.session_id] = [*others, snapshot]
            return True

    def drop(self, session_id: str) -> None:
        with self._opened():
            self._kept.pop(session_id, None)
