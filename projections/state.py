"""A session's state: what is needed to decide what happens next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

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
    """An accepted input. ``turn_id`` is the turn that was open then, if one was."""

    input_id: str
    content: Content
    policy: Policy
    key: str = ""
    turn_id: str = ""


ABORTED = "aborted"


class Halt(Struct, frozen=True, gc=False):
    """Why a turn that is kept does not go on."""

    code: str
    error: str


class OpenTurn(Struct, frozen=True, gc=False):
    """The turn that has not ended yet. ``base`` is the length of the transcript before it;
    ``inputs`` are those it began with and those that joined it. ``discarded`` counts the model
    calls of the current step that came to nothing, and ``broken`` those of them whose stream
    broke off; ``recoveries`` counts the lost nodes since anything was recorded."""

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
    recoveries: int = 0
    calls: tuple[OpenCall, ...] = ()
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    halt: Halt | None = None

    @property
    def aborted(self) -> bool:
        """Whether it was stopped on purpose, and is kept."""
        return self.halt is not None and self.halt.code == ABORTED


class EndedTurn(Struct, frozen=True, gc=False):
    """How a turn ended: its messages are those from ``base`` up to ``length``."""

    turn_id: str
    finish_reason: FinishReason | Literal["aborted"]
    base: int
    length: int
    steps: int
    usage: Usage


class KeyedInput(Struct, frozen=True, gc=False):
    """The input that was sent with a key; ``ended`` is how its turn ended, if it did."""

    input_id: str
    content: Content
    ended: EndedTurn | None = None


class SessionState(Struct, frozen=True, gc=False):
    """The fold of a session's stream. ``transcript`` includes the open turn's messages;
    ``ended`` is the last turn that joined the conversation; ``unfolded`` is the topic of the first
    event this version can't fold."""

    agent: str = ""
    tenant: str = ""
    configured: AgentConfigured | None = None
    transcript: Transcript = Transcript()
    queued: tuple[QueuedInput, ...] = ()
    turn: OpenTurn | None = None
    turns: int = 0
    ended: EndedTurn | None = None
    keyed: Mapping[str, KeyedInput] = {}
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
                return "aborted" if self.turn is not None and self.turn.aborted else "failed"
            case _:
                return "running"

    @property
    def joining(self) -> tuple[QueuedInput, ...]:
        """The waiting inputs that are to join the open turn: accepted while it was open, and not
        to wait for a turn of their own."""
        turn = self.turn
        if turn is None or not self.queued:
            return ()
        return tuple(
            [each for each in self.queued if each.policy != "wait" and each.turn_id == turn.turn_id]
        )

    @property
    def joinable(self) -> tuple[QueuedInput, ...]:
        """What joins the open turn together: the ``joining`` inputs, and before each of them
        those that missed an earlier turn, so that none overtakes another."""
        joining = self.joining
        if not joining:
            return ()
        upto = self.queued.index(joining[-1]) + 1
        return tuple([each for each in self.queued[:upto] if each.policy != "wait"])

    @property
    def conversation(self) -> Transcript:
        """The messages of the turns that ended."""
        return self.transcript if self.turn is None else self.transcript.first(self.turn.base)


INITIAL = SessionState()
