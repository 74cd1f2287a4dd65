"""Pure folds over events.

Nothing here knows a store, a thread or a clock: a projection is a function of the events and of
nothing else. This layer imports ``events`` only.
"""

from .checkpoint import Checkpoint, checkpoints
from .phases import TRANSITIONS, Phase, check_transition
from .read_model import MemoryRows, ReadModel, Rows, project
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
from .usage_by_day import DiscardedUsage, ModelUsage, ToolUsage, UsageByDay

__all__ = [
    "INITIAL",
    "TRANSITIONS",
    "Approved",
    "Checkpoint",
    "Decided",
    "DiscardedUsage",
    "EndedTurn",
    "Gated",
    "Halt",
    "InDoubt",
    "KeyedInput",
    "MemoryRows",
    "ModelUsage",
    "OpenCall",
    "OpenTurn",
    "Phase",
    "QueuedInput",
    "ReadModel",
    "Requested",
    "Rows",
    "Running",
    "SessionState",
    "SessionUsage",
    "Settled",
    "Stage",
    "ToolUsage",
    "Transcript",
    "UsageByDay",
    "check_transcript",
    "check_transition",
    "checkpoints",
    "evolve",
    "evolve_usage",
    "fold",
    "fold_usage",
    "project",
]
