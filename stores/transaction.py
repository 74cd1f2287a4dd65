"""The connection that writes: several writes in one transaction, all of them durable or none."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import monotonic, sleep
from typing import Any, TypeAlias

from ..events.errors import StoreError
from .committer import Write
from .faults import is_busy, store_error

NAP_SECONDS = 0.002

Lend: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Cursor]]


class Undo(Exception):
    """Raised by a write that failed with ``error`` after it had written something."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(error)
        self.error = error


class Writer:
    """Commits rounds of writes on the cursor that ``lend`` lends, which is this thread's alone
    for the while. ``timeout`` is how long, in seconds, it waits for other processes' writers."""

    def __init__(self, lend: Lend, place: str, timeout: float) -> None:
        self._lend = lend
        self._place = place
        self._timeout = timeout

    def commit(self, writes: Sequence[Write[Any]]) -> list[object]:
        """Commit the writes in one transaction, in order, and return for each its result, or the
        ``StoreError`` it failed with. A write that breaks the transaction fails alone."""
        try:
            with self._lend() as cursor:
                outcomes = self._attempt(cursor, writes)
        except Undo as undo:
            return [undo.error]
        except Exception as error:
            return [store_error(error, self._place) for _ in writes]
        if outcomes is None:
            return [self.commit([write])[0] for write in writes]
        return outcomes

    def _attempt(self, cursor: sqlite3.Cursor, writes: Sequence[Write[Any]]) -> list[object] | None:
        """The outcomes, durable; None where a write of several broke the transaction."""
        try:
            self._begin(cursor)
            outcomes = _run(cursor, writes)
            if outcomes is not None:
                cursor.execute("COMMIT")
        finally:
            if cursor.connection.in_transaction:
                cursor.connection.rollback()
        return outcomes

    def _begin(self, cursor: sqlite3.Cursor) -> None:
        # SQLite's own waiting backs off to naps of 100 ms and then starves behind busy writers.
        deadline = monotonic() + self._timeout
        while not _begins(cursor, last_try=monotonic() >= deadline):
            sleep(NAP_SECONDS)


def _begins(cursor: sqlite3.Cursor, *, last_try: bool) -> bool:
    try:
        cursor.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if last_try or not is_busy(error):
            raise
        return False
    return True


def _run(cursor: sqlite3.Cursor, writes: Sequence[Write[Any]]) -> list[object] | None:
    try:
        return [_outcome(write, cursor) for write in writes]
    except Exception:
        if len(writes) == 1:
            raise
        return None


def _outcome(write: Write[Any], cursor: sqlite3.Cursor) -> object:
    try:
        return write(cursor)
    except StoreError as error:
        return error
