"""What code that is run by a journal gets: the run that it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any

from ..projections import TakenStep
from .models import is_async
from .run_stream import RunStream
from .steps import Steps
from .tool_context import idempotency_key
from .waiting import refuse_to_block


class JournalRun:
    """A run, or a run nested in one: takes durable steps.

    In sync code each of its methods blocks; in async code it is to be awaited, or, for
    ``step_stream``, read with ``async for``.
    """

    def __init__(self, stream: RunStream, scope: str, *, is_async: bool) -> None:
        self._stream, self._scope, self._is_async = stream, scope, is_async
        self._steps = Steps(stream.taken, stream, scope=scope)

    @property
    def run_id(self) -> str:
        """Which run this is."""
        return self._stream.run_id

    @property
    def epoch(self) -> int:
        """How many runs of this id have begun, with this one; the first is 1."""
        return self._stream.epoch

    @property
    def idempotency_key(self) -> str:
        """The same whenever this epoch of the run is gone on with, and no other's: for services
        that recognise a repeated request, with the name of the step."""
        return idempotency_key(self.run_id, self._stream.turn_id, self._scope)

    def step(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run ``fn`` once, and record what it returns: when the run is gone on with, the value
        comes from the record and ``fn`` is not run. See ``ToolContext.step``.

        Raises ``Unstorable``, ``StepConflict`` for a key that was used with other arguments,
        ``StepRefused`` where the run is over or the step would not be found again,
        ``TurnTakenOver`` where another process has the run, and the store's errors.
        """
        wanted = self._wanted(name, args, kwargs, idempotency_key)
        return self._run(wanted, partial(fn, *args, **kwargs))

    def step_stream(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """``step`` for a function that gives an iterator; recorded when there are no more items.
        See ``ToolContext.step_stream``."""
        wanted = self._wanted(name, args, kwargs, idempotency_key)
        stream = self._steps.stream_async if self._is_async else self._steps.stream
        return stream(wanted, partial(fn, *args, **kwargs))

    def run(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """A nested run: ``fn`` gets a ``JournalRun`` of its own before ``args``. It is a step of
        this run, whose own steps are recorded as they are taken. Raises as ``step``."""
        wanted = self._wanted(name, args, kwargs, idempotency_key)

        def nested() -> Any:
            inner = JournalRun(self._stream, _scope_within(wanted), is_async=is_async(fn))
            return fn(inner, *args, **kwargs)

        return self._run(wanted, nested)

    def _wanted(self, name: str, args: Any, kwargs: Any, key: str | None) -> TakenStep:
        if not self._is_async:
            refuse_to_block(self.run_id)
        return self._steps.wanted(name, args, kwargs, key)

    def _run(self, wanted: TakenStep, fn: Callable[[], Any]) -> Any:
        return (self._steps.run_async if self._is_async else self._steps.run)(wanted, fn)


def _scope_within(step: TakenStep) -> str:
    """A scope that no other nested run has: of digits alone, so that no name can stand for two."""
    told = step.key or f"{step.arguments_digest}{step.name}"
    mark = sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{step.scope}{step.position}-{mark}/"
