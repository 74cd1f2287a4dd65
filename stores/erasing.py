"""An erasure as SQL: an append, and other payloads in the place of those that stand there."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from ..events.envelope import EncodedEvent
from ..events.errors import StoreUnavailable
from .appending import write_once
from .port import Append, Appended
from .rows import ERASE, FORGET_SNAPSHOTS, WEIGH_ANEW
from .transaction import Undo


def write_erasure(
    cursor: sqlite3.Cursor, append: Append, payloads: Mapping[int, EncodedEvent]
) -> Appended:
    """Write the append and the payloads, or raise what ``write_append`` raises."""
    appended, sid = write_once(cursor, append), append.session_id
    for version, (topic, payload) in payloads.items():
        cursor.execute(ERASE, (topic, payload, sid, version))
        if cursor.rowcount != 1:
            missing = f"version {version} of session {sid!r} is missing: verify the store"
            raise Undo(StoreUnavailable(missing, session_id=sid))
    cursor.execute(WEIGH_ANEW, (sid,))
    cursor.execute(FORGET_SNAPSHOTS, (sid,))
    return appended
