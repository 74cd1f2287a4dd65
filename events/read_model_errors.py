"""What can go wrong with a read model."""

from __future__ import annotations

from .errors import StoreError, TurnstreamError


class ReadModelMoved(StoreError):
    """The read model's table is at position ``actual``, not at ``expected``, or was replaced
    (``actual`` is None). Nothing was written."""

    code = "read-model-moved"

    def __init__(self, name: str, *, expected: int, actual: int | None) -> None:
        found = "was replaced" if actual is None else f"is at position {actual}, not {expected}"
        super().__init__(
            f"the table of read model {name!r} {found}: somebody else keeps it too; go on from "
            "where it is now"
        )
        self.name = name
        self.expected = expected
        self.actual = actual


class ReadModelTooNew(StoreError):
    """The read model's table was made by newer code than asks for it."""

    code = "read-model-too-new"

    def __init__(self, name: str, *, stored: int, fold: int) -> None:
        super().__init__(
            f"read model {name!r} was kept by newer code (fold {stored}, this is {fold}): run that "
            "code, or rebuild it with this one"
        )
        self.name = name
        self.stored = stored
        self.fold = fold


class ReadModelFailed(TurnstreamError):
    """A read model raised on an event. What came before the event's batch stays written. The
    cause is chained."""

    code = "read-model-failed"

    def __init__(
        self, name: str, error: Exception, *, position: int, session_id: str, version: int
    ):
        super().__init__(
            f"read model {name!r} raised {type(error).__name__} at position {position} (session "
            f"{session_id!r}, version {version}): mend its code and catch up again",
            session_id=session_id,
        )
        self.name = name
        self.position = position
        self.version = version
