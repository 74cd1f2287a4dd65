"""What a session can be told: requests of callers, and completions of effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct

from ..events.approvals import Approval, OnExpiry
from ..events.messages import (
    NO_USAGE,
    Content,
    Message,
    ModelTurn,
    Outcome,
    Policy,
    ToolCall,
    Usage,
)
from ..events.session import AgentConfigured, ToolCallStarted
from ..events.terms import Budget, Owner, ParentCall
from ..projections import Carried, SessionState, TakenStep
from .outputs import Fits, Unfit

OnCrash: TypeAlias = Literal["rerun", "fail", "ask"]


OnDrift: TypeAlias = Literal["ignore", "warn", "error"]


IfRunExists: TypeAlias = Literal["resume", "restart", "fail", "resume_only"]


class Submit(Struct, frozen=True, gc=False):
    """Accept an input. ``key`` is the sender's own name for it, ``run_id`` for the turn it is to
    start; ``if_run_exists`` says what is to be done where there is such a run. Without content it
    only names the run. ``trace`` is what it was sent in. ``parent`` is the call that the session
    serves, where it begins with this input as a sub-agent's."""

    input_id: str
    content: Content
    policy: Policy = "wait"
    key: str = ""
    run_id: str = ""
    if_run_exists: IfRunExists = "resume"
    trace: str = ""
    parent: ParentCall | None = None


class Continue(Struct, frozen=True, gc=False):
    """Go on from ``messages``: those of the conversation, and one from the user that may follow."""

    input_id: str
    messages: tuple[Message, ...]
    key: str = ""
    trace: str = ""


class Resume(Struct, frozen=True, gc=False):
    """Finish what is unfinished."""


class GoOn(Struct, frozen=True, gc=False):
    """Go on where a sub-agent does: a decision that it waited for was taken."""


class Resolve(Struct, frozen=True, gc=False):
    """Decide on a call. ``arguments``, if given, take the place of the proposed ones. ``within``
    is the session in which it was asked for: this one, or one that this one works for."""

    approval_id: str
    decision: Literal["approved", "rejected"]
    by: str = ""
    note: str = ""
    arguments: dict[str, Any] | None = None
    within: str = ""


class LookAtTheClock(Struct, frozen=True, gc=False):
    """Reject what no decision came for in time."""


class Look(Struct, frozen=True, gc=False):
    """Go on from what others wrote."""


class Withdraw(Struct, frozen=True, gc=False):
    """Take an input back that was not used yet."""

    input_id: str


class Abort(Struct, frozen=True, gc=False):
    """Stop the turn that the input is part of; ``keep`` it, or drop it. ``halted``: drop it also
    where it does not go on anyway."""

    input_id: str
    keep: bool = False
    halted: bool = False


class Discard(Struct, frozen=True, gc=False):
    """Drop the unfinished turn."""


class Rewind(Struct, frozen=True, gc=False):
    """Go back to the first ``keep_entries`` messages that there were after so many ``edits``;
    None: that there are now."""

    keep_entries: int
    edits: int | None = None
    by: str = ""


class Trim(Struct, frozen=True, gc=False):
    """Shorten tool results that are older than the last ``keep_turns`` turns."""

    keep_chars: int
    keep_turns: int
    by: str = ""


class Clear(Struct, frozen=True, gc=False):
    """Begin the conversation afresh."""

    by: str = ""


class ChangeState(Struct, frozen=True, gc=False):
    """Give the application's state another value, of plain data: for a call that runs, or for
    who it was changed ``by``. With ``expected`` only where that is its value still."""

    value: Any
    by: str = ""
    call: ToolCallStarted | None = None
    expected: Any = UNSET


class ModelAnswered(Struct, frozen=True, gc=False):
    """A model call ended with an answer. ``carried`` is what its context policy carries over, where
    that changed."""

    turn_id: str
    step: int
    attempt: int
    model: str
    answer: ModelTurn
    carried: Carried | None = None


