"""An append as a call of ``append_events``, and rounds of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.types.numeric import Int8

from ...events.approvals import dump_approvals
from ...events.errors import SessionDeleted, StoreError, WrongExpectedVersion
from ..port import Append, Appended
from ..rows import microseconds
from .address import Place
from .arrays import bytea_array, text_array
from .connections import AppendConnection, Connection, Cursor, read_on
from .faults import persistently, spoils_its_transaction, store_error
from .functions import BEHIND, DELETED, KINDS, ORIGIN_BEHIND, ORIGIN_DELETED
from .text import stored

CALL = "SELECT append_events(%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b)"


class AppendCall:
    """An append to be called, and what the answer means."""

    def __init__(self, append: Append) -> None:
        self._append = append
        self._parameters: Sequence[object] = _parameters(append)

    def send(self, cursor: Cursor) -> None:
        """Call it."""
        cursor.execute(CALL, self._parameters, prepare=True)

    def __call__(self, cursor: Cursor) -> Appended:
        """What became of it, on the cursor that it was sent on. Raises ``WrongExpectedVersion`` or
        ``SessionDeleted``; then nothing was written."""
        answer = cursor.fetchone()
        assert answer is not None
        append, (place,) = self._append, answer
        if place > 0:
            return Appended(append.expected_version + len(append.events), place)
        raise _refusal(append, *divmod(-place, KINDS))


def _refusal(append: Append, actual: int, kind: int) -> StoreError:
    sid, expected, copied = append.session_id, append.expected_version, append.copied
    if kind in (ORIGIN_BEHIND, ORIGIN_DELETED):
        assert copied is not None
        sid = copied.session_id
    elif copied is not None:
        expected = 0
    if kind in (DELETED, ORIGIN_DELETED):
        return SessionDeleted(sid)
    assert kind in (BEHIND, ORIGIN_BEHIND)
    return WrongExpectedVersion(sid, expected=expected, actual=actual)


def call(cursor: Cursor, append: Append) -> Appended:
    """Append in the cursor's transaction, or raise ``WrongExpectedVersion`` or
    ``SessionDeleted``."""
    appending = AppendCall(append)
    appending.send(cursor)
    return appending(cursor)


class Writer:
    """Commits rounds of appends, each round in one transaction and one round trip."""

    def __init__(self, connection: AppendConnection, place: Place) -> None:
        self._connection = connection
        self._place = place

    def commit(self, calls: Sequence[AppendCall]) -> list[object]:
        """Commit the appends in order, and return for each its result or its ``StoreError``. One
        that breaks the transaction fails alone. Where the connection is lost they are called
        again: those that were committed are recognised."""
        try:
            return persistently(self._place, lambda _: self._attempt(calls))
        except psycopg.Error as error:
            if len(calls) > 1 and spoils_its_transaction(error):
                return [self.commit([each])[0] for each in calls]
            failure = error
        except StoreError as error:
            return [error for _ in calls]
        except UnicodeError as error:
            return [store_error(error, self._place) for _ in calls]
        return [store_error(failure, self._place) for _ in calls]

    def _attempt(self, calls: Sequence[AppendCall]) -> list[object]:
        with self._connection as cursor:
            if len(calls) > 1:
                return _together(cursor.connection, calls)
            calls[0].send(cursor)
            return [_outcome(calls[0], cursor)]


def _together(connection: Connection, calls: Sequence[AppendCall]) -> list[object]:
    cursors = [read_on(connection) for _ in calls]
    with connection.pipeline():
        connection.execute("BEGIN")
        for each, cursor in zip(calls, cursors, strict=True):
            each.send(cursor)
        connection.execute("COMMIT")
    return [_outcome(each, cursor) for each, cursor in zip(calls, cursors, strict=True)]


def _outcome(appending: AppendCall, cursor: Cursor) -> object:
    try:
        return appending(cursor)
    except StoreError as error:
        return error


def _parameters(append: Append) -> Sequence[Any]:
    row, at = append.row, microseconds(append.row.at)
    origin = append.copied or row.forked_from
    return (
        append.session_id,
        Int8(append.expected_version),
        text_array([stored(topic) for topic, _ in append.events]),
        bytea_array([payload for _, payload in append.events]),
        Int8(sum([len(payload) for _, payload in append.events])),
        row.status,
        stored(row.agent),
        stored(row.tenant),
        Int8(at),
        dump_approvals(row.approvals),
        stored(row.head),
        Int8(at if row.created is None else microseconds(row.created)),
        None if origin is None else stored(origin.session_id),
        None if origin is None else Int8(origin.version),
        append.copied is not None,
    )
