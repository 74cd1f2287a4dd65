"""Pure folds over events.

Nothing here knows a store, a thread or a clock: a projection is a function of the events and of
nothing else. This layer imports ``events`` only.
"""

from .auditing import Audit, Breach
from .checkpoint import Checkpoint, checkpoints
from .phases import TRANSITIONS, Phase, check_transition
from .session import evolve, fold
from .state import (
    INITIAL,
    Approved,
    Decided,
    EndedTurn,
    Gated,
    Halt,
    InDoubt,
    KeyedInput,
    OpenCall,
    OpenTurn,
    QueuedInput,
    Requested,
    Running,
    SessionState,
    Settled,
    Stage,
)
from .transcript import Transcript, check_transcript
from .usage import SessionUsage, evolve_usage, fold_usage

__all__ = [
    "INITIAL",
    "TRANSITIONS",
    "Approved",
    "Audit",
    "Breach",
    "Checkpoint",
    "Decided",
    "EndedTurn",
    "Gated",
    "Halt",
    "InDoubt",
    "KeyedInput",
    "OpenCall",
    "OpenTurn",
    "Phase",
    "QueuedInput",
    "Requested",
    "Running",
    "SessionState",
    "SessionUsage",
    "Settled",
    "Stage",
    "Transcript",
    "check_transcript",
    "check_transition",
    "checkpoints",
    "evolve",
    "evolve_usage",
    "fold",
    "fold_usage",
]
