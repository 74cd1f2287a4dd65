"""The turn that is open, and how far each of its calls is."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..events.approvals import Approval, OnExpiry, is_over
from ..events.messages import (
    NO_USAGE,
    Content,
    Policy,
    ToolCall,
    ToolMessage,
    Usage,
)
from ..events.terms import Budget, Owner


class Requested(Struct, frozen=True, gc=False, tag=True):
    """The model asked for the call; nothing was done yet."""


class Running(Struct, frozen=True, gc=False, tag=True):
    """The call runs, for the ``attempt``-th time."""

    attempt: int


class InDoubt(Struct, frozen=True, gc=False, tag=True):
    """The call ran when its node was lost: nobody knows how far it came."""

    attempt: int


class Gated(Struct, frozen=True, gc=False, tag=True):
    """The call waits for a decision. ``attempts`` is how often it ran before: 0, or it is in
    doubt. ``asked`` are the decisions that the call's sub-agent waits for, where it is that."""

    approval_id: str
    attempts: int
    requested_at: datetime
    expires_at: datetime | None = None
    on_expiry: OnExpiry = "reject"
    path: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    asked: tuple[Approval, ...] = ()

    @property
    def awaited(self) -> tuple[str, ...]:
        """The ids of the decisions that are waited for."""
        return tuple([each.id for each in self.asked]) or (self.approval_id,)

    def is_over(self, at: datetime) -> bool:
        """Whether the call is to be rejected by that time, as no decision came."""
        return is_over(self.expires_at, self.on_expiry, at)


class Approved(Struct, frozen=True, gc=False, tag=True):
    """The call may run now. ``attempts`` is how often it ran before."""

    attempts: int


class Settled(Struct, frozen=True, gc=False, tag=True):
    """The call has its result."""

    message: ToolMessage


Stage: TypeAlias = Requested | Gated | Approved | Running | InDoubt | Settled


class OpenCall(Struct, frozen=True, gc=False):
    """A call of the model turn that is being answered. ``child`` is the session that does its
    work, once that was begun."""

    call: ToolCall
    stage: Stage
    child: str = ""

    def at(self, stage: Stage) -> OpenCall:
        """The same call at that stage."""
        return OpenCall(self.call, stage, self.child)


class TakenStep(Struct, frozen=True, gc=False):
    """A durable step that was recorded, of a call that is open, or of a journal's run."""

    call_id: str
    name: str
    arguments_digest: str
    value: Any = None
    position: int = 0
    key: str = ""
    scope: str = ""


class QueuedInput(Struct, frozen=True, gc=False):
    """An accepted input. ``turn_id`` is the turn that was open then, if one was; ``run_id`` the
    sender's name for the turn that it is to start, ``trace`` the trace it was sent in."""

    input_id: str
    content: Content
    policy: Policy
    key: str = ""
    turn_id: str = ""
    run_id: str = ""
    trace: str = ""


ABORTED = "aborted"
FORKED = "forked"


class Halt(Struct, frozen=True, gc=False):
    """Why a turn that is kept does not go on."""

    code: str
    error: str


class Transfer(Struct, frozen=True, gc=False):
    """A hand-off that was asked for: to whom, and by which call."""

    agent: str
    call_id: str


