"""What a store can't do."""

from __future__ import annotations

from .root import TurnstreamError


class StoreError(TurnstreamError):
    """The store could not do what was asked. Nothing was written."""

    code = "store"


class WrongExpectedVersion(StoreError):
    """The stream is at version ``actual``, not at ``expected``. Nothing was written."""

    code = "wrong-expected-version"

    def __init__(self, session_id: str, *, expected: int, actual: int) -> None:
        super().__init__(
            f"session {session_id!r} is at version {actual}, not {expected}: somebody else wrote "
            "to it; read it again and decide anew",
            session_id=session_id,
        )
        self.expected = expected
        self.actual = actual


class SessionDeleted(StoreError):
    """The session was deleted. Its id is not used again."""

    code = "session-deleted"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id!r} was deleted; choose another id", session_id=session_id
        )


class StoreBusy(StoreError):
    """Another writer held the store for longer than the busy timeout."""

    code = "store-busy"


class StoreUnavailable(StoreError):
    """The store can't be written or read now: full disk, read-only file, server away."""

    code = "store-unavailable"


class StoreClosed(StoreError):
    """The store was used after it was closed."""

    code = "store-closed"


class NotAStore(StoreError):
    """The address holds something that is no turnstream store, or is no address at all."""

    code = "not-a-store"


class StoreTooNew(StoreError):
    """The store was written by a newer turnstream."""

    code = "store-too-new"


class CorruptEvent(StoreError):
    """A stored event can't be read, or does not follow the one before it."""

    code = "corrupt-event"

    def __init__(self, message: str, *, session_id: str = "", version: int = 0) -> None:
        super().__init__(message, session_id=session_id)
        self.version = version
