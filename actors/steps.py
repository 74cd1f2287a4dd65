"""Durable steps: functions run once and recorded, and answered from the record from then on.

The same for a tool's call and for a journal's run; where a step is recorded is the business of a
``StepRecorder``. Steps are numbered as they are taken, so whoever runs anew finds them at the same
numbers. One that has a key of its own has no number, and is found by its key wherever it is taken;
with other arguments that key is a mistake, and nothing is run.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, Protocol

from msgspec.structs import replace

from ..events.errors import StepConflict, StepRefused, Unstorable
from ..events.fingerprints import arguments_digest
from ..events.frozen import thawed
from ..events.values import is_light, plain
from ..projections import TakenStep

log: logging.Logger = logging.getLogger("turnstream")

OTHER_PATH = "%s: step %d is not the one recorded there: it is run, and recorded in its place"


class StepRecorder(Protocol):
    """Where the steps of a call or a run are recorded."""

    @property
    def where(self) -> str:
        """The call or run, named by its ids."""
        ...

    def check(self) -> None:
        """Raise where nothing more is to be taken, or could be recorded."""

    def record(self, step: TakenStep) -> None:
        """Return when the step is durable, or raise."""

    async def record_async(self, step: TakenStep) -> None:
        """The same, for event loops."""


_taking: ContextVar[tuple[Steps, ...]] = ContextVar("taking", default=())


class Steps:
    """The steps of one call or run, those that were ``taken`` before among them."""

    def __init__(
        self,
        taken: Iterable[TakenStep],
        recorder: StepRecorder,
        *,
        call_id: str = "",
        scope: str = "",
    ) -> None:
        self._recorder, self._call_id, self._scope = recorder, call_id, scope
        self._taken = {_place(each): each for each in taken if each.scope == scope}
        self._lock = Lock()
        self._last = 0
        self._busy: set[str] = set()

    def wanted(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], key: str | None
    ) -> TakenStep:
        """The step that is to be taken now. Raises ``Unstorable`` for what can't be told again,
        and ``StepRefused`` where it would have no number of its own."""
        _check_text(name, "name")
        if key is not None:
            _check_text(key, "idempotency_key")
        digest = arguments_digest(args, kwargs)
        position = 0 if key else self._next()
        return TakenStep(self._call_id, name, digest, None, position, key or "", self._scope)

    def run(self, wanted: TakenStep, fn: Callable[[], Any]) -> Any:
        """The recorded value of the step, or that of ``fn``, recorded."""
        with self._returning(wanted), self._alone(wanted.key):
            if (step := self._found(wanted)) is None:
                self._recorder.check()
                with self._within():
                    value = fn()
                if inspect.isawaitable(value):
                    raise _is_async(value, wanted)
                step = replace(wanted, value=plain(value))
                self._recorder.record(step)
                self._keep(step)
            return thawed(step.value)

    async def run_async(self, wanted: TakenStep, fn: Callable[[], Any]) -> Any:
        """The same, where ``fn`` may give an awaitable."""
        with self._returning(wanted), self._alone(wanted.key):
            if (step := self._found(wanted)) is None:
                self._recorder.check()
                with self._within():
                    value = fn()
                    if inspect.isawaitable(value):
                        value = await value
                step = replace(wanted, value=await _off_loop(plain, value))
                await self._recorder.record_async(step)
                self._keep(step)
            return await _off_loop(thawed, step.value)

    def stream(self, wanted: TakenStep, fn: Callable[[], Any]) -> Iterator[Any]:
        """The items that were recorded of the step, or those of ``fn`` as they come, recorded
        when there are no more."""
        with self._alone(wanted.key):
            if (step := self._found(wanted)) is not None:
                yield from thawed(step.value)
                return
            self._recorder.check()
            items: list[Any] = []
            with self._returning(wanted), self._within():
                source = _iterator(fn())
            while True:
                with self._returning(wanted), self._within():
                    try:
                        item = plain(next(source), f"items[{len(items)}]")
                    except StopIteration:
                        break
                items.append(item)
                yield thawed(item)
            with self._returning(wanted):
                step = replace(wanted, value=plain(items, "items"))
                self._recorder.record(step)
            self._keep(step)

    async def stream_async(self, wanted: TakenStep, fn: Callable[[], Any]) -> AsyncIterator[Any]:
        """The same, where ``fn`` may give an async iterator, or an awaitable of one."""
        with self._alone(wanted.key):
            if (step := self._found(wanted)) is not None:
                for item in await _off_loop(thawed, step.value):
                    yield item
                return
            self._recorder.check()
            items: list[Any] = []
            with self._returning(wanted), self._within():
                source = await _async_iterator(fn())
            while True:
                with self._returning(wanted), self._within():
                    try:
                        item = await _off_loop(plain, await anext(source), f"items[{len(items)}]")
                    except StopAsyncIteration:
                        break
                items.append(item)
                yield thawed(item)
            with self._returning(wanted):
                step = replace(wanted, value=await _off_loop(plain, items, "items"))
                await self._recorder.record_async(step)
            self._keep(step)

    def refuse_within(self) -> None:
        """Raise ``StepRefused`` inside of a step: when that is recorded, nothing inside of it
        runs, and whatever is numbered after it would have another number."""
        if self in _taking.get():
            raise StepRefused(
                f"{self._recorder.where}: inside of a step another one needs an idempotency_key, "
                "and no run begins; take the steps one after the other"
            )

    def _next(self) -> int:
        self.refuse_within()
        with self._lock:
            self._last += 1
            return self._last

    @contextmanager
    def _returning(self, wanted: TakenStep) -> Iterator[None]:
        """A step that came to nothing gives its number back, so that it can be tried again under
        it; unless others were begun meanwhile."""
        try:
            yield
        except Exception:
            with self._lock:
                if wanted.position and wanted.position == self._last:
                    self._last -= 1
            raise

    @contextmanager
    def _within(self) -> Iterator[None]:
        outside = _taking.set((*_taking.get(), self))
        try:
            yield
        finally:
            _taking.reset(outside)

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """See to it that one at a time takes the step with that key."""
        if not key:
            yield
            return
        with self._lock:
            busy = key in self._busy
            self._busy.add(key)
        if busy:
            raise StepRefused(
                f"{self._recorder.where}: a step with the same idempotency_key is under way; "
                "take them one after the other"
            )
        try:
            yield
        finally:
            self._busy.discard(key)

    def _found(self, wanted: TakenStep) -> TakenStep | None:
        found = self._taken.get(_place(wanted))
        if found is None:
            return None
        same_arguments = found.arguments_digest == wanted.arguments_digest
        if wanted.key and not same_arguments:
            raise StepConflict(
                f"{self._recorder.where}: the step of this idempotency_key was recorded with other "
                "arguments, and stays as it is: take it with the same ones, or with another key",
                call_id=wanted.call_id,
            )
        if same_arguments and (wanted.key or found.name == wanted.name):
            return found
        log.warning(OTHER_PATH, self._recorder.where, wanted.position)
        return None

    def _keep(self, step: TakenStep) -> None:
        self._taken[_place(step)] = step


async def _off_loop(copied: Callable[..., Any], value: Any, *args: str) -> Any:
    """What ``copied`` makes of a value, on a thread where that keeps the loop."""
    if is_light(value):
        return copied(value, *args)
    return await asyncio.to_thread(copied, value, *args)


def _place(step: TakenStep) -> str | int:
    return step.key or step.position


def _check_text(value: object, what: str) -> None:
    if not isinstance(value, str) or not value:
        raise Unstorable(f"{what} is a text that is not empty; give the step one", path=what)


def _is_async(value: Any, wanted: TakenStep) -> StepRefused:
    if inspect.iscoroutine(value):
        value.close()
    return StepRefused(
        "the function of the step is async, and its caller is not: make the tool async, or the "
        "function not",
        call_id=wanted.call_id,
    )


def _iterator(items: Any) -> Iterator[Any]:
    if isinstance(items, Iterable):
        return iter(items)
    raise _no_items(items)


async def _async_iterator(items: Any) -> AsyncIterator[Any]:
    if inspect.isawaitable(items):
        items = await items
    if hasattr(items, "__aiter__"):
        return aiter(items)
    return _each(_iterator(items))


async def _each(items: Iterator[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


def _no_items(items: object) -> StepRefused:
    return StepRefused(
        f"the function of a streamed step gives an iterator, not {type(items).__name__}; an async "
        "one only in async code"
    )
