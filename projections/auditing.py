"""Whether a stream obeys the rules: every event legal where it stands, every transcript valid.

``evolve`` never raises and passes over what it can't use. Here such an event is named. The work
grows with the stream and not with its square: of a transcript that grew, what is new is looked at.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from ..events.chain import digest
from ..events.erasing import unvouched
from ..events.errors import IllegalTransition
from ..events.messages import AssistantMessage, ToolMessage
from ..events.session import (
    AgentHandedOff,
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    ContentErased,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    ModelTurnRecorded,
    SessionEvent,
    StateChanged,
    StepRecorded,
    ToolCallStarted,
    ToolResultRecorded,
    TurnStarted,
    UnknownEvent,
)
from .open_turn import (
    OpenTurn,
    Running,
    Settled,
)
from .phases import TRANSITIONS, check_transition
from .session import evolve
from .state import (
    INITIAL,
    SessionState,
)
from .transcript import Transcript

RuleKind: TypeAlias = Literal["transition", "pairing", "approval", "erasure"]


class Breach(NamedTuple):
    """An event against the rules."""

    kind: RuleKind
    version: int
    reason: str


class Audit:
    """Looks at the events of one stream, in order. ``state`` is their fold; ``breach`` the first
    event against the rules, None where all are fine; ``unknown`` are the versions of those this
    version can't judge."""

    def __init__(self) -> None:
        self.state: SessionState = INITIAL
        self.breach: Breach | None = None
        self.unknown: list[int] = []
        self.sayings: list[tuple[int, ContentErased]] = []
        self._erased: dict[int, str] = {}
        self._names: set[tuple[str, str]] = set()
        self._pairing = _Pairing()

    def take(self, version: int, topic: str, payload: bytes, event: AnyEvent) -> None:
        """Look at the next event, which is stored like this."""
        before, self.state = self.state, evolve(self.state, event)
        if isinstance(event, UnknownEvent):
            self.unknown.append(version)
            return
        if event.erased:
            self._erased[version] = digest(topic, version, payload)
        if isinstance(event, ContentErased):
            self.sayings.append((version, event))
            self._look_back(version, event)
        if self.breach is None and not before.unfolded:
            self.breach = self._judged(before, version, event)

    def unvouched(self, elsewhere: list[tuple[int, ContentErased]]) -> list[int]:
        """The erased versions that no ``ContentErased`` vouches for, here or ``elsewhere``."""
        return unvouched(self._erased, [*elsewhere, *self.sayings])

    def _look_back(self, version: int, event: ContentErased) -> None:
        """What is said to be erased has to be."""
        there = [each for each in event.versions if each not in self._erased]
        if there and self.breach is None:
            reason = f"its content was erased by version {version}, and is there again"
            self.breach = Breach("erasure", there[0], reason)

    def _judged(self, before: SessionState, version: int, event: SessionEvent) -> Breach | None:
        if reason := _illegal(before, event, self.state):
            return Breach("transition", version, reason)
        if reason := _undecidable(before, event):
            return Breach("approval", version, reason)
        unpaired = self._named_before(event) or _unpaired(before, event)
        if reason := unpaired or self._pairing.fault(self.state):
            return Breach("pairing", version, reason)
        return None

    def _named_before(self, event: SessionEvent) -> str:
        match event:
            case InputQueued(input_id=name):
                named = ("input", name)
            case TurnStarted(turn_id=name):
                named = ("turn", name)
            case _:
                return ""
        if named in self._names:
            return f"{named[0]} {name!r} was there before"
        self._names.add(named)
        return ""


def _illegal(before: SessionState, event: SessionEvent, after: SessionState) -> str:
    try:
        check_transition(before.phase, event)
    except IllegalTransition as error:
        return str(error)
    if after.unfolded:
        return f"{type(event).__name__} can't be folded where it stands"
    leads = TRANSITIONS[before.phase][type(event)] or {before.phase}
    if after.phase not in leads:
        return f"{type(event).__name__} leads from {before.phase.value} to {after.phase.value}"
    return ""


