"""Threads for user code that blocks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread

from .logging_context import log_failure

log: logging.Logger = logging.getLogger("turnstream.effects")

_IDLE_SECONDS = 30.0


class DaemonPool:
    """At most ``max_threads`` threads, made when no other is free and ended when idle for long.

    Daemon threads, which a process does not wait for when it ends: a function that never returns
    would keep it alive.
    """

    def __init__(self, max_threads: int) -> None:
        self._max, self._made = max_threads, 0
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._threads: set[Thread] = set()
        self._spare = 0  # threads that are free, less jobs that wait for one
        self._lock = Lock()
        self._closed = False

    def submit(self, job: Callable[[], object]) -> None:
        """Run ``job`` on a thread. Raises ``RuntimeError`` once the pool is closed, and where
        the first thread can't be started."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if self._spare <= 0 and len(self._threads) < self._max:
                self._add_thread()
            self._spare -= 1
            self._jobs.put(job)

    def close(self, timeout: float) -> bool:
        """End the threads, each when its job has returned. False where that takes longer than
        ``timeout`` seconds."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        for _ in threads:
            self._jobs.put(None)
        deadline = time.monotonic() + timeout
        others = [thread for thread in threads if thread is not current_thread()]
        for thread in others:
            thread.join(max(deadline - time.monotonic(), 0))
        return not any(thread.is_alive() for thread in threads)

    def _add_thread(self) -> None:
        self._made += 1
        thread = Thread(target=self._work, name=f"turnstream-call-{self._made}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads for us
            if not self._threads:
                raise
        else:
            self._threads.add(thread)
            self._spare += 1

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except BaseException as error:
                log_failure(log, error, {}, "a thread goes on after an error of its job")
            del job
            with self._lock:
                self._spare += 1

    def _next(self) -> Callable[[], object] | None:
        while True:
            try:
                return self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                if self._retires():
                    return None

    def _retires(self) -> bool:
        with self._lock:
            retires = self._spare > 0
            if retires:
                self._spare -= 1
                self._threads.discard(current_thread())
            return retires
