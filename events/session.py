"""What can happen in a session.

These types and their tags are the storage format. A field is only ever added, with a default;
anything else is a new version of the tag with an upcaster from the one before (``upcast``).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from .approvals import Approval, OnExpiry
from .messages import NO_USAGE, Content, Outcome, Policy, ToolCall, ToolSpec, Usage
from .terms import Budget, ForkOrigin, Owner, ParentCall, Teammate

Status: TypeAlias = Literal["idle", "running", "failed", "aborted", "awaiting-approval"]

Discarded: TypeAlias = Literal["steered", "aborted", "retried", "stream-ended", "failed"]

FinishReason: TypeAlias = Literal["stop", "max-steps", "budget"]


class Event(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="type"):
    """A fact. ``at`` is UTC; ``prev`` is the digest of the event before it in its stream, put in
    when it is encoded (see ``chain``). ``erased`` is the digest this event had before its content
    was erased, empty where it was not: the event after it still carries that one."""

    at: datetime
    prev: str = ""
    erased: str = ""


class SessionStarted(Event, frozen=True, tag="session_started"):
    """The stream begins. ``nonce`` tells a fork from another one of the same moment: who races
    for its id must not take the other's for their own. ``parent`` is the call that it serves,
    where it is a sub-agent's."""

    agent: str
    tenant: str = ""
    forked_from: ForkOrigin | None = None
    nonce: str = ""
    parent: ParentCall | None = None


class InputQueued(Event, frozen=True, tag="input_queued"):
    """An input was accepted. ``key`` is the caller's own name for it: a second send with the
    same key is the same input. ``run_id`` is the caller's name for the turn it is to start.
    ``trace`` says which trace it was sent in, as a W3C traceparent."""

    input_id: str
    content: Content
    policy: Policy = "wait"
    key: str = ""
    run_id: str = ""
    trace: str = ""


class InputApplied(Event, frozen=True, tag="input_applied"):
    """A queued input joined the running turn here."""

    turn_id: str
    input_id: str


class InputWithdrawn(Event, frozen=True, tag="input_withdrawn"):
    """The sender took a queued input back before it was used."""

    input_id: str


class AgentConfigured(Event, frozen=True, tag="agent_configured"):
    """What the agent is from here on. Written only where it differs from the one before.
    ``output`` is the JSON schema that its final answers are to fit, if there is one; ``handoffs``
    names who goes on, by the tool that stands for it; ``team`` are all that it reaches so."""

    name: str
    model: str
    instructions: str = ""
    tools: tuple[ToolSpec, ...] = ()
    fingerprint: str = ""
    output: dict[str, Any] | None = None
    handoffs: dict[str, str] = {}
    team: tuple[Teammate, ...] = ()


class TurnStarted(Event, frozen=True, tag="turn_started"):
    """A turn began, with these inputs, on this node."""

    turn_id: str
    input_ids: tuple[str, ...]
    agent: str
    budget: Budget
    owner: Owner
    fingerprint: str = ""
    run_id: str = ""


class TurnResumed(Event, frozen=True, tag="turn_resumed"):
    """An unfinished turn goes on, on this node."""

    turn_id: str
    owner: Owner
    fingerprint: str = ""


class ModelTurnRecorded(Event, frozen=True, tag="model_turn_recorded"):
    """The model answered. It is never asked for this step again."""

    turn_id: str
    step: int
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    parts: tuple[Any, ...] = ()
    usage: Usage = NO_USAGE
    model: str = ""
    finish_reason: str = "stop"


class ModelCallDiscarded(Event, frozen=True, tag="model_call_discarded"):
    """A model call came to nothing. ``usage`` is what it cost, where that is known."""

    turn_id: str
    step: int
    reason: Discarded
    usage: Usage | None = None


class ToolCallStarted(Event, frozen=True, tag="tool_call_started"):
    """The tool is about to run. Until its result is recorded the call is in doubt. ``child`` is
    the session that does the work, where the tool is a sub-agent."""

    turn_id: str
    call_id: str
    attempt: int = 1
    child: str = ""


class ToolResultRecorded(Event, frozen=True, tag="tool_result_recorded"):
    """The call's one result: the value as the tool returned it, turned into plain data. ``usage``
    is what a sub-agent used for it."""

    turn_id: str
    call_id: str
    outcome: Outcome = "ok"
    content: Any = ""
    usage: Usage = NO_USAGE


class ApprovalRequested(Event, frozen=True, tag="approval_requested"):
    """A call waits for a decision. ``path`` names the nested calls that lead to it, outermost
    first, where a sub-agent asks, and ``within`` their sessions. In the parent's stream ``asked``
    are the decisions that the call's sub-agent waits for: they are taken in its session, and the
    call goes on after that."""

    approval_id: str
    turn_id: str
    call_id: str
    reason: Literal["gated", "in-doubt"] = "gated"
    expires_at: datetime | None = None
    on_expiry: OnExpiry = "reject"
    path: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    asked: tuple[Approval, ...] = ()


class ApprovalResolved(Event, frozen=True, tag="approval_resolved"):
    """A decision was taken. ``arguments`` are the edited ones, where they were edited."""

    approval_id: str
    decision: Literal["approved", "rejected"]
    by: str = ""
    note: str = ""
    arguments: dict[str, Any] | None = None


