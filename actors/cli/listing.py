"""One line of output for each event and session."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from ...events.codec import CODEC
from ...events.envelope import StoredRecord
from ...events.errors import CorruptEvent
from ...events.session import AnyEvent
from ...stores import SessionRow
from .summaries import summary
from .text import printable, shortened, utc

_STYLES = {"turn": "bold", "model": "magenta", "tool": "green", "input": "cyan"}


def decoded(record: StoredRecord) -> AnyEvent | CorruptEvent:
    """The event, or why it can't be read."""
    try:
        return CODEC.decode(record.topic, record.payload)
    except CorruptEvent as error:
        return error


def event_line(record: StoredRecord, event: AnyEvent | CorruptEvent) -> Text:
    """Version, time, topic and a short summary."""
    line = Text(f"{record.version:>6}  ").append(f"{utc(_at(event))}  ", "dim")
    line.append(f"{shortened(record.topic, 40):<22}  ", _STYLES.get(record.topic.split("_")[0]))
    if isinstance(event, CorruptEvent):
        return line.append(printable(str(event)), "red")
    return line.append(shortened(summary(event)))


def session_table(rows: Iterable[SessionRow]) -> Table:
    """Sessions, one a line."""
    table = Table("id", "status", "agent", "version", "updated", box=None, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    table.columns[3].justify = "right"
    for row in rows:
        names = (printable(row.session_id), row.status, printable(row.agent))
        table.add_row(*map(Text, names), str(row.version), utc(row.updated))
    return table


def row_fields(row: SessionRow) -> dict[str, Any]:
    """A session's row, for programs."""
    return {
        "session_id": row.session_id,
        "status": row.status,
        "agent": row.agent,
        "tenant": row.tenant,
        "version": row.version,
        "created": row.created.isoformat(),
        "updated": row.updated.isoformat(),
    }


def _at(event: AnyEvent | CorruptEvent) -> datetime | None:
    return getattr(event, "at", None)
