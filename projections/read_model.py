"""Read models: what many sessions come to, kept as rows while the log is read.

A read model sees every event once, in the order of the log, and keeps its own rows. Where the
rows are kept, and in which batches the log is read, it does not know: it reads no clock and no
store, so that the same events always give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from ..events.envelope import RecordedEvent

R = TypeVar("R")


class Rows(Protocol[R]):
    """The rows of one read model, by key. A row is put anew where it changes: changing the
    object that ``get`` returned changes nothing that is kept."""

    def get(self, key: str) -> R | None:
        """The row of that key, if there is one."""
        ...

    def put(self, key: str, row: R) -> None:
        """Have this row for the key, in place of any other."""
        ...

    def remove(self, key: str) -> None:
        """Have no row for the key."""
        ...

    def prefixed(self, prefix: str = "") -> Iterable[tuple[str, R]]:
        """The rows whose keys begin so, in the order of the keys."""
        ...


class ReadModel(Protocol[R]):
    """How rows follow from events."""

    @property
    def name(self) -> str:
        """What its table is called. No two models on one store share a name."""
        ...

    @property
    def fold(self) -> int:
        """The number of its code, from 1. Raise it where the same events give other rows: the
        table is then rebuilt."""
        ...

    @property
    def row(self) -> Any:
        """The type of its rows, as msgspec decodes them from JSON: a Struct, a union of tagged
        ones, or ``Any`` for plain data."""
        ...

    def apply(self, event: RecordedEvent, rows: Rows[R]) -> None:
        """Change the rows as ``event`` asks for."""
        ...


class MemoryRows(Generic[R]):
    """Rows that are kept nowhere else."""

    def __init__(self) -> None:
        self._rows: dict[str, R] = {}

    def get(self, key: str) -> R | None:
        """The row of that key, if there is one."""
        return self._rows.get(key)

    def put(self, key: str, row: R) -> None:
        """Have this row for the key, in place of any other."""
        self._rows[key] = row

    def remove(self, key: str) -> None:
        """Have no row for the key."""
        self._rows.pop(key, None)

    def prefixed(self, prefix: str = "") -> list[tuple[str, R]]:
        """The rows whose keys begin so, in the order of the keys."""
        return sorted(
            ((key, row) for key, row in self._rows.items() if key.startswith(prefix)),
            key=lambda each: each[0],
        )


def project(model: ReadModel[R], events: Iterable[RecordedEvent]) -> MemoryRows[R]:
    """The rows after all of ``events``."""
    rows = MemoryRows[R]()
    for event in events:
        model.apply(event, rows)
    return rows
