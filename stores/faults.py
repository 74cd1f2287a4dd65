"""What SQLite and the pools say, as turnstream's errors: what failed, where, and the way out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from eventsourcing.domain import EventSourcingError
from eventsourcing.persistence import ConnectionPoolClosedError, ConnectionUnavailableError
from msgspec import MsgspecError

from ..events.errors import NotAStore, StoreBusy, StoreClosed, StoreError, StoreUnavailable


def store_error(error: Exception, place: str) -> StoreError:
    """The ``StoreError`` that says what ``error`` means for the store at ``place``."""
    told = _told(error, place)
    if told is not error:
        told.__cause__ = error
    return told


@contextmanager
def store_errors(place: str) -> Iterator[None]:
    """Whatever SQLite or a pool raises within is raised as a ``StoreError``, and so is what comes
    of columns that hold what was never written there."""
    try:
        yield
    except (sqlite3.Error, EventSourcingError) as error:
        raise store_error(error, place) from error
    except (MsgspecError, UnicodeError, ArithmeticError) as error:
        raise _damaged(place) from error


def closed(place: str) -> StoreClosed:
    """The error for a store used after its end."""
    return StoreClosed(f"{place}: the store was closed; open it again")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds a lock that this one waited for."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _told(error: Exception, place: str) -> StoreError:
    match error:
        case StoreError():
            return error
        case ConnectionPoolClosedError():
            return closed(place)
        case ConnectionUnavailableError():
            return StoreBusy(f"{place}: too many reads at once; try again")
        case sqlite3.Error():
            return _of_sqlite(error, place)
        case _:
            return StoreError(f"{place}: the write failed: {type(error).__name__}")


def _code(error: sqlite3.Error) -> int:
    # Errors of the module itself carry no code of SQLite's; the low byte is the primary code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF


def _of_sqlite(error: sqlite3.Error, place: str) -> StoreError:
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    match _code(error):
        case sqlite3.SQLITE_OK if "closed" in str(error):
            return closed(place)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return StoreBusy(
                f"{place} is held by another writer; try again, or wait longer with ?timeout="
            )
        case sqlite3.SQLITE_FULL:
            return StoreUnavailable(f"{place}: the disk is full; free some space and try again")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreUnavailable(
                f"{place} can only be read; give this user write permission on the file and on "
                "its directory"
            )
        case sqlite3.SQLITE_CANTOPEN:
            return StoreUnavailable(
                f"{place} can't be opened; it must be there, and this user needs read and write "
                "permission on it and on its directory"
            )
        case sqlite3.SQLITE_IOERR:
            return StoreUnavailable(
                f"{place}: the disk failed ({name}); check its space, quota and health, "
                "and try again"
            )
        case sqlite3.SQLITE_CORRUPT:
            return _damaged(place)
        case sqlite3.SQLITE_NOTADB:
            return NotAStore(f"{place} is no SQLite database; give the path of another file")
        case _:
            return StoreError(f"{place}: SQLite refused ({name})")


def _damaged(place: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{place} is damaged; restore a backup, or save what can be read with the sqlite3 "
        "program's .recover"
    )
