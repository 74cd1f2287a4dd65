"""The stream of a journal's run: who may write to it, and what is written.

A run is a turn in which no model is asked: it starts, takes steps and finishes, under the same
rules of ownership. Each epoch of a run id is a turn of one stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Any, TypeVar

from msgspec import Struct

from ..events.errors import (
    RunBusy,
    SessionExists,
    SessionReadOnly,
    StepConflict,
    StepRefused,
    TurnstreamError,
    TurnTakenOver,
    WrongExpectedVersion,
)
from ..events.frozen import thawed
from ..events.identifiers import JOURNAL
from ..events.session import (
    SessionEvent,
    SessionStarted,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
)
from ..events.terms import Budget, Owner
from ..events.values import plain
from ..projections import OpenTurn, SessionState, TakenStep, fold
from ..projections.phases import check_transition
from ..stores import EventStore
from .nodes import Nodes
from .recording import MAX_CONFLICTS, Known, append_after, read_on
from .stepping import recorded

log: logging.Logger = logging.getLogger("turnstream")

T = TypeVar("T")
FAILED = "run-failed"
_NO_BUDGET = Budget(max_steps=0)


class Ended(Struct, frozen=True):
    """The last run of an id has ended, with this result."""

    result: Any


class RunStream:
    """What one run reads of its stream and writes to it. It may be used from several threads."""

    def __init__(self, store: EventStore, nodes: Nodes, run_id: str) -> None:
        self._store, self._nodes, self._run_id = store, nodes, run_id
        self._lock = Lock()
        self._known = Known()
        self._turn_id = ""
        self._owner = Owner(0, "")
        self._over = True
        self.taken: list[TakenStep] = []

    @property
    def run_id(self) -> str:
        return self._run_id

    @property
    def turn_id(self) -> str:
        """What the stream calls this epoch."""
        return self._turn_id

    @property
    def epoch(self) -> int:
        """How many runs of this id have begun, with this one."""
        return self._known.state.turns

    @property
    def where(self) -> str:
        return f"run {self._run_id!r}, epoch {self.epoch}"

    def begin(self, digest: str, *, replays: bool) -> Ended | None:
        """Begin a run with arguments of that digest, or go on with the open one. Where the last
        one has ended, and that ``replays``, its result.

        Raises ``RunBusy`` where another process has the run, ``StepConflict`` where the open one
        has other arguments, ``SessionExists`` where the id is that of a session, and the store's
        errors.
        """
        for left in reversed(range(MAX_CONFLICTS)):
            state = self._read()
            if replays and (ended := _ended(state)) is not None:
                return ended
            try:
                self._append(*self._opening(state, digest))
            except WrongExpectedVersion:
                if not left:
                    raise
            else:
                self._own()
                return None
        raise AssertionError("the last conflict is raised")

    def check(self) -> None:
        """Raise ``StepRefused`` where the run is over."""
        if self._over:
            raise StepRefused(
                f"{self.where}: it is over, so the step was not taken",
                session_id=self._run_id,
                turn_id=self._turn_id,
            )

    def record(self, step: TakenStep) -> None:
        """Record a step. Raises ``TurnTakenOver`` where another process has the run by now, and
        the store's errors."""
        self._append_to_mine(lambda at: recorded(at, self._turn_id, step))
        self.taken.append(step)

    async def record_async(self, step: TakenStep) -> None:
        """The same, off the event loop."""
        await finished(self.record, step)

    def finish(self, result: Any) -> Any:
        """Record the result, and return it as it will be returned from now on. Raises as
        ``record``, and ``Unstorable``."""
        result = plain(result, "result")
        self._append_to_mine(
            lambda at: TurnFinished(at=at, turn_id=self._turn_id, output=result), last=True
        )
        return thawed(result)

    def fail(self, error: BaseException) -> None:
        """Leave the run open for whoever comes next."""
        if self._over:
            return
        kind = type(error).__name__
        try:
            self._append_to_mine(
                lambda at: TurnFailed(at=at, turn_id=self._turn_id, code=FAILED, error=kind),
                last=True,
            )
        except TurnstreamError as failure:
            log.warning("%s: it ended with %s, not recorded: %s", self.where, kind, failure.code)

    def abandon(self) -> bool:
        """End the open run without a result; whether there was one. Raises as ``begin``."""
        for left in reversed(range(MAX_CONFLICTS)):
            turn = self._read().turn
            if turn is None:
                return False
            self._claim(turn)
            try:
                self._append(TurnAborted(at=_now(), turn_id=turn.turn_id))
            except WrongExpectedVersion:
                if not left:
                    raise
            else:
                return True
        raise AssertionError("the last conflict is raised")

    def _read(self) -> SessionState:
        self._known = read_on(self._store, self._run_id, self._known)
        state = self._known.state
        if self._known.version and state.agent != JOURNAL:
            raise SessionExists(self._run_id)
        if state.unfolded:
            raise SessionReadOnly(
                f"the stream holds {state.unfolded!r} where this version can't make sense of it: "
                "upgrade turnstream",
                session_id=self._run_id,
            )
        return state

    def _opening(self, state: SessionState, digest: str) -> list[SessionEvent]:
        at, turn = _now(), state.turn
        if turn is not None:
            if turn.fingerprint != digest:
                raise _other_arguments(self._run_id, turn)
            self._claim(turn)
            return [TurnResumed(at=at, turn_id=turn.turn_id, owner=self._nodes.owner)]
        started = TurnStarted(
            at=at,
            turn_id=f"turn-{state.turns + 1}",
            input_ids=(),
            agent=JOURNAL,
            budget=_NO_BUDGET,
            owner=self._nodes.owner,
            fingerprint=digest,
        )
        begun = [] if self._known.version else [SessionStarted(at=at, agent=JOURNAL)]
        return [*begun, started]

    def _claim(self, turn: OpenTurn) -> None:
        if self._nodes.runs_elsewhere(turn):
            raise busy(self._run_id, f"node {turn.owner.node!r} has it")
        self._nodes.rejuvenate(turn.owner)

    def _own(self) -> None:
        turn = self._known.state.turn
        assert turn is not None
        self._turn_id, self._owner, self._over = turn.turn_id, turn.owner, False
        self.taken = list(turn.taken_by(""))

    def _append(self, *events: SessionEvent) -> None:
        check_transition(self._known.state.phase, events[-1])
        state = fold(events, self._known.state)
        append, known = append_after(self._known, self._run_id, events, state)
        self._store.append(append)
        self._known = known

    def _append_to_mine(
        self, event: Callable[[datetime], SessionEvent], *, last: bool = False
    ) -> None:
        with self._lock:
            self.check()
            for left in reversed(range(MAX_CONFLICTS)):
                try:
                    self._append(event(_now()))
                except WrongExpectedVersion:
                    if not left:
                        raise
                    self._reload()
                else:
                    self._over = last
                    return

    def _reload(self) -> None:
        """See who wrote meanwhile: what leaves the run ours, such as an erasure, does no harm."""
        turn = self._read().turn
        if turn is None or (turn.turn_id, turn.owner) != (self._turn_id, self._owner):
            self._over = True
            raise TurnTakenOver(
                f"{self.where}: another process has taken the run over, or ended it; nothing was "
                "recorded, and nothing more of it can be from here",
                session_id=self._run_id,
                turn_id=self._turn_id,
            )


def busy(run_id: str, who: str) -> RunBusy:
    """That the run of an id is under way."""
    return RunBusy(
        f"run {run_id!r} is under way, {who}: run it later, or have the journal wait for it",
        session_id=run_id,
    )


async def finished(fn: Callable[..., T], *args: Any) -> T:
    """Call a function that blocks, off the event loop. It comes to its end also where the caller
    is cancelled."""
    call = asyncio.ensure_future(asyncio.to_thread(fn, *args))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise


def _ended(state: SessionState) -> Ended | None:
    last = state.ended
    if state.turn is not None or last is None or last.turn_id != f"turn-{state.turns}":
        return None
    return Ended(thawed(last.output))


def _other_arguments(run_id: str, turn: OpenTurn) -> StepConflict:
    return StepConflict(
        f"run {run_id!r} is unfinished, and was begun with other arguments: run it with those, "
        "or abandon it first",
        session_id=run_id,
        turn_id=turn.turn_id,
    )


def _now() -> datetime:
    return datetime.now(UTC)
