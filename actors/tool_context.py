"""What a tool learns of the call that it serves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from ..events.errors import StepRefused
from .call_state import CallState
from .steps import Steps
from .waiting import refuse_to_block


class ToolContext(msgspec.Struct, frozen=True):
    """What a tool can learn of the call it serves, as its first parameter.

    ``idempotency_key`` is the same each time the call is run again, and differs in a fork: hand
    it to services that recognise a repeated request. ``attempt`` counts the runs from 1.
    """

    session_id: str
    turn_id: str
    call_id: str
    idempotency_key: str
    attempt: int
    _state: CallState
    _is_cancelled: Callable[[], bool] = lambda: False
    _steps: Steps | None = None
    _is_async: bool = False

    @property
    def cancelled(self) -> bool:
        """Whether the turn no longer wants the result: a long loop may look and stop."""
        return self._is_cancelled()

    @property
    def state(self) -> Any:
        """The application's own state: as it was when the call began, and since the call changed
        it, as it was then. It can't be changed in place."""
        return self._state.value

    def set_state(self, value: Any) -> Any:
        """Give the application's own state another value: any plain data, or a function that makes
        it from the value there is. A function is called again where another call was faster, so
        none of their changes is lost.

        In a sync tool it blocks until the change is durable, and returns the value as it was
        stored. In an async tool it is to be awaited. A change stays, whatever becomes of the call:
        a call that is run again after a crash reads it.

        Raises ``Unstorable``, with the path to the piece, where the value is no plain data,
        ``StateRefused`` where the call has ended or is no longer wanted, ``TurnTakenOver`` where
        another node has the turn, and the store's errors.
        """
        if self._is_async:
            return self._state.change_async(value)
        return self._state.change(value)

    def step(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run ``fn`` once, and record what it returns in the session's stream: when the call is
        run again after a crash, the value comes from there and ``fn`` is not run.

        In a sync tool it blocks until the step is durable, and returns the value as it was stored.
        In an async tool it is to be awaited, and ``fn`` may be sync or async. A step is known
        again by its number within the call, its name and its arguments; with ``idempotency_key``
        by that alone. What ``fn`` raises is raised, and nothing is recorded.

        Raises ``Unstorable``, with the path to the piece, for an argument or a value that is no
        plain data, ``StepConflict`` for a key that was used with other arguments, ``StepRefused``
        where the call is no longer wanted or the step is taken where it would not be found again,
        ``TurnTakenOver`` where another node has the turn, and the store's errors.
        """
        steps = self._steps_of_its_own()
        wanted = steps.wanted(name, args, kwargs, idempotency_key)
        run = steps.run_async if self._is_async else steps.run
        return run(wanted, partial(fn, *args, **kwargs))

    def step_stream(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """``step`` for a function that gives an iterator: its items come through one by one, and
        are recorded as one step when there are no more. A stream that broke off, or that was left
        before its end, is run again from its start.

        In an async tool it is for ``async for``, and ``fn`` may give an async iterator. Raises as
        ``step`` does.
        """
        steps = self._steps_of_its_own()
        wanted = steps.wanted(name, args, kwargs, idempotency_key)
        stream = steps.stream_async if self._is_async else steps.stream
        return stream(wanted, partial(fn, *args, **kwargs))

    def _steps_of_its_own(self) -> Steps:
        if self._steps is None:
            raise StepRefused(
                "a step can be taken by a tool while its call runs, and not while the call is "
                "decided on or reconciled",
                session_id=self.session_id,
                turn_id=self.turn_id,
                call_id=self.call_id,
            )
        if not self._is_async:
            refuse_to_block(self.session_id)
        return self._steps


def without_steps(context: ToolContext) -> ToolContext:
    """The context of what is asked about the call and does not carry it out: steps there would
    take the numbers of those of the tool."""
    return replace(context, _steps=None)


def idempotency_key(session_id: str, turn_id: str, call_id: str) -> str:
    """A key that is the same each time the call is run, and no other call's."""
    named = f"{session_id}\0{turn_id}\0{call_id}".encode("utf-8", "surrogatepass")
    return sha256(named).hexdigest()[:32]
