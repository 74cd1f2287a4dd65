"""The key of a tool call. Pure."""

from __future__ import annotations

from hashlib import sha256


def idempotency_key(session_id: str, turn_id: str, call_id: str) -> str:
    """A key that is the same each time the call is run, and no other call's: ids of sessions and
    turns have no NUL."""
    named = f"{session_id}\0{turn_id}\0{call_id}".encode("utf-8", "surrogatepass")
    return sha256(named).hexdigest()[:32]
