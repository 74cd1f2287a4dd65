"""Sessions on their way out: their streams as they are stored, and their conversations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..events.approvals import Approval
from ..events.chain import digest, verify
from ..events.codec import CODEC
from ..events.envelope import StoredRecord
from ..events.errors import CorruptEvent, SessionNotFound
from ..events.messages import Message
from ..projections import Course, course
from ..stores import EventStore, SessionRow
from .archive import Archive, archive_lines
from .chat_format import json_object, written_message

PAGE = 1000


def export_events(store: EventStore, *session_ids: str) -> Iterator[bytes]:
    """Whole sessions as the lines of a file: JSON, one line an event, each with its digest.

    ``import_events`` gives the very same streams back. Raises ``SessionNotFound``, and
    ``CorruptEvent`` where a stream's chain does not hold, in both cases before any line of that
    session.
    """
    for number, session_id in enumerate(session_ids, 1):
        row = existing_row(store, session_id)
        records = read_stream(store, row)
        last = records[-1]
        head = row.head or digest(last.topic, last.version, last.payload)
        if fault := verify(records, head):
            raise CorruptEvent(
                f"session {session_id!r}, version {fault.version} is {fault.reason}: restore it "
                "from a backup, or export its conversation",
                session_id=session_id,
                version=fault.version,
            )
        yield from archive_lines(Archive(0, session_id, records, head, number, len(session_ids)))


def export_chat(store: EventStore, session_id: str) -> dict[str, Any]:
    """A session's conversation in OpenAI chat format: its ``id``, its ``messages``, the agent's
    instructions first, and the ``approvals`` it waits for, if it does.

    An unfinished turn is part of it. ``import_transcript`` makes the same conversation of the
    messages. Raises ``SessionNotFound`` and ``CorruptEvent``.
    """
    found = session_course(store, session_id)
    configured = found.state.configured
    instructions = configured.instructions if configured is not None else ""
    document: dict[str, Any] = {
        "id": session_id,
        "messages": chat_messages(found.messages, instructions),
    }
    if waiting := found.state.approvals(session_id):
        document["approvals"] = list(map(written_approval, waiting))
    return document


def chat_messages(messages: Iterable[Message], instructions: str = "") -> list[dict[str, Any]]:
    """Messages in OpenAI chat format, after the instructions, if there are any."""
    first = [{"role": "system", "content": instructions}] if instructions else []
    return [*first, *map(written_message, messages)]


def written_approval(approval: Approval) -> dict[str, Any]:
    """A question, as JSON has it; its arguments as those of a call."""
    return {
        "id": approval.id,
        "call_id": approval.call_id,
        "tool": approval.tool,
        "arguments": json_object(approval.arguments),
        "reason": approval.reason,
        "requested_at": approval.requested_at.isoformat(),
    }


def session_course(store: EventStore, session_id: str) -> Course:
    """A session, and how it came to be. Raises ``SessionNotFound`` and ``CorruptEvent``."""
    records = read_stream(store, existing_row(store, session_id))
    return course(CODEC.recorded(record).event for record in records)


def existing_row(store: EventStore, session_id: str) -> SessionRow:
    """The session's row. Raises ``SessionNotFound`` and ``InvalidSessionId``."""
    if (row := store.session(session_id)) is None:
        raise SessionNotFound(f"there is no session {session_id!r}", session_id=session_id)
    return row


def read_stream(store: EventStore, row: SessionRow) -> Sequence[StoredRecord]:
    """The session's events up to the version of its row."""
    records: list[StoredRecord] = []
    for after in range(0, row.version, PAGE):
        records += store.read(row.session_id, after=after, upto=min(after + PAGE, row.version))
    return records
