"""What PostgreSQL and its client say, as turnstream's errors: what failed, where, the way out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TypeVar

import psycopg
from msgspec import MsgspecError
from psycopg_pool import PoolClosed, PoolTimeout

from ...events.errors import StoreBusy, StoreClosed, StoreError, StoreUnavailable
from .address import Place

R = TypeVar("R")

NAP_SECONDS = 0.02
LONGEST_NAP_SECONDS = 0.25

# Connection exceptions, shutdown, crash, start-up, time-outs that end the session.
_LOST = {"57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04"}
_COLLIDED = {"40001", "40P01"}


def persistently(place: Place, attempt: Callable[[int], R]) -> R:
    """Do what can be done twice, again and again while it is the connection that fails, for at
    most ``place.timeout`` seconds. ``attempt`` is told how often it was tried before."""
    deadline, nap, tried = monotonic() + place.timeout, NAP_SECONDS, 0
    while True:
        try:
            return attempt(tried)
        except psycopg.Error as error:
            if not (is_lost(error) or error.sqlstate in _COLLIDED) or monotonic() >= deadline:
                raise
        tried += 1
        sleep(max(0.0, min(nap, deadline - monotonic())))
        nap = min(nap * 2, LONGEST_NAP_SECONDS)


def is_lost(error: BaseException) -> bool:
    """Whether there is no connection, or none any more: what was asked may have been done."""
    if isinstance(error, PoolClosed | PoolTimeout):
        return False
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state in _LOST or state.startswith("08")


def spoils_its_transaction(error: psycopg.Error) -> bool:
    """Whether it is what was written that can't be, and not the server or its connection."""
    return (error.sqlstate or "")[:2] in {"22", "23", "54"} or (
        error.sqlstate is None and isinstance(error, psycopg.DataError)
    )


@contextmanager
def store_errors(place: Place) -> Iterator[None]:
    """Whatever the client raises within is raised as a ``StoreError``, and so is what comes of
    columns that hold what was never written there."""
    try:
        yield
    except psycopg.Error as error:
        raise store_error(error, place) from error
    except (MsgspecError, UnicodeError, ArithmeticError) as error:
        raise _damaged(place) from error


def closed(place: Place) -> StoreClosed:
    """The error for a store used after its end."""
    return StoreClosed(f"{place}: the store was closed; open it again")


def store_error(error: Exception, place: Place) -> StoreError:
    """The ``StoreError`` that says what ``error`` means for the store."""
    told = _told(error, place)
    if told is not error:
        told.__cause__ = error
    return told


def _told(error: Exception, place: Place) -> StoreError:
    match error:
        case StoreError():
            return error
        case PoolClosed():
            return closed(place)
        case PoolTimeout():
            return StoreBusy(
                f"{place}: no connection was free in time; try again, or allow more with ?pool="
            )
        case psycopg.Error() if is_lost(error):
            return _away(error, place)
        case psycopg.Error():
            return _refused(error.sqlstate or type(error).__name__, place)
        case _:
            return StoreError(f"{place}: the write failed: {type(error).__name__}")


def _away(error: psycopg.Error, place: Place) -> StoreUnavailable:
    said = " ".join(place.without_secrets(str(error)).split())
    return StoreUnavailable(
        f"{place} can't be reached; check the address, the password and the server: {said}"
    )


def _refused(state: str, place: Place) -> StoreError:
    match state:
        case "55P03" | "40001" | "40P01":
            return StoreBusy(
                f"{place} is held by another writer; try again, or wait longer with ?timeout="
            )
        case "57014":
            return StoreBusy(
                f"{place}: the server broke off after its statement_timeout; try again, or raise it"
            )
        case "53100":
            return StoreUnavailable(f"{place}: the server's disk is full; free some space")
        case _ if state.startswith(("53", "58")):
            return StoreUnavailable(
                f"{place}: the server lacks something ({state}); see its log, and try again"
            )
        case "25006":
            return StoreUnavailable(
                f"{place} can only be read: the server or this user is read-only; use the primary"
            )
        case "42501":
            return StoreUnavailable(
                f"{place}: this user lacks a permission; grant it what the schema's owner has"
            )
        case "3F000" | "42P01" | "42883" | "42703":
            return StoreUnavailable(
                f"{place}: a part of the schema is gone or out of reach ({state}); restore a "
                "backup, or grant this user access"
            )
        case _ if state.startswith("XX"):
            return _damaged(place)
        case _:
            return StoreError(f"{place}: PostgreSQL refused ({state})")


def _damaged(place: Place) -> StoreUnavailable:
    return StoreUnavailable(f"{place} is damaged; see the server's log, and restore a backup")
