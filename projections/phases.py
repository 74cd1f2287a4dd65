"""The legal transitions of a session, as one table.

``TRANSITIONS[phase]`` names every event that may happen in a phase and the phases it can lead
to. The decider records nothing the table does not allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ..events.errors import IllegalTransition
from ..events.session import (
    AgentConfigured,
    AgentDriftDetected,
    AgentHandedOff,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalWithdrawn,
    ContentErased,
    ContextCarried,
    Event,
    ForkPatched,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    ModelCallDiscarded,
    ModelTurnRecorded,
    OutputRefused,
    SessionCleared,
    SessionRewound,
    SessionStarted,
    StateChanged,
    StepRecorded,
    ToolCallStarted,
    ToolResultRecorded,
    ToolResultsTrimmed,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
)


class Phase(Enum):
    """What a session waits for."""

    IDLE = "idle"
    """Nothing is unfinished: the next input starts a turn."""
    MODEL = "model"
    """A turn is open and every call has its result: the model's answer is due."""
    TOOLS = "tools"
    """A turn is open and calls lack results."""
    PAUSED = "paused"
    """A turn is open, and calls wait for a decision: nothing happens before it."""
    ANSWERED = "answered"
    """A turn is open and its final answer is recorded: the turn ends."""
    HALTED = "halted"
    """A turn failed or was stopped, and is kept for ``resume``."""


_ANYWHERE: Mapping[type[Event], Phase | None] = {
    InputQueued: None,
    InputWithdrawn: None,
    AgentConfigured: None,
    StateChanged: None,
    ToolResultsTrimmed: None,
    ContentErased: None,
}
_DECISIONS: tuple[type[Event], ...] = (ApprovalResolved, ApprovalWithdrawn)


def _phase(
    *staying: type[Event], **leading: tuple[type[Event], ...]
) -> Mapping[type[Event], frozenset[Phase] | None]:
    table: dict[type[Event], frozenset[Phase] | None] = dict.fromkeys((*_ANYWHERE, *staying))
    for name, events in leading.items():
        for event in events:
            table[event] = (table.get(event) or frozenset()) | {Phase[name]}
    return table


TRANSITIONS: Mapping[Phase, Mapping[type[Event], frozenset[Phase] | None]] = {
    Phase.IDLE: _phase(
        SessionStarted, ForkPatched, SessionRewound, SessionCleared, MODEL=(TurnStarted,)
    ),
    Phase.MODEL: _phase(
        InputApplied,
        ContextCarried,
        ModelCallDiscarded,
        AgentDriftDetected,
        StepRecorded,
        AgentHandedOff,
        MODEL=(TurnResumed,),
        TOOLS=(ModelTurnRecorded,),
        ANSWERED=(ModelTurnRecorded,),
        IDLE=(TurnFinished, TurnFailed, TurnAborted),
        HALTED=(TurnFailed, TurnAborted, SessionStarted),
    ),
    Phase.ANSWERED: _phase(
        AgentDriftDetected,
        MODEL=(OutputRefused,),
        ANSWERED=(TurnResumed,),
        IDLE=(TurnFinished, TurnFailed, TurnAborted),
        HALTED=(TurnFailed, TurnAborted, SessionStarted),
    ),
    Phase.TOOLS: _phase(
        ToolCallStarted,
        StepRecorded,
        AgentDriftDetected,
        AgentHandedOff,
        MODEL=(ToolResultRecorded,),
        TOOLS=(ToolResultRecorded, TurnResumed, ApprovalRequested, *_DECISIONS),
        PAUSED=(ToolResultRecorded, ApprovalRequested, *_DECISIONS),
        IDLE=(TurnFailed, TurnAborted),
        HALTED=(TurnFailed, TurnAborted, SessionStarted),
    ),
    Phase.PAUSED: _phase(
        AgentDriftDetected,
        AgentHandedOff,
        ApprovalRequested,
        MODEL=(ToolResultRecorded,),
        TOOLS=(ToolResultRecorded, ToolCallStarted, *_DECISIONS),
        PAUSED=(ToolResultRecorded, TurnResumed, *_DECISIONS),
        IDLE=(TurnAborted,),
        HALTED=(TurnAborted, SessionStarted),
    ),
    Phase.HALTED: _phase(
        SessionStarted,
        ForkPatched,
        AgentDriftDetected,
        ToolResultRecorded,
        ApprovalWithdrawn,
        MODEL=(TurnResumed,),
        TOOLS=(TurnResumed,),
        PAUSED=(TurnResumed,),
        ANSWERED=(TurnResumed,),
        IDLE=(TurnAborted,),
    ),
}


def check_transition(phase: Phase, event: Event) -> None:
    """Raise ``IllegalTransition`` unless ``event`` may happen in ``phase``."""
    if type(event) not in TRANSITIONS[phase]:
        allowed = ", ".join(sorted(kind.__name__ for kind in TRANSITIONS[phase]))
        raise IllegalTransition(
            f"{type(event).__name__} can't happen while the session is {phase.value}; "
            f"what can: {allowed}"
        )
