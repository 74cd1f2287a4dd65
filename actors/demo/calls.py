"""The log of what was really called: by the model's side and the tools' side, not the stream's.

Each call is one line, written before the call is carried out, to a file that all workers share.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.json import Decoder, encode


class ModelAsked(Struct, frozen=True, tag="model"):
    """Process ``pid`` asked the model."""

    pid: int
    turn_id: str
    step: int


class ToolRan(Struct, frozen=True, tag="tool"):
    """Process ``pid`` ran a tool."""

    pid: int
    call_id: str
    idempotency_key: str
    attempt: int


Called: TypeAlias = ModelAsked | ToolRan

_read = Decoder(Called).decode


class CallLog:
    """The log in the file at ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, called: Called) -> None:
        """Log a call, in a way that a kill of this process leaves it whole."""
        log = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(log, encode(called) + b"\n")
        finally:
            os.close(log)

    def read(self) -> Sequence[Called]:
        """All calls, in the order they were made."""
        if not self._path.exists():
            return []
        return [_read(line) for line in self._path.read_bytes().splitlines()]
