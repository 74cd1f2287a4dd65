"""What the suites for stores have in common."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import ClassVar
from unittest import SkipTest

from .port import EventStore


class StoreCase:
    """How a suite opens the store it is about.

    ``durable`` says whether opening with the same ``tmp_path`` again, also while it is open,
    gives the same streams.
    """

    durable: ClassVar[bool]

    def open_store(self, tmp_path: Path) -> EventStore:
        """Open the store that lives in this directory."""
        raise NotImplementedError

    def store(self, tmp_path: Path) -> closing[EventStore]:
        """The store, closed in the end."""
        return closing(self.open_store(tmp_path))

    def needs_durability(self) -> None:
        if not self.durable:
            raise SkipTest("the store does not outlive its process")
