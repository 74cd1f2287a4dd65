"""What other nodes do, noticed: the log followed, and the actors concerned told.

A node that is alone follows nothing. Where others live, or callers here wait for what another
node does, one thread reads the log and wakes the live actors that it is about, until this node is
alone again. Once a second those who wait are woken in any case: a node that is lost writes nothing.
"""

from __future__ import annotations

import logging
from threading import Event, Lock, Thread

from ..events.errors import StoreError
from ..stores import EventStore, Subscription
from .directory import Directory
from .letters import Heed
from .nodes import Nodes

log: logging.Logger = logging.getLogger("turnstream")

ROUND_SECONDS = 1.0
BEATS_A_LEASE = 3


class Follower:
    """Keeps a node's row fresh, and its actors up to date with the other nodes."""

    def __init__(self, store: EventStore, nodes: Nodes, directory: Directory[str]) -> None:
        self._store, self._nodes, self._directory = store, nodes, directory
        self._lock = Lock()
        self._waiting: set[str] = set()
        self._log: Subscription | None = None
        self._reader: Thread | None = None
        self._closing = Event()
        self._rounds = Thread(target=self._go_round, name="turnstream-node", daemon=True)
        if nodes.lease:
            self._rounds.start()

    def await_others(self, session_id: str, *, waits: bool) -> None:
        """Note whether callers of a session wait for what another node does."""
        if waits:
            self._waiting.add(session_id)
            self._follow()
        else:
            self._waiting.discard(session_id)

    def close(self) -> None:
        """Follow no more, and tell the others that this node is gone."""
        self._closing.set()
        with self._lock:
            if self._log is not None:
                self._log.close()
        for thread in (self._reader, self._rounds):
            if thread is not None and thread.is_alive():
                thread.join(ROUND_SECONDS)
        self._nodes.leave()

    def _follow(self) -> None:
        with self._lock:
            if self._reader is not None or self._closing.is_set():
                return
            self._log = self._store.subscribe(after=self._store.read_models.end())
            self._reader = Thread(
                target=self._read, args=(self._log,), name="turnstream-follower", daemon=True
            )
            self._reader.start()

    def _rest(self) -> None:
        with self._lock:
            if self._waiting:
                return
            events, reader = self._log, self._reader
            self._log = self._reader = None
        if events is not None and reader is not None:
            events.close()
            reader.join(ROUND_SECONDS)

    def _read(self, events: Subscription) -> None:
        self._wake(self._directory.live())  # for what was written before
        try:
            for record in events:
                self._directory.put(record.session_id, Heed(record.version))
        except StoreError as error:
            log.warning("other nodes are not followed until the next round: %s", error.code)
        with self._lock:
            if self._log is events:
                self._reader = self._log = None

    def _go_round(self) -> None:
        beat = rounds = max(int(self._nodes.lease / BEATS_A_LEASE / ROUND_SECONDS), 1)
        while not self._closing.wait(min(ROUND_SECONDS, self._nodes.lease / BEATS_A_LEASE)):
            rounds -= 1
            try:
                if not rounds:
                    rounds = beat
                    self._nodes.beat()
                if self._waiting or not self._nodes.alone():
                    self._follow()
                else:
                    self._rest()
            except StoreError as error:
                log.warning("this node could not say that it lives: %s", error.code)
            self._wake(list(self._waiting))

    def _wake(self, sessions: list[str]) -> None:
        for session_id in sessions:
            self._directory.put(session_id, Heed())
