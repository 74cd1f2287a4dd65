"""A digest of what a durable step was called with, by which it is known again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from .tagged import tag
from .values import plain


def arguments_digest(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A digest that changes with any of the arguments, and not with the order of keys.

    Raises ``Unstorable``, with the path to the piece, for an argument that is no plain data."""
    given = [
        [tag(plain(each, f"args[{place}]")) for place, each in enumerate(args)],
        {name: tag(plain(each, f"kwargs.{name}")) for name, each in kwargs.items()},
    ]
    return sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:32]