class ModelBroke(Struct, frozen=True, gc=False):
    """A model call ended without an answer; ``transient`` where asking once more may help.
    ``usage`` is what it cost, where that is known."""

    turn_id: str
    step: int
    attempt: int
    code: str
    error: str
    transient: bool = False
    usage: Usage | None = None
    carried: Carried | None = None


class ToolReturned(Struct, frozen=True, gc=False):
    """A tool call ended, one way or the other. ``content`` is plain data."""

    turn_id: str
    call_id: str
    attempt: int
    outcome: Outcome
    content: Any
    usage: Usage = NO_USAGE


class SubAgentPaused(Struct, frozen=True, gc=False):
    """The sub-agent that does the call's work waits for decisions."""

    turn_id: str
    call_id: str
    attempt: int
    asked: tuple[Approval, ...]


class SubAgentLeft(Struct, frozen=True, gc=False):
    """The call of a sub-agent came to nothing for now: it goes on when the turn is resumed."""


class RecordStep(Struct, frozen=True, gc=False):
    """Record a durable step that a call's ``attempt`` took."""

    turn_id: str
    attempt: int
    step: TakenStep


Command: TypeAlias = (
    Submit
    | Continue
    | Resume
    | GoOn
    | Resolve
    | LookAtTheClock
    | Look
    | Withdraw
    | Abort
    | Discard
    | Rewind
    | Trim
    | Clear
    | ChangeState
    | ModelAnswered
    | ModelBroke
    | ToolReturned
    | SubAgentPaused
    | SubAgentLeft
    | RecordStep
)
OfACall: TypeAlias = RecordStep | ChangeState
"""What a call that runs asks of its session."""
LateCommand: TypeAlias = Callable[[], Command]
"""A command about an input whose id is known for sure when its sender was answered."""


class Gate(Struct, frozen=True, gc=False):
    """That a call needs a decision, and for how long it is waited for, in seconds."""

    seconds: float | None = None
    on_expiry: OnExpiry = "reject"
    reason: Literal["gated", "in-doubt"] = "gated"


class Rules(Struct, frozen=True):
    """What the agent lets the decider know of itself.

    ``refusal`` says why a call can't be run (unknown tool, arguments that do not fit), or None;
    ``gate`` what decision it needs, or None; ``gates`` are those of calls in doubt, by tool.
    ``output`` says whether a final answer fits, where it is to, and ``output_retries`` how often
    the model may answer again. ``model_retries`` is how often a model call of one step is repeated
    that broke. ``for_turn`` gives the rules of an agent in a turn that begins or goes on: of a
    state, the turn's id and the agent's name. ``find`` raises ``UnknownAgent`` for one that is not
    there; ``renamed`` are the names that agents have, by those they had. ``sub_agents`` are the
    tools that are agents.
    """

    configured: AgentConfigured
    budget: Budget
    tool_concurrency: int
    on_crash: Mapping[str, OnCrash]
    refusal: Callable[[ToolCall], str | None]
    gate: Callable[[ToolCall, str, SessionState], Gate | None]
    gates: Mapping[str, Gate]
    on_drift: OnDrift = "warn"
    keep_failed: bool = True
    for_turn: Callable[[SessionState, str, str], Rules] | None = None
    find: Callable[[str], object] | None = None
    renamed: Mapping[str, str] = {}
    sub_agents: frozenset[str] = frozenset()
    output: Callable[[str], Fits | Unfit] | None = None
    output_retries: int = 0
    model_retries: int = 2


class Stamp(Struct, frozen=True, gc=False):
    """When, and by which node, a command is decided.

    ``adopted``: the open turn, if there is one, was started or resumed by this very activation,
    so that its effects are under way. ``draining``: nothing more is to be started. ``asking``: a
    model call is under way, where one is due. ``silenced``: it was cancelled before it had shown
    anything. ``elsewhere``: the open turn goes on at another node, which lives. ``answered`` are
    the questions of sub-agents' calls that hold no more: a decision was taken there.
    """

    at: datetime
    owner: Owner
    session_id: str = ""
    tenant: str = ""
    adopted: bool = False
    draining: bool = False
    asking: bool = True
    silenced: bool = False
    elsewhere: bool = False
    answered: frozenset[str] = frozenset()
