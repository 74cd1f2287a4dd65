"""What a tool learns of the call that it serves."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from .call_state import CallState


class ToolContext(msgspec.Struct, frozen=True):
    """What a tool can learn of the call it serves, as its first parameter.

    ``idempotency_key`` is the same each time the call is run again, and differs in a fork: hand
    it to services that recognise a repeated request. ``attempt`` counts the runs from 1.
    """

    session_id: str
    turn_id: str
    call_id: str
    idempotency_key: str
    attempt: int
    _state: CallState
    _is_cancelled: Callable[[], bool] = lambda: False
    _is_async: bool = False

    @property
    def cancelled(self) -> bool:
        """Whether the turn no longer wants the result: a long loop may look and stop."""
        return self._is_cancelled()

    @property
    def state(self) -> Any:
        """The application's own state: as it was when the call began, and since the call changed
        it, as it was then. It can't be changed in place."""
        return self._state.value

    def set_state(self, value: Any) -> Any:
        """Give the application's own state another value: any plain data, or a function that makes
        it from the value there is. A function is called again where another call was faster, so
        none of their changes is lost.

        In a sync tool it blocks until the change is durable, and returns the value as it was
        stored. In an async tool it is to be awaited. A change stays, whatever becomes of the call:
        a call that is run again after a crash reads it.

        Raises ``Unstorable``, with the path to the piece, where the value is no plain data,
        ``StateRefused`` where the call has ended or is no longer wanted, ``TurnTakenOver`` where
        another node has the turn, and the store's errors.
        """
        if self._is_async:
            return self._state.change_async(value)
        return self._state.change(value)


def idempotency_key(session_id: str, turn_id: str, call_id: str) -> str:
    """A key that is the same each time the call is run, and no other call's."""
    named = f"{session_id}\0{turn_id}\0{call_id}".encode("utf-8", "surrogatepass")
    return sha256(named).hexdigest()[:32]
