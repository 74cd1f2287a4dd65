"""One effect: one winner between "it began" and "it was cancelled before", and one outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from .logging_context import current_call

if TYPE_CHECKING:
    from asyncio import Task, TimerHandle

log: logging.Logger = logging.getLogger("turnstream.effects")


class _State(Enum):
    NEW = auto()
    OPEN = auto()
    CANCELLED = auto()  # never opened
    SHUT = auto()  # opened, and cancelled after that


class Gate:
    """Stands between an effect and what it lets out.

    The effect opens it before the first thing anybody can notice: entering a tool, showing a
    delta, handing over a result. Whoever wants to stop it cancels. Both may come from any thread,
    at the same moment; exactly one of them wins.
    """

    __slots__ = ("_lock", "_state")

    def __init__(self) -> None:
        self._state = _State.NEW
        self._lock = Lock()

    def open(self) -> bool:
        """Open it, or find it open. False once it was cancelled: let nothing (more) out."""
        if self._state is _State.OPEN:
            return True
        with self._lock:
            if self._state is _State.NEW:
                self._state = _State.OPEN
            return self._state is _State.OPEN

    def cancel_if_new(self) -> bool:
        """Cancel it where nothing came through. True for the one who did; otherwise nothing
        changes."""
        with self._lock:
            won = self._state is _State.NEW
            if won:
                self._state = _State.CANCELLED
            return won

    def cancel(self) -> bool:
        """Cancel it, whatever came through before. True where nothing did."""
        with self._lock:
            if self._state is _State.NEW:
                self._state = _State.CANCELLED
            elif self._state is _State.OPEN:
                self._state = _State.SHUT
            return self._state is _State.CANCELLED

    @property
    def opened(self) -> bool:
        """Whether it ever was open."""
        return self._state in (_State.OPEN, _State.SHUT)

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled, before or after it was opened."""
        return self._state in (_State.CANCELLED, _State.SHUT)


class Returned(Struct, frozen=True):
    """It ended with a value."""

    value: Any


class Raised(Struct, frozen=True):
    """It raised, be it ``SystemExit``."""

    error: BaseException


class NotRun(Struct, frozen=True):
    """It was cancelled before it was entered: nothing happened."""


class Cancelled(Struct, frozen=True):
    """It was entered, asked to stop, and ended."""


class TimedOut(Struct, frozen=True):
    """It took too long. A function may still run, and take effect."""


class Abandoned(Struct, frozen=True):
    """It was asked to stop and did not: it may still run, and take effect."""


Settled: TypeAlias = Returned | Raised | NotRun | Cancelled | TimedOut | Abandoned

Opens: TypeAlias = Literal["entry", "result"]


class Running:
    """An effect under way, to be handed to ``Effects.cancel``."""

    __slots__ = (
        "_entry",
        "_gate",
        "_post",
        "_unsettled",
        "instead",
        "session_id",
        "task",
        "timeout",
        "timer",
    )

    def __init__(
        self,
        gate: Gate,
        opens: Opens,
        session_id: str,
        timeout: float | None,
        post: Callable[[Running, Settled], None],
    ) -> None:
        self._gate = gate
        self._entry = gate if opens == "entry" else Gate()
        self._post = post
        self._unsettled = Lock()  # for the one who settles it, who keeps it
        self.session_id: str = session_id
        self.timeout: float | None = timeout
        self.instead: Settled = Cancelled()  # what its end is, once it was asked to stop
        self.task: Task[Any] | None = None
        self.timer: TimerHandle | None = None

    @property
    def settled(self) -> bool:
        """Whether its outcome is known."""
        return self._unsettled.locked()

    def enter(self) -> bool:
        """Whether user code may be entered now."""
        if not self._gate.cancelled and self._entry.open():
            return True
        self.settle(NotRun())
        return False

    def end(self, outcome: Settled) -> None:
        """User code ended. If it was stopped before, that is its outcome."""
        stopped = not self._gate.open()
        settled = self.settle(self.instead if stopped else outcome)
        if not settled or (stopped and not isinstance(outcome, Cancelled)):
            # A tool may have taken effect; of a model an answer is lost.
            log.log(
                logging.WARNING if self._entry is self._gate else logging.INFO,
                "a call of session %r ended after it was given up: what it did is not recorded",
                self.session_id,
                extra=current_call.get()._asdict() | {"session_id": self.session_id},
            )

    def stop(self) -> bool:
        """Let nothing more out. True where user code was not entered, and now never will be."""
        self._gate.cancel()
        return self._entry.cancel()

    def settle(self, outcome: Settled) -> bool:
        """Post the outcome. False where there was one before."""
        if not self._unsettled.acquire(blocking=False):
            return False
        self._post(self, outcome)
        return True
