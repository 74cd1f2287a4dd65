"""Where streams live. Stores know events, and nothing of projections and actors.

``port`` is what a store is, ``memory`` is the one to read first, ``conformance`` is the suite
that holds every store to it.
"""

from typing import TYPE_CHECKING

from .address import open_store
from .memory import MemoryStore
from .port import (
    Append,
    Appended,
    EventStore,
    RowChange,
    SessionRow,
    Snapshot,
    Snapshots,
    Subscription,
)
from .read_models import ReadModelTable, ReadModelTables

if TYPE_CHECKING:
    from .jsonl import JSONLStore
    from .postgres import PostgresStore
    from .sqlite import SQLiteStore

__all__ = [
    "Append",
    "Appended",
    "EventStore",
    "JSONLStore",
    "MemoryStore",
    "PostgresStore",
    "ReadModelTable",
    "ReadModelTables",
    "RowChange",
    "SQLiteStore",
    "SessionRow",
    "Snapshot",
    "Snapshots",
    "Subscription",
    "open_store",
]


def __getattr__(name: str) -> object:
    # Loaded on demand: who keeps sessions in memory need not load eventsourcing, nor have psycopg.
    if name == "SQLiteStore":
        from .sqlite import SQLiteStore

        return SQLiteStore
    if name == "JSONLStore":
        from .jsonl import JSONLStore

        return JSONLStore
    if name == "PostgresStore":
        from .postgres import PostgresStore

        return PostgresStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
