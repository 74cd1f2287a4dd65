"""A few worker threads for any number of actors.

Actors that have messages stand in one line. A worker takes the first, lets it handle its share,
and takes the next; an actor that is not done goes to the end of the line.
"""

from __future__ import annotations

import logging
import time
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread, local
from typing import Protocol

log: logging.Logger = logging.getLogger("turnstream.dispatcher")

_here = local()


class Runnable(Protocol):
    """Something that has work for a worker."""

    def run(self, share: int) -> None:
        """Do at most ``share`` pieces of work. Never raises."""

    def refuse(self) -> None:
        """There is no worker any more, and will be none. Never raises."""


class Dispatcher:
    """Runs whatever stands in line on ``workers`` daemon threads, ``throughput`` messages a
    time. Workers bound how many handlers run at once, so handlers must not wait."""

    def __init__(self, workers: int = 4, throughput: int = 32) -> None:
        self._throughput = throughput
        self._line: SimpleQueue[Runnable | None] = SimpleQueue()
        self._lock = Lock()
        self._closing = self._ended = False
        self._threads = tuple(
            Thread(target=self._work, name=f"turnstream-worker-{number}", daemon=True)
            for number in range(1, workers + 1)
        )
        for thread in self._threads:
            thread.start()

    def execute(self, runnable: Runnable) -> None:
        """Put ``runnable`` in line. After ``shutdown`` it is refused instead."""
        self._line.put(runnable)
        # Looked at after the put: either it is seen here, or the sweep in shutdown sees the line.
        if self._ended:
            self._refuse_all()

    def shutdown(self, timeout: float) -> bool:
        """Run until the line is empty, for at most ``timeout`` seconds, and end the workers.

        What is still in line then, or comes later, is refused. False where a worker is held up
        in a handler; it ends when that returns. May be called from a worker.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            if not self._closing:
                self._closing = True
                self._line.put(None)
        others = [thread for thread in self._threads if thread is not current_thread()]
        for thread in others:
            thread.join(max(deadline - time.monotonic(), 0))
        self._ended = True
        self._refuse_all()
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        _here.is_worker = True
        while True:
            runnable = self._line.get()
            if runnable is not None:
                self._run(runnable)
            elif self._is_over():
                return
            del runnable  # an ended actor must not live on until this worker's next job

    def _run(self, runnable: Runnable) -> None:
        try:
            runnable.run(self._throughput)
        except BaseException:
            log.exception("a worker goes on after an error that no actor should let through")

    def _is_over(self) -> bool:
        """At the mark that ``shutdown`` put in line: whether nobody stands behind it."""
        over = self._ended or self._line.empty()
        self._line.put(None)  # for the other workers, or behind those who came meanwhile
        return over

    def _refuse_all(self) -> None:
        try:
            while True:
                if (runnable := self._line.get_nowait()) is not None:
                    runnable.refuse()
        except Empty:
            self._line.put(None)


def on_worker() -> bool:
    """Whether this thread is a dispatcher's worker, where a wait would hold up other actors."""
    return getattr(_here, "is_worker", False)
