"""The nodes of a store: processes that may own a turn, and whether one of them still lives.

Each system is a node. It says so in a table of the store when it begins, says every now and then
that it lives, and takes its row away when it ends. This saves wasted work and decides nothing:
whoever takes a turn from a node that lives after all is let by the stream's version, and the
other is fenced by it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from threading import Lock

from msgspec import MsgspecError, Struct
from msgspec.json import decode, encode

from ..events.errors import StoreError
from ..events.read_model_errors import ReadModelMoved
from ..events.terms import Owner
from ..projections import OpenTurn
from ..stores import EventStore

TABLE = "turnstream/nodes"
FOLD = 1
MAX_CONFLICTS = 100


class Node(Struct, frozen=True):
    """A node as the others see it: where its process is, and when it was last seen. ``lease`` is
    how many seconds after that it may be given up."""

    name: str
    host: str
    process: int
    born: str
    seen: datetime
    lease: float

    def lives(self, here: str, now: datetime) -> bool:
        """Whether it lives, as far as that can be seen from a host. A process that ended here is
        seen at once; one that was stopped, or is elsewhere, when its lease has run out."""
        if now - self.seen > timedelta(seconds=self.lease):
            return False
        return self.host != here or birth_of(self.process) == self.born


class Nodes:
    """A node's own row, and its view of the others. ``lease`` is in seconds; with 0 it counts
    every other node as lost, as in a store that one process at a time uses."""

    def __init__(
        self,
        store: EventStore,
        lease: float,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store, self._clock = store, clock
        self.lease: float = lease
        self._host = _this_host()
        self._lock = Lock()
        self.owner: Owner = Owner(store.next_generation(), token_hex(4))
        self.beat()

    def beat(self) -> None:
        """Say that this node lives."""
        me = Node(
            self.owner.node,
            self._host,
            os.getpid(),
            birth_of(os.getpid()),
            self._clock(),
            self.lease,
        )
        self._write({me.name: encode(me)})

    def leave(self) -> None:
        """Say that it lives no more, and clear away those that were lost."""
        with suppress(StoreError):
            now, forgotten = self._clock(), [self.owner.node]
            lost = [each for each in self._others() if not each.lives(self._host, now)]
            forgotten += [each.name for each in lost]
            self._write(dict.fromkeys(forgotten))

    def is_lost(self, owner: Owner) -> bool:
        """Whether a turn of that owner is nobody's by now."""
        if owner.node == self.owner.node:
            return False
        if not self.lease:
            return True
        stored = self._store.read_models.get(TABLE, owner.node)
        node = None if stored is None else _node(stored)
        return node is None or not node.lives(self._host, self._clock())

    def runs_elsewhere(self, turn: OpenTurn) -> bool:
        """Whether another node, which lives, runs the open turn."""
        if turn.owner.node == self.owner.node or turn.halt is not None or turn.is_paused:
            return False
        return not self.is_lost(turn.owner)

    def goes_on_elsewhere(self, turn: OpenTurn) -> bool:
        """``runs_elsewhere``, for who would take the turn: it is younger than a lost owner then."""
        elsewhere = self.runs_elsewhere(turn)
        if not elsewhere:
            self.rejuvenate(turn.owner)
        return elsewhere

    def alone(self) -> bool:
        """Whether no other node lives."""
        if not self.lease:
            return True
        now = self._clock()
        return not any(each.lives(self._host, now) for each in self._others())

    def rejuvenate(self, older: Owner) -> None:
        """Be younger than another owner, so that its turn may be taken."""
        with self._lock:
            if self.owner.generation < older.generation:
                self.owner = Owner(self._store.next_generation(), self.owner.node)

    def _others(self) -> list[Node]:
        rows = self._store.read_models.rows(TABLE)
        found = [_node(row) for name, row in rows if name != self.owner.node]
        return [each for each in found if each is not None]

    def _write(self, changes: dict[str, bytes | None]) -> None:
        tables = self._store.read_models
        for left in reversed(range(MAX_CONFLICTS)):
            table = tables.begin(TABLE, FOLD)
            try:
                tables.advance(table, changes, table.position + 1)
            except ReadModelMoved:
                if not left:
                    raise
            else:
                return


def birth_of(process: int) -> str:
    """What tells a process from a later one with its number; empty where it is gone or unknown."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return "" if _is_gone(process) else "unknown"
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]


def _is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return Path("/proc/self/stat").exists()


def _this_host() -> str:
    """The machine, since it was started, and its space of process numbers."""
    marks = [socket.gethostname()]
    with suppress(OSError):
        marks.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        marks.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(marks)


def _node(stored: bytes) -> Node | None:
    try:
        return decode(stored, type=Node)
    except MsgspecError:
        return None
