"""A session's state: what is needed to decide what happens next."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from ..events.messages import (
    NO_USAGE,
    AssistantMessage,
    Content,
    Policy,
    ToolCall,
    ToolMessage,
    Usage,
)
from ..events.session import AgentConfigured, Budget, FinishReason, Owner, Status
from .phases import Phase
from .transcript import Transcript


class Requested(Struct, frozen=True, gc=False, tag=True):
    """The model asked for the call; nothing was done yet."""


class Running(Struct, frozen=True, gc=False, tag=True):
    """The call runs, for the ``attempt``-th time."""

    attempt: int


class InDoubt(Struct, frozen=True, gc=False, tag=True):
    """The call ran when its node was lost: nobody knows how far it came."""

    attempt: int


class Settled(Struct, frozen=True, gc=False, tag=True):
    """The call has its result."""

    message: ToolMessage


Stage: TypeAlias = Requested | Running | InDoubt | Settled


class OpenCall(Struct, frozen=True, gc=False):
    """A call of the model turn that is being answered."""

    call: ToolCall
    stage: Stage


class QueuedInput(Struct, frozen=True, gc=False):
    """An accepted input."""

    input_id: str
    content: Content
    policy: Policy


class Halt(Struct, frozen=True, gc=False):
    """Why a turn that is kept does not go on."""

    code: str
    error: str


class OpenTurn(Struct, frozen=True, gc=False):
    """The turn that has not ended yet. ``base`` is the length of the transcript before it;
    ``discarded`` counts the model calls of the current step that came to nothing."""

    turn_id: str
    agent: str
    budget: Budget
    owner: Owner
    base: int
    inputs: tuple[QueuedInput, ...]
    run_id: str = ""
    steps: int = 0
    discarded: int = 0
    calls: tuple[OpenCall, ...] = ()
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    halt: Halt | None = None


class EndedTurn(Struct, frozen=True, gc=False):
    """The last turn that joined the conversation: its messages are those from ``base`` up to
    ``length``."""

    turn_id: str
    finish_reason: FinishReason
    base: int
    length: int
    steps: int
    usage: Usage


class SessionState(Struct, frozen=True, gc=False):
    """The fold of a session's stream. ``transcript`` includes the open turn's messages;
    ``unfolded`` is the topic of the first event this version can't fold."""

    agent: str = ""
    tenant: str = ""
    configured: AgentConfigured | None = None
    transcript: Transcript = Transcript()
    queued: tuple[QueuedInput, ...] = ()
    turn: OpenTurn | None = None
    turns: int = 0
    ended: EndedTurn | None = None
    usage: Usage = NO_USAGE
    discarded_usage: Usage = NO_USAGE
    application: Any = None
    unfolded: str = ""

    @property
    def phase(self) -> Phase:
        """What the session waits for."""
        turn = self.turn
        if turn is None:
            return Phase.IDLE
        if turn.halt is not None:
            return Phase.HALTED
        if turn.calls:
            return Phase.TOOLS
        answered = type(self.transcript.last) is AssistantMessage
        return Phase.ANSWERED if answered and len(self.transcript) > turn.base else Phase.MODEL

    @property
    def status(self) -> Status:
        """The phase as listings show it; with inputs waiting, an idle session is not done."""
        match self.phase:
            case Phase.IDLE:
                return "running" if self.queued else "idle"
            case Phase.HALTED:
                return "failed"
            case _:
                return "running"

    @property
    def conversation(self) -> Transcript:
        """The messages of the turns that ended."""
        return self.transcript if self.turn is None else self.transcript.first(self.turn.base)


INITIAL = SessionState()
