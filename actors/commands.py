"""What a session can be told: requests of callers, and completions of effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ..events.messages import Content, Message, ModelTurn, Outcome, Policy, ToolCall
from ..events.session import AgentConfigured, Budget, Owner

OnCrash: TypeAlias = Literal["rerun", "fail"]


class Submit(Struct, frozen=True, gc=False):
    """Accept an input. ``key`` is the sender's own name for it."""

    input_id: str
    content: Content
    policy: Policy = "wait"
    key: str = ""


class Continue(Struct, frozen=True, gc=False):
    """Go on from ``messages``: those of the conversation, and one from the user that may follow."""

    input_id: str
    messages: tuple[Message, ...]
    key: str = ""


class Resume(Struct, frozen=True, gc=False):
    """Finish what is unfinished."""


class Withdraw(Struct, frozen=True, gc=False):
    """Take an input back that was not used yet."""

    input_id: str


class Abort(Struct, frozen=True, gc=False):
    """Stop the turn that the input is part of; ``keep`` it, or drop it."""

    input_id: str
    keep: bool = False


class Discard(Struct, frozen=True, gc=False):
    """Drop the unfinished turn."""


class ModelAnswered(Struct, frozen=True, gc=False):
    """A model call ended with an answer."""

    turn_id: str
    step: int
    attempt: int
    model: str
    answer: ModelTurn


class ModelBroke(Struct, frozen=True, gc=False):
    """A model call ended without an answer; ``transient`` where asking once more may help."""

    turn_id: str
    step: int
    attempt: int
    code: str
    error: str
    transient: bool = False


class ToolReturned(Struct, frozen=True, gc=False):
    """A tool call ended, one way or the other. ``content`` is plain data."""

    turn_id: str
    call_id: str
    attempt: int
    outcome: Outcome
    content: Any


Command: TypeAlias = (
    Submit
    | Continue
    | Resume
    | Withdraw
    | Abort
    | Discard
    | ModelAnswered
    | ModelBroke
    | ToolReturned
)
LateCommand: TypeAlias = Callable[[], Command]
"""A command about an input whose id is known for sure when its sender was answered."""


class Rules(Struct, frozen=True):
    """What the agent lets the decider know of itself.

    ``refusal`` says why a call can't be run (unknown tool, arguments that do not fit), or None.
    """

    configured: AgentConfigured
    budget: Budget
    tool_concurrency: int
    on_crash: Mapping[str, OnCrash]
    refusal: Callable[[ToolCall], str | None]
    keep_failed: bool = True


class Stamp(Struct, frozen=True, gc=False):
    """When, and by which node, a command is decided.

    ``adopted``: the open turn, if there is one, was started or resumed by this very activation,
    so that its effects are under way. ``draining``: nothing more is to be started. ``silenced``:
    the model call under way was cancelled before it had shown anything.
    """

    at: datetime
    owner: Owner
    tenant: str = ""
    adopted: bool = False
    draining: bool = False
    silenced: bool = False
