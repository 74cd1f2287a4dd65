"""Text that PostgreSQL can't hold, written so that it can: NUL, and halves of surrogate pairs.

All other text is stored as it is. Session ids are printable, and so never look any different.
"""

from __future__ import annotations

import re
from functools import lru_cache

_UNSTORABLE = re.compile("[\0\x1a\ud800-\udfff]")
_WRITTEN = re.compile("\x1a([0-9a-f]{4})")


@lru_cache(maxsize=4096)
def stored(text: str) -> str:
    """The text as it is stored."""
    return _UNSTORABLE.sub(lambda found: f"\x1a{ord(found[0]):04x}", text)


@lru_cache(maxsize=4096)
def restored(text: str) -> str:
    """The text that was stored so."""
    return _WRITTEN.sub(lambda found: chr(int(found[1], 16)), text)
