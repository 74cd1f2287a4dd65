"""What adapters say in words, read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_ASKED = "Its JSON schema is: "


def asked_in_words(instructions: str) -> tuple[str, Mapping[str, Any] | None]:
    """The instructions, and the schema that they end with, where they do."""
    said, asked, schema = instructions.partition(_ASKED)
    if not asked:
        return instructions, None
    return said.rpartition("Your final answer is JSON")[0].rstrip(), json.loads(schema)