class ApprovalWithdrawn(Event, frozen=True, tag="approval_withdrawn"):
    """The question no longer stands."""

    approval_id: str
    reason: Literal["aborted", "expired", "discarded"] = "aborted"


class StepRecorded(Event, frozen=True, tag="step_recorded"):
    """A durable step: inside a tool's call, or, where ``call_id`` is empty, in a run of a journal.

    It is found again by its ``key``, or where it has none by its ``position`` among the steps
    without one, from 1 on. ``scope`` names the nested run that it is part of, if any."""

    turn_id: str
    call_id: str
    name: str
    arguments_digest: str
    value: Any = None
    position: int = 0
    key: str = ""
    scope: str = ""


class StateChanged(Event, frozen=True, tag="state_changed"):
    """The application's own state has this value now. Who changed it: the call of a tool, or
    ``by``, who asked the session."""

    value: Any = None
    by: str = ""
    turn_id: str = ""
    call_id: str = ""


class AgentHandedOff(Event, frozen=True, tag="agent_handed_off"):
    """Another agent goes on with the turn. ``applied`` is false when the call ``call_id`` asked for
    it, and true when the switch happens, which is when all calls have their results; then
    ``fingerprint`` and ``budget`` are the other agent's (None: the budget stays)."""

    turn_id: str
    source: str
    target: str
    applied: bool = True
    call_id: str = ""
    fingerprint: str = ""
    budget: Budget | None = None


class AgentDriftDetected(Event, frozen=True, tag="agent_drift_detected"):
    """The agent differs from the one that began the turn; ``changes`` names what."""

    turn_id: str
    recorded: str
    current: str
    changes: tuple[str, ...] = ()


class ContextCarried(Event, frozen=True, tag="context_carried"):
    """What a context policy carries over to the next model call. It speaks of the first
    ``covers`` messages of the conversation."""

    turn_id: str
    value: Any = None
    covers: int = 0


class OutputRefused(Event, frozen=True, tag="output_refused"):
    """The final answer does not fit the agent's output type: ``text`` tells the model so, and it
    is to answer again."""

    turn_id: str
    text: str


class TurnFinished(Event, frozen=True, tag="turn_finished"):
    """The turn ended and joined the conversation. ``output`` is its structured result, if any."""

    turn_id: str
    finish_reason: FinishReason = "stop"
    output: Any = None


class TurnFailed(Event, frozen=True, tag="turn_failed"):
    """The turn could not go on. Kept, it stays unfinished and can be resumed; dropped, the
    conversation is as before it."""

    turn_id: str
    code: str
    error: str
    kept: bool = True


class TurnAborted(Event, frozen=True, tag="turn_aborted"):
    """The turn was stopped on request. Kept, it can be resumed; dropped, the conversation is as
    before it."""

    turn_id: str
    kept: bool = False


class ForkPatched(Event, frozen=True, tag="fork_patched"):
    """What was changed in a fork before it went on."""

    messages: Any = None
    state: Any = None
    call_id: str = ""
    result: Any = None
    changed: tuple[Literal["messages", "state", "tool_result"], ...] = ()
    by: str = ""


class SessionRewound(Event, frozen=True, tag="session_rewound"):
    """The conversation goes on from an earlier point: the first ``keep_entries`` messages it had
    before the last ``undoes`` changes that were no growth (turns dropped, rewinds and the like)."""

    keep_entries: int
    by: str = ""
    undoes: int = 0


class ToolResultsTrimmed(Event, frozen=True, tag="tool_results_trimmed"):
    """Tool results older than the last ``keep_turns`` turns read shortened from here on."""

    keep_chars: int
    keep_turns: int
    by: str = ""


class SessionCleared(Event, frozen=True, tag="session_cleared"):
    """The conversation starts afresh; the stream keeps what was."""

    by: str = ""


class ContentErased(Event, frozen=True, tag="content_erased"):
    """The content of the events at these versions was erased on request. ``left`` are the digests
    of what stands there since, in the order of ``versions``."""

    versions: tuple[int, ...]
    left: tuple[str, ...] = ()
    reason: str = ""
    by: str = ""


class UnknownEvent(Struct, frozen=True, gc=False):
    """An event this version does not know, kept as it is stored."""

    topic: str
    raw: bytes


SessionEvent: TypeAlias = (
    SessionStarted
    | InputQueued
    | InputApplied
    | InputWithdrawn
    | AgentConfigured
    | TurnStarted
    | TurnResumed
    | ModelTurnRecorded
    | ModelCallDiscarded
    | ToolCallStarted
    | ToolResultRecorded
    | ApprovalRequested
    | ApprovalResolved
    | ApprovalWithdrawn
    | StepRecorded
    | StateChanged
    | AgentHandedOff
    | AgentDriftDetected
    | ContextCarried
    | OutputRefused
    | TurnFinished
    | TurnFailed
    | TurnAborted
    | ForkPatched
    | SessionRewound
    | ToolResultsTrimmed
    | SessionCleared
    | ContentErased
)
AnyEvent: TypeAlias = SessionEvent | UnknownEvent
