"""``with`` and ``async with`` for what is closed at the end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Self


class ClosedOnLeaving(ABC):
    """Closes itself where its block is left; an event loop is not blocked by that."""

    @abstractmethod
    def close(self) -> object:
        """Release everything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await asyncio.to_thread(self.close)