def _undecidable(before: SessionState, event: SessionEvent) -> str:
    match event:
        case ApprovalRequested(approval_id=asked) if asked in before.decided:
            return f"approval {asked!r} is asked for once more"
        case ApprovalResolved(approval_id=asked) | ApprovalWithdrawn(approval_id=asked):
            if asked in before.decided:
                return f"approval {asked!r} was decided before"
            gated = before.turn.gated if before.turn is not None else []
            if not any(each.approval_id == asked for _, each in gated):
                return f"approval {asked!r} was never asked for"
        case _:
            pass
    return ""


def _unpaired(before: SessionState, event: SessionEvent) -> str:
    turn, named = before.turn, getattr(event, "turn_id", None)
    if isinstance(event, StateChanged) and not event.call_id:
        named = None  # it is from outside, and about no turn
    if turn is not None and named is not None and named != turn.turn_id:
        return f"it is about turn {named!r} while {turn.turn_id!r} is open"
    match event:
        case TurnStarted(input_ids=ids):
            return _not_queued(before, ids)
        case InputApplied(input_id=input_id) | InputWithdrawn(input_id=input_id):
            return _not_queued(before, (input_id,))
        case ModelTurnRecorded(step=step) if turn is not None and step != turn.steps + 1:
            return f"step {step} is recorded where step {turn.steps + 1} is due"
        case ToolCallStarted(call_id=call_id) | ToolResultRecorded(call_id=call_id):
            calls = turn.calls if turn is not None else ()
            found = [each.stage for each in calls if each.call.id == call_id]
            if not found:
                return f"call {call_id!r} is not open"
            if isinstance(found[0], Settled):
                return f"call {call_id!r} has its result already"
        case StepRecorded() | StateChanged():
            return _not_running(turn, event)
        case AgentHandedOff():
            return _misled(before, event)
        case _:
            pass
    return ""


def _not_running(turn: OpenTurn | None, event: StepRecorded | StateChanged) -> str:
    calls, call_id = turn.calls if turn is not None else (), event.call_id
    if call_id in [each.call.id for each in calls if isinstance(each.stage, Running)]:
        return ""
    if isinstance(event, StateChanged):
        return f"the state is changed by call {call_id!r}, which does not run" if call_id else ""
    if turn is not None and (call_id or turn.calls):
        return f"a step of call {call_id!r} is recorded, which does not run"
    return ""


def _misled(before: SessionState, event: AgentHandedOff) -> str:
    turn = before.turn
    if turn is None or event.source != turn.agent:
        return f"it is a hand-off by {event.source!r}, and that is not the agent that goes on"
    asked = turn.handoff
    if event.applied and (asked is None or event.target != asked.agent):
        return f"agent {event.target!r} goes on, and nobody handed over to it"
    if not event.applied and asked is not None:
        return f"agent {asked.agent!r} is to go on already"
    return ""


def _not_queued(before: SessionState, ids: tuple[str, ...]) -> str:
    waiting = {each.input_id for each in before.queued}
    missing = [each for each in ids if each not in waiting]
    return f"input {missing[0]!r} does not wait" if missing else ""


class _Pairing:
    """Calls and results of a transcript that grows: which results each prefix of it still owes."""

    def __init__(self) -> None:
        self._seen = Transcript()
        self._owed: list[tuple[str, ...]] = [()]

    def fault(self, state: SessionState) -> str:
        """What is wrong with the state's transcript; empty where it is valid."""
        said, common = state.transcript, self._unchanged(state.transcript)
        del self._owed[common + 1 :]
        for place in range(common, len(said)):
            owed, message = self._owed[-1], said[place]
            if isinstance(message, ToolMessage):
                if not owed or owed[0] != message.call_id:
                    return f"the result of call {message.call_id!r} is out of its place"
                owed = owed[1:]
            elif owed:
                return f"message {place} stands where the result of call {owed[0]!r} must be"
            elif isinstance(message, AssistantMessage):
                owed = tuple([call.id for call in message.tool_calls])
            self._owed.append(owed)
        self._seen = said
        if self._owed[-1] and (state.turn is None or not state.turn.calls):
            return f"call {self._owed[-1][0]!r} has no result"
        return ""

    def _unchanged(self, said: Transcript) -> int:
        """How many messages at the start are those seen before."""
        seen = self._seen
        common = min(len(seen), len(said))
        while common and seen[common - 1] is not said[common - 1]:
            common -= 1
        return common
