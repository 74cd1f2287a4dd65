"""A session's state in the making."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ..events.messages import AssistantMessage, Message, ToolCall, Usage
from ..events.session import AgentConfigured
from ..events.terms import ParentCall
from .growing import Growing
from .open_turn import (
    OpenTurn,
    QueuedInput,
)
from .state import (
    Carried,
    Decided,
    Edit,
    EndedTurn,
    KeyedInput,
    SessionState,
    Switch,
)
from .transcript import Transcript


class Folding:
    """A state in the making, so that a long fold does not copy it at each event. ``said`` are
    the messages to come after the ``spoken`` ones of the transcript, ``began`` the places to come
    after its ``starts``."""

    __slots__ = (
        "agent",
        "application",
        "began",
        "carried",
        "configured",
        "decided",
        "discarded_usage",
        "edits",
        "ended",
        "keyed",
        "parent",
        "queued",
        "redecided",
        "rekeyed",
        "rerun",
        "runs",
        "said",
        "spoken",
        "starts",
        "switches",
        "tenant",
        "transcript",
        "turn",
        "turns",
        "unfolded",
        "usage",
    )

    def __init__(self, state: SessionState) -> None:
        self.agent: str = state.agent
        self.tenant: str = state.tenant
        self.configured: AgentConfigured | None = state.configured
        self.transcript: Transcript = state.transcript
        self.queued: tuple[QueuedInput, ...] = state.queued
        self.turn: OpenTurn | None = state.turn
        self.turns: int = state.turns
        self.ended: EndedTurn | None = state.ended
        self.usage: Usage = state.usage
        self.discarded_usage: Usage = state.discarded_usage
        self.application: Any = state.application
        self.unfolded: str = state.unfolded
        self.keyed: Mapping[str, KeyedInput] = state.keyed
        self.decided: Mapping[str, Decided] = state.decided
        self.rekeyed: dict[str, KeyedInput] | None = None
        self.redecided: dict[str, Decided] | None = None
        self.runs: Mapping[str, KeyedInput] = state.runs
        self.rerun: dict[str, KeyedInput] | None = None
        self.starts: Growing[int] = state.starts
        self.edits: Growing[Edit] = state.edits
        self.parent: ParentCall | None = state.parent
        self.switches: Growing[Switch] = state.switches
        self.carried: Carried | None = state.carried
        self.said: list[Message] = []
        self.spoken: int = len(state.transcript)
        self.began: list[int] = []

    def folded(self) -> SessionState:
        if self.said:
            self.transcript = self.transcript.extended(self.said)
        if self.began:
            self.starts = self.starts.extended(self.began)
        return SessionState(
            self.agent,
            self.tenant,
            self.configured,
            self.transcript,
            self.queued,
            self.turn,
            self.turns,
            self.ended,
            self.keyed if self.rekeyed is None else self.rekeyed,
            self.decided if self.redecided is None else self.redecided,
            self.usage,
            self.discarded_usage,
            self.application,
            self.unfolded,
            self.starts,
            self.edits,
            self.parent,
            self.switches,
            self.carried,
            self.runs if self.rerun is None else self.rerun,
        )

    @property
    def active(self) -> str:
        """The agent that goes on with the next turn."""
        return self.agent if self.switches.last is None else self.switches.last.agent

    @property
    def length(self) -> int:
        return self.spoken + len(self.said)

    def reaches(self, base: int) -> bool:
        """Whether there are messages, or turns that begin, from ``base`` on."""
        began = self.began[-1] if self.began else self.starts.last
        return self.length > base or (began is not None and began >= base)

    def take_back(self, base: int) -> None:
        """Go back to the first ``base`` messages."""
        self.transcript = self.transcript.extended(self.said).first(base)
        self.said, self.spoken = [], len(self.transcript)

    def written(self) -> tuple[Transcript, Growing[int]]:
        """All messages so far, and the places at which turns begin."""
        self.transcript = self.transcript.extended(self.said)
        self.starts = self.starts.extended(self.began)
        self.said, self.spoken, self.began = [], len(self.transcript), []
        return self.transcript, self.starts

    def switch(self, agent: str) -> None:
        """Let another agent go on from here."""
        self.switches = self.switches.extended((Switch(self.length, agent),))

    def edit(
        self,
        kept: int,
        messages: Iterable[Message] = (),
        starts: Iterable[int] = (),
        switches: Iterable[Switch] = (),
    ) -> None:
        """Let other messages, turns that begin elsewhere, and other switches follow the first
        ``kept`` messages. What followed them is noted."""
        transcript, places = self.written()
        first = bisect_left(places, kept)
        staying = bisect_right(self.switches, kept, key=_place)
        gone = Edit(kept, transcript[kept:], places[first:], self.switches[staying:])
        self.edits = self.edits.extended((gone,))
        if gone.switches or switches:
            self.switches = self.switches.first(staying).extended(switches)
        self.transcript, self.spoken, self.said = transcript.first(kept), kept, list(messages)
        self.starts, self.began = places.first(first), list(starts)
        if self.carried is not None and self.carried.covers > kept:
            self.carried = None

    def forget_ended(self, kept: int) -> None:
        """Forget how turns ended that are not all among the first ``kept`` messages, those that
        were dropped after these included: their keys and run ids are free."""
        if self.ended is not None and _is_cut(self.ended, kept):
            self.ended = None
        for key, known in [*(self.keyed if self.rekeyed is None else self.rekeyed).items()]:
            if known.ended is not None and _is_cut(known.ended, kept):
                del self.own_keys()[key]
        for run_id, run in [*(self.runs if self.rerun is None else self.rerun).items()]:
            if run.ended is not None and _is_cut(run.ended, kept):
                del self.own_runs()[run_id]

    def take(self, ids: tuple[str, ...]) -> tuple[QueuedInput, ...]:
        """Take these inputs out of the queue."""
        queued = self.queued
        if len(queued) == 1 and queued[0].input_id in ids:  # as nearly always
            self.queued = ()
            return queued
        self.queued = tuple([each for each in queued if each.input_id not in ids])
        return tuple([each for each in queued if each.input_id in ids])

    def edit_call(self, call: ToolCall) -> None:
        """Put a call in place of the one with its id in the last message, which asked for it: the
        model is to see what runs."""
        last = self.said[-1] if self.said else self.transcript.last
        assert isinstance(last, AssistantMessage)
        calls = tuple([call if each.id == call.id else each for each in last.tool_calls])
        self.take_back(self.length - 1)
        self.said.append(replace(last, tool_calls=calls))

    def rekey(self, inputs: Iterable[QueuedInput], ended: EndedTurn | None) -> None:
        """Note of the inputs that have a key how their turn ended; None: their keys are free."""
        for each in inputs:
            if each.key and ended is None:
                self.own_keys().pop(each.key, None)
            elif each.key:
                self.own_keys()[each.key] = KeyedInput(each.input_id, each.content, ended)

    def end_run(self, turn: OpenTurn, ended: EndedTurn) -> None:
        """Note how the turn's run ended, if it is one."""
        if turn.run_id:
            first = next((each for each in turn.inputs if each.run_id == turn.run_id), None)
            if first is not None:
                self.own_runs()[turn.run_id] = KeyedInput(first.input_id, first.content, ended)

    def forget_run(self, run_id: str) -> None:
        """Forget how a run ended, as its id names another one from now on."""
        if run_id in (self.runs if self.rerun is None else self.rerun):
            del self.own_runs()[run_id]

    def own_runs(self) -> dict[str, KeyedInput]:
        """The runs that ended as a dictionary that no state holds yet."""
        if self.rerun is None:
            self.rerun = dict(self.runs)
        return self.rerun

    def own_keys(self) -> dict[str, KeyedInput]:
        """The keys as a dictionary that no state holds yet."""
        if self.rekeyed is None:
            self.rekeyed = dict(self.keyed)
        return self.rekeyed

    def own_decisions(self) -> dict[str, Decided]:
        """The decisions as a dictionary that no state holds yet."""
        if self.redecided is None:
            self.redecided = dict(self.decided)
        return self.redecided

    @property
    def owes_results(self) -> bool:
        """Whether calls lack results: then nothing may come between."""
        return self.turn is not None and bool(self.turn.calls)


def _place(switch: Switch) -> int:
    return switch.place


def _is_cut(ended: EndedTurn, kept: int) -> bool:
    return ended.length > kept or ended.base >= kept
