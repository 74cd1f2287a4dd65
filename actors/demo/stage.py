"""The parent process: it starts the workers, kills the first, and follows the log meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from threading import Thread, Timer
from typing import NamedTuple
from urllib.parse import quote

from ...events.codec import CODEC
from ...events.envelope import StoredRecord
from ...projections import INITIAL, Running, SessionState, Settled, evolve
from ...stores import EventStore, Subscription
from .calls import CallLog
from .desk import OrderDesk
from .recording import HELD_CALL
from .verdict import Check, Evidence, judge

WORKER_SECONDS = 60.0


class Told(NamedTuple):
    """Something that happened to a worker."""

    text: str


class Stage:
    """One performance on ``store``, at ``store_url``; data set and logs lie in ``folder``."""

    def __init__(self, store: EventStore, store_url: str, folder: Path) -> None:
        self._store, self._url, self._folder = store, store_url, folder
        self.session_id: str = f"demo-{token_hex(4)}"
        self._desk = OrderDesk(folder / "orders.db")
        self._log = CallLog(folder / "calls.jsonl")
        self._position = 0

    def perform(self) -> Generator[StoredRecord | Told, None, None]:
        """Run the session in a worker, kill it within a call, go on in another worker: the
        session's events as they land, and what happens to the workers. Close it to end early."""
        self._desk.set_up()
        self._position = _last_position(self._store)
        yield Told("an order desk's agent gets a request; its process is to be killed in a refund")
        with self._worker("--hold", HELD_CALL) as first:
            yield Told(f"worker {first.pid} begins the session")
            yield from self._until_killed(first)
        with self._worker() as second:
            yield Told(f"worker {second.pid} resumes the session")
            yield from self._follow(second)
        if second.returncode != 0:
            yield self._failure(second)

    def _until_killed(self, worker: subprocess.Popen[str]) -> Iterator[StoredRecord | Told]:
        state = INITIAL
        for record in self._follow(worker):
            yield record
            state = evolve(state, CODEC.decode(record.topic, record.payload))
            if _only_the_held_call_runs(state) and _is_held(worker):
                worker.kill()
                yield Told(f"worker {worker.pid} is killed within {HELD_CALL}, after its write")
                return
        yield self._failure(worker)

    def judge(self) -> list[Check]:
        """What the stream, the data set and the log of calls say, compared."""
        records = self._store.read(self.session_id)
        return judge(Evidence(records, self._log.read(), self._desk.refunds()))

    @contextmanager
    def _worker(self, *options: str) -> Iterator[subprocess.Popen[str]]:
        module = f"{__package__}.worker"
        place = (self._url, self.session_id, str(self._folder))
        with (
            (self._folder / "worker.log").open("ab") as log,
            subprocess.Popen(  # noqa: S603 - our own interpreter, and no shell
                [sys.executable, "-P", "-m", module, *place, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # An interrupt by the keyboard is the parent's to handle.
                start_new_session=True,
            ) as worker,
        ):
            deadline = Timer(WORKER_SECONDS, worker.kill)
            deadline.start()
            try:
                yield worker
            finally:
                deadline.cancel()
                worker.kill()

    def _follow(self, worker: subprocess.Popen[str]) -> Iterator[StoredRecord]:
        """The session's events as they land, until the worker ended."""
        with self._store.subscribe(after=self._position) as log:
            Thread(target=_close_with, args=(worker, log), daemon=True).start()
            yield from self._own(log)
        while records := self._store.read_all(after=self._position):
            yield from self._own(records)

    def _own(self, records: Iterable[StoredRecord]) -> Iterator[StoredRecord]:
        for record in records:
            self._position = record.position
            if record.session_id == self.session_id:
                yield record

    def _failure(self, worker: subprocess.Popen[str]) -> Told:
        said = (self._folder / "worker.log").read_text("utf-8", "replace").splitlines()
        return Told(f"worker {worker.pid} failed: {said[-1] if said else 'it said nothing'}")


def own_store(folder: Path) -> str:
    """The address of a store of the demo's own, in ``folder``."""
    return "sqlite:///" + quote(os.fspath(folder / "sessions.db"), safe="/\\:")


def _close_with(worker: subprocess.Popen[str], log: Subscription) -> None:
    worker.wait()
    log.close()


def _only_the_held_call_runs(state: SessionState) -> bool:
    calls = state.turn.calls if state.turn else ()
    open_calls = [each for each in calls if not isinstance(each.stage, Settled)]
    return [each.call.id for each in open_calls] == [HELD_CALL] and isinstance(
        open_calls[0].stage, Running
    )


def _is_held(worker: subprocess.Popen[str]) -> bool:
    """Wait until the held call has written and says so; false where the worker ended first."""
    assert worker.stdout is not None
    return worker.stdout.readline().strip() == HELD_CALL


def _last_position(store: EventStore) -> int:
    """Found by halving: the log may be long."""
    low, high = 0, 1
    while store.read_all(after=high, limit=1):
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        if store.read_all(after=middle, limit=1):
            low = middle + 1
        else:
            high = middle
    return high
