"""What a session's actor can be sent."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from ..events.errors import StoreError
from ..stores.port import Appended
from .calls import Call
from .commands import Command, LateCommand
from .removing import Removal
from .turns import Turn
from .waiting import Promise

Asker: TypeAlias = Turn | Promise[Any]
"""Whom a command is answered to: the handle of a turn, or who wants to know what was done."""


class Asked(Struct, frozen=True):
    """A caller's request. ``agent`` and ``tenant`` count where the session does not exist yet."""

    command: Command | LateCommand | Removal
    asker: Asker
    agent: str
    tenant: str = ""


class Completed(Struct, frozen=True):
    """An effect came back. ``cause`` is the exception it raised, if any."""

    command: Command
    call: Call
    cause: BaseException | None = None


class Committed(Struct, frozen=True):
    """The append under way ended."""

    outcome: Appended | StoreError


class Drain(Struct, frozen=True):
    """Let running steps be recorded, start nothing more, and stop; ``now``: interrupt them."""

    now: bool


class IdleFor(Struct, frozen=True):
    """Nothing came for the idle time: stop, unless something is under way."""


class Heed(Struct, frozen=True):
    """Others may have written to the stream, up to ``version`` (0: nobody knows), or be lost."""

    version: int = 0


Message: TypeAlias = Asked | Completed | Committed | Drain | IdleFor | Heed
