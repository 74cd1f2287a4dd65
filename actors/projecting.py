"""Read models, kept: caught up from the log in batches, rebuilt, followed live.

A batch is one transaction: the rows that its events changed, and how far the log is read. It
counts only if the table is still where the batch began. So a batch that a crash or an interrupt
cut off was not there, and of two processes that keep the same table one goes on from what the
other wrote.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Condition, Event, RLock, Thread, current_thread
from typing import Generic, TypeAlias, TypeVar

from ..events.codec import CODEC
from ..events.envelope import StoredRecord
from ..events.errors import StoreBusy, StoreClosed, StoreError, StoreUnavailable
from ..events.read_model_errors import ReadModelFailed, ReadModelMoved, ReadModelTooNew
from ..events.rendering import well_formed
from ..projections import ReadModel
from ..stores import EventStore, ReadModelTable, Subscription
from .logging_context import log_failure
from .row_cache import CachedRows, row_decoder

R = TypeVar("R")

Progress: TypeAlias = Callable[[int, int], object]
"""Told after each batch how far the log is read, and where it ends. What it raises stops the
work between two batches, and what was done stays."""

BATCH = 1000
RETRY_SECONDS = 1.0

log: logging.Logger = logging.getLogger("turnstream")


class Projector(Generic[R]):
    """Keeps one read model in one store. Its methods may be called from any thread.

    Where the stored table was begun by an older ``fold`` of the model, catching up rebuilds it:
    the old rows can be read until the new ones take their place. ``batch`` is how many events make
    a transaction. Raises ``ValueError`` for a model without a name, or whose fold is below 1.
    """

    def __init__(self, store: EventStore, model: ReadModel[R], *, batch: int = BATCH) -> None:
        _check(model)
        self._store, self._model, self._batch = store, model, batch
        self._tables = store.read_models
        self._decode: Callable[[bytes], R] = row_decoder(model.row)
        self._work = RLock()
        self._kept: tuple[ReadModelTable, CachedRows[R]] | None = None
        self._changed = Condition()
        self._reached = 0
        self._closing = Event()
        self._log: Subscription | None = None
        self._thread: Thread | None = None
        self.failure: Exception | None = None

    @property
    def position(self) -> int:
        """How far the rows that can be read are; 0 where there are none yet."""
        table = self._tables.find(self._model.name)
        return 0 if table is None else table.position

    def get(self, key: str) -> R | None:
        """The row of that key, if there is one."""
        row = self._tables.get(self._model.name, key)
        return None if row is None else self._decode(row)

    def rows(self, prefix: str = "") -> list[tuple[str, R]]:
        """The rows whose keys begin so, in the order of the keys, as of one moment."""
        stored = self._tables.rows(self._model.name, prefix)
        return [(key, self._decode(row)) for key, row in stored]

    def catch_up(self, progress: Progress = lambda position, end: None) -> int:
        """Apply the events that came since, to the end of the log; the position then.

        Raises ``ReadModelFailed`` where the model raises on an event, ``CorruptEvent`` where one
        can't be read, ``ReadModelTooNew`` where newer code keeps the table, and the store's
        errors. Nothing of the batch at fault is written.
        """
        name, fold = self._model.name, self._model.fold
        with self._work:
            while True:
                table = self._tables.begin(name, fold)
                if table.fold > fold:
                    raise ReadModelTooNew(name, stored=table.fold, fold=fold)
                if table.fold < fold:
                    table = self._rebuilt(progress)
                read = self._read_on(table, progress)
                if read is not None:
                    return read.position

    def rebuild(self, progress: Progress = lambda position, end: None) -> int:
        """Make the rows anew from the whole log beside those there are, and put them in their
        place; the position then. A rebuild that was interrupted goes on where it stood.

        Raises what ``catch_up`` raises, but for ``ReadModelTooNew``.
        """
        with self._work:
            return self._rebuilt(progress).position

    def follow(self) -> Projector[R]:
        """Catch up, and then apply events as they come, on a thread of its own, until ``close``.
        What ends it early is logged, and is in ``failure``."""
        if self._thread is None:
            self._log = self._store.subscribe(after=self.position)
            self._thread = Thread(
                target=self._follow,
                args=(self._log,),
                name=f"turnstream-{self._model.name}",
                daemon=True,
            )
            self._thread.start()
        return self

    def wait(self, position: int, timeout: float | None = None) -> bool:
        """Wait until this projector has read up to ``position``, for at most ``timeout`` seconds
        and until it is closed; whether it has. Raises what ended ``follow``."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._reached >= position or self._closing.is_set(), timeout
            )
            if self.failure is not None and self._reached < position:
                raise self.failure
            return self._reached >= position

    def close(self) -> None:
        """Follow no longer, after the batch under way. May be called more than once."""
        self._end()
        if self._log is not None:
            self._log.close()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join()

    def __enter__(self) -> Projector[R]:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _rebuilt(self, progress: Progress) -> ReadModelTable:
        while True:
            table = self._tables.begin(self._model.name, self._model.fold, live=False)
            read = self._read_on(table, progress)
            try:
                if read is not None:
                    return self._reach(self._tables.swap(self._level(read)))
            except ReadModelMoved:
                pass
            live = self._tables.find(self._model.name)
            if live is not None and live.generation == table.generation:
                return live  # another process, which rebuilt it too, was the first

    def _level(self, rebuilt: ReadModelTable) -> ReadModelTable:
        """The table as far as the live one, which may have read events that were deleted since."""
        live = self._tables.find(self._model.name)
        if live is None or live.position <= rebuilt.position:
            return rebuilt
        if self._store.read_all(after=rebuilt.position, limit=1):
            return rebuilt
        return self._tables.advance(rebuilt, {}, live.position)

    def _read_on(self, table: ReadModelTable, progress: Progress) -> ReadModelTable | None:
        """The table when it has read the whole log; None where it is not ours any more, or
        another process went on with it."""
        table, rows = self._rows_of(table)
        end = self._tables.end()
        try:
            while records := self._store.read_all(after=table.position, limit=self._batch):
                self._apply(records, rows)
                table = self._tables.advance(table, rows.changes(), records[-1].position)
                rows.settle()
                end = max(end, table.position)
                self._reach(table)
                progress(table.position, end)
        except ReadModelMoved:
            return None
        self._kept = (table, rows)
        return self._reach(table)

    def _reach(self, table: ReadModelTable) -> ReadModelTable:
        if table.live:
            with self._changed:
                self._reached = table.position
                self._changed.notify_all()
        return table

    def _rows_of(self, table: ReadModelTable) -> tuple[ReadModelTable, CachedRows[R]]:
        """What is known of the rows, if nobody has written any since."""
        kept, self._kept = self._kept, None
        if kept is not None and kept[0] == table:
            return kept
        return table, CachedRows(self._tables, table.generation, self._decode)

    def _apply(self, records: Sequence[StoredRecord], rows: CachedRows[R]) -> None:
        apply, recorded = self._model.apply, CODEC.recorded
        for record in records:
            event = recorded(record)
            try:
                apply(event, rows)
            except StoreError:
                raise
            except Exception as error:
                raise ReadModelFailed(
                    self._model.name,
                    error,
                    position=event.position,
                    session_id=event.session_id,
                    version=event.version,
                ) from error

    def _follow(self, records: Subscription) -> None:
        try:
            self._keep_up()
            for record in records:
                if record.position > self._reached:
                    self._keep_up()
        except (_Closing, StoreClosed):
            pass
        except Exception as error:
            log_failure(log, error, {}, "read model %r is no longer kept", self._model.name)
            self.failure = error
        finally:
            self._end()

    def _keep_up(self) -> None:
        while True:
            try:
                self.catch_up(self._go_on)
            except (StoreBusy, StoreUnavailable):
                if self._closing.wait(RETRY_SECONDS):
                    raise _Closing from None
            else:
                return

    def _go_on(self, position: int, end: int) -> None:
        if self._closing.is_set():
            raise _Closing

    def _end(self) -> None:
        with self._changed:
            self._closing.set()
            self._changed.notify_all()


class _Closing(Exception):
    """The projector is to stop between two batches."""


def _check(model: ReadModel[R]) -> None:
    name, fold = model.name, model.fold
    if not (isinstance(name, str) and name and well_formed(name) == name):
        raise ValueError(f"a read model needs a name, not {name!r}")
    if not (isinstance(fold, int) and fold >= 1):
        raise ValueError(f"the fold of read model {name!r} is a number from 1 on, not {fold!r}")
