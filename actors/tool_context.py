"""What a tool learns of the call that it serves."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec


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
    state: Any
    _is_cancelled: Callable[[], bool] = lambda: False

    @property
    def cancelled(self) -> bool:
        """Whether the turn no longer wants the result: a long loop may look and stop."""
        return self._is_cancelled()


def idempotency_key(session_id: str, turn_id: str, call_id: str) -> str:
    """A key that is the same each time the call is run, and no other call's."""
    named = f"{session_id}\0{turn_id}\0{call_id}".encode("utf-8", "surrogatepass")
    return sha256(named).hexdigest()[:32]
