"""A command on its way into a stream."""

from __future__ import annotations

from msgspec import Struct

from .commands import Command
from .draft import Decision
from .letters import Asker
from .recording import Known


class Attempt(Struct, frozen=True):
    """A command on its way into the stream, ``conflicts`` times in vain so far. ``silenced``: a
    model call that had shown nothing was cancelled for it. ``current``: the stream was read for
    it, up to its end."""

    command: Command
    asker: Asker | None = None
    silenced: bool = False
    conflicts: int = 0
    current: bool = False


class Commit(Struct, frozen=True):
    """An append under way, and what is ``known`` of the stream once it is done."""

    decision: Decision
    attempt: Attempt
    known: Known