class OpenTurn(Struct, frozen=True, gc=False):
    """The turn that has not ended yet. ``base`` is the length of the transcript before it;
    ``inputs`` are those it began with and those that joined it. ``discarded`` counts the model
    calls of the current step that came to nothing, and ``broken`` those that broke and were made
    once more, also over lost nodes; ``refused`` counts the final answers since it began or went on
    that did not fit; ``recoveries`` counts the lost nodes since anything was recorded. Where the
    budget has a limit of time, ``active`` is how long the turn was active up to ``clock``, in
    seconds. ``taken`` are the durable steps of the calls without a result, as they were recorded:
    of two at one place, the later counts. ``agent`` is the one that goes on with the turn,
    ``handoff`` the hand-off to another one, which is done once every call has its result."""

    turn_id: str
    agent: str
    budget: Budget
    owner: Owner
    base: int
    inputs: tuple[QueuedInput, ...]
    run_id: str = ""
    steps: int = 0
    discarded: int = 0
    broken: int = 0
    refused: int = 0
    recoveries: int = 0
    fingerprint: str = ""
    active: float = 0.0
    clock: datetime | None = None
    calls: tuple[OpenCall, ...] = ()
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    halt: Halt | None = None
    taken: tuple[TakenStep, ...] = ()
    handoff: Transfer | None = None

    def taken_by(self, call_id: str) -> tuple[TakenStep, ...]:
        """The durable steps recorded of a call that has no result; of a run, where ``call_id`` is
        empty."""
        return tuple([each for each in self.taken if each.call_id == call_id])

    def without_taken(self, *call_ids: str) -> OpenTurn:
        """The turn without the durable steps of these calls: they have their results, or are not
        the calls any more that took them."""
        if not self.taken:
            return self
        return replace(self, taken=tuple([e for e in self.taken if e.call_id not in call_ids]))

    def without_numbered(self, call_id: str) -> OpenTurn:
        """The turn without those durable steps of a call that are known by their numbers alone:
        its arguments are others now. A key still says what it said."""
        taken = [each for each in self.taken if each.call_id != call_id or each.key]
        return replace(self, taken=tuple(taken)) if len(taken) < len(self.taken) else self

    def active_at(self, at: datetime) -> float:
        """How long the turn was active by that time, in seconds; time in which it was paused,
        halted or lost does not count."""
        if self.clock is None:
            return self.active
        return self.active + max((at - self.clock).total_seconds(), 0)

    def at_rest(self, at: datetime) -> OpenTurn:
        """The turn when nothing in it goes on from that time."""
        if not self.budget.seconds:
            return self
        return replace(self, active=self.active_at(at), clock=None)

    def ticked(self, at: datetime) -> OpenTurn:
        """The turn at that time, at work or at rest as before: who decides where nothing runs
        does not set it going."""
        return self if self.clock is None else self.at_work(at)

    def at_work(self, at: datetime) -> OpenTurn:
        """The turn when something in it goes on from that time."""
        if not self.budget.seconds:
            return self
        return replace(self, active=self.active_at(at), clock=at)

    def handed_over(
        self, agent: str, fingerprint: str, budget: Budget | None, at: datetime
    ) -> OpenTurn:
        """The turn when that agent goes on with it, within its own budget: what was used counts,
        and so does the time since somebody who went on had a limit of it."""
        turn = replace(
            self.at_rest(at),
            agent=agent,
            fingerprint=fingerprint,
            budget=budget or self.budget,
            handoff=None,
            refused=0,
        )
        return turn if self.halt is not None else turn.at_work(at)

    @property
    def gated(self) -> list[tuple[ToolCall, Gated]]:
        """The calls that wait for a decision, in order."""
        return [(each.call, each.stage) for each in self.calls if isinstance(each.stage, Gated)]

    @property
    def results(self) -> list[ToolMessage]:
        """The results there are already of the calls that are being answered, in call order."""
        return [each.stage.message for each in self.calls if isinstance(each.stage, Settled)]

    @property
    def is_paused(self) -> bool:
        """Whether nothing goes on before a decision."""
        stages = [each.stage for each in self.calls]
        if not any(isinstance(stage, Gated) for stage in stages):
            return False
        return all(isinstance(stage, (Gated, Settled, Requested)) for stage in stages)

    @property
    def next_expiry(self) -> datetime | None:
        """When the first of the decisions is no longer waited for; None where all are."""
        ends = [gated.expires_at for _, gated in self.gated if gated.on_expiry == "reject"]
        return min((each for each in ends if each is not None), default=None)

    def approvals(self, session_id: str, call: ToolCall, gated: Gated) -> tuple[Approval, ...]:
        """The questions that a gated call stands for: its own, or those of its sub-agent."""
        return gated.asked or (self._approval(session_id, call, gated),)

    def _approval(self, session_id: str, call: ToolCall, gated: Gated) -> Approval:
        return Approval(
            gated.approval_id,
            session_id,
            self.turn_id,
            call.id,
            call.name,
            call.arguments,
            gated.requested_at,
            "in-doubt" if gated.attempts else "gated",
            gated.expires_at,
            gated.on_expiry,
            gated.path,
            gated.within,
        )

    @property
    def aborted(self) -> bool:
        """Whether it was stopped on purpose, and is kept: by its owner, or since it is a fork's,
        which goes on when it is told to."""
        return self.halt is not None and self.halt.code in (ABORTED, FORKED)
