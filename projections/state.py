"""A session's state: what is needed to decide what happens next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from ..events.approvals import Approval
from ..events.messages import (
    NO_USAGE,
    AssistantMessage,
    Content,
    Message,
    Usage,
)
from ..events.session import AgentConfigured, FinishReason, Status
from ..events.terms import ParentCall
from .growing import Growing
from .open_turn import OpenTurn, QueuedInput
from .phases import Phase
from .transcript import Transcript


class EndedTurn(Struct, frozen=True, gc=False):
    """How a turn ended: its messages are those from ``base`` up to ``length``; ``agent`` ended
    it."""

    turn_id: str
    finish_reason: FinishReason | Literal["aborted"]
    base: int
    length: int
    steps: int
    usage: Usage
    output: Any = None
    run_id: str = ""
    agent: str = ""


class KeyedInput(Struct, frozen=True, gc=False):
    """The input that was sent with a key, or that a run began with; ``ended`` is how its turn
    ended, if it did."""

    input_id: str
    content: Content
    ended: EndedTurn | None = None


class Decided(Struct, frozen=True, gc=False):
    """How a question ended: ``approved``, ``rejected``, or why it was withdrawn."""

    decision: str
    by: str = ""
    note: str = ""


class Switch(Struct, frozen=True, gc=False):
    """From so many messages on, this agent goes on."""

    place: int
    agent: str


class Carried(Struct, frozen=True, gc=False):
    """What the context policy of an agent carries over; it speaks of the first ``covers``
    messages."""

    value: Any
    covers: int
    agent: str = ""


class Edit(Struct, frozen=True, gc=False):
    """A change of the conversation that was no growth: what followed the first ``kept`` messages
    was ``removed``, with the turns that began at ``starts`` and the ``switches`` of agents."""

    kept: int
    removed: tuple[Message, ...]
    starts: tuple[int, ...]
    switches: tuple[Switch, ...] = ()


class SessionState(Struct, frozen=True, gc=False):
    """The fold of a session's stream. ``parent`` is the call that it serves, where it is a
    sub-agent's; ``transcript`` includes the open turn's messages;
    ``ended`` is the last turn that joined the conversation; ``starts`` are the places in the
    transcript at which turns begin; ``edits`` are the changes of it that were no growth;
    ``carried`` is what a context policy carries over; ``runs`` are the runs that ended, by their
    ids; ``unfolded`` is the topic of the first event this version can't fold. ``agent`` is the one
    that the session began with, ``switches`` say where another one took its place."""

    agent: str = ""
    tenant: str = ""
    configured: AgentConfigured | None = None
    transcript: Transcript = Transcript()
    queued: tuple[QueuedInput, ...] = ()
    turn: OpenTurn | None = None
    turns: int = 0
    ended: EndedTurn | None = None
    keyed: Mapping[str, KeyedInput] = {}
    decided: Mapping[str, Decided] = {}
    usage: Usage = NO_USAGE
    discarded_usage: Usage = NO_USAGE
    application: Any = None
    unfolded: str = ""
    starts: Growing[int] = Growing()
    edits: Growing[Edit] = Growing()
    parent: ParentCall | None = None
    switches: Growing[Switch] = Growing()
    carried: Carried | None = None
    runs: Mapping[str, KeyedInput] = {}

    def run(self, run_id: str) -> KeyedInput | None:
        """The run that this id names by now: it is open, waits, or has ended; None where it is not
        known."""
        turn = self.turn
        inputs = turn.inputs if turn is not None and turn.run_id == run_id else self.queued
        for each in inputs:
            if each.run_id == run_id:
                return KeyedInput(each.input_id, each.content)
        return self.runs.get(run_id)

    @property
    def active(self) -> str:
        """The agent that goes on: with the open turn, or with the next one."""
        if self.turn is not None:
            return self.turn.agent
        return self.agent if self.switches.last is None else self.switches.last.agent

    @property
    def carried_over(self) -> Carried | None:
        """What the context policy of the agent that goes on carried over."""
        carried = self.carried
        return carried if carried is not None and carried.agent == self.active else None

    @property
    def phase(self) -> Phase:
        """What the session waits for."""
        turn = self.turn
        if turn is None:
            return Phase.IDLE
        if turn.halt is not None:
            return Phase.HALTED
        if turn.calls:
            return Phase.PAUSED if turn.is_paused else Phase.TOOLS
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
            case Phase.PAUSED:
                return "awaiting-approval"
            case Phase.TOOLS if self.turn is not None and self.turn.gated:
                return "awaiting-approval"
            case _:
                return "running"

    def approvals(self, session_id: str) -> tuple[Approval, ...]:
        """The decisions that the session waits for, in call order, its sub-agents' included."""
        turn = self.turn
        if turn is None or not turn.calls:
            return ()
        return tuple([one for each in turn.gated for one in turn.approvals(session_id, *each)])

    def own_approvals(self, session_id: str) -> tuple[Approval, ...]:
        """Those that are taken in this session itself: its row lists them, and no other does."""
        waiting = self.approvals(session_id)
        return tuple([each for each in waiting if each.session_id == session_id])

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
