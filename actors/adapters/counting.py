"""Tokens, as providers report them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def whole(counts: Mapping[str, Any], *path: str) -> int:
    """The number at ``path``; 0 where there is none that can be counted with."""
    found: object = counts
    for step in path:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if type(found) is int and found >= 0 else 0
