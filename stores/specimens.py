"""Appends, ids and threads to try a store with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from queue import SimpleQueue
from threading import Barrier, Thread
from typing import Any, TypeVar

from ..events.approvals import Approval
from ..events.envelope import EncodedEvent, StoredRecord
from ..events.session import Status
from .port import Append, RowChange

E = TypeVar("E", bound=Exception)

NOON = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
PATIENCE = 30.0
"""Seconds after which a test gives up waiting."""

ALIKE = (
    "a", "A", "a.fork-1", "a.turn-0", "a#history", "a/1", "a_b", "aXb", "a%", "%", "_", "*",
    "a b", " a", "a'", 'a"', "a;--", "a\\b", "C:x", "..", ".", "../x", "/etc/x", "a/../../b",
    "~", "%2e%2e", "nul", "ä", "a\u0308", "日本", "😀", "x" * 300,
)  # fmt: skip
NO_IDS = ("", "a\0b", "x\n", "\ud800", "\x1b[2J", "x" * 5000)


def event(text: str = "x", topic: str = "noted") -> EncodedEvent:
    """An event with this payload."""
    return EncodedEvent(topic, text.encode())


STRANGE: Sequence[Any] = (
    {"path": "a", "n": 2**70, "x": float("nan")},
    {"$key": [b"\0", "\ud83d"], "when": NOON},
    {},
)


def approval(number: int, arguments: dict[str, Any]) -> Approval:
    """A decision that a session waits for."""
    place = f"s/turn-1.1.{number}"
    return Approval(place, "s", "turn-1", f"c{number}", "remove", arguments, NOON)


def append_of(
    session_id: str,
    expected_version: int,
    *texts: str,
    status: Status = "idle",
    agent: str = "planner",
    tenant: str = "",
    at: datetime = NOON,
) -> Append:
    """An append of one event for each text."""
    events = tuple(event(text) for text in texts)
    return Append(session_id, expected_version, events, RowChange(status, agent, at, tenant))


def texts(records: Sequence[StoredRecord]) -> list[str]:
    """The payloads, as text."""
    return [record.payload.decode() for record in records]


def take(count: int, records: Iterable[StoredRecord]) -> list[StoredRecord]:
    """The next so many records, and not one more."""
    return list(islice(records, count))


def following(records: Iterable[StoredRecord]) -> SimpleQueue[StoredRecord | None]:
    """The records as another thread iterates over them, and None when they end."""
    read = SimpleQueue[StoredRecord | None]()

    def follow() -> None:
        for record in records:
            read.put(record)
        read.put(None)

    Thread(target=follow, daemon=True).start()
    return read


def refusal(kind: type[E], call: Callable[..., object], *args: object) -> E:
    """The error of this kind that the call raises."""
    try:
        call(*args)
    except kind as error:
        return error
    raise AssertionError(f"the call did not raise {kind.__name__}")


def together(count: int, work: Callable[[int], object]) -> None:
    """Run ``work(0)`` to ``work(count - 1)`` in threads that begin at the same moment."""
    begin, failures = Barrier(count), SimpleQueue[BaseException]()

    def run(number: int) -> None:
        begin.wait(PATIENCE)
        try:
            work(number)
        except BaseException as failure:
            failures.put(failure)

    threads = [Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    if not failures.empty():
        raise failures.get()
