"""Pure folds over events.

Nothing here knows a store, a thread or a clock: a projection is a function of the events and of
nothing else. This layer imports ``events`` only.
"""

from .checkpoint import Checkpoint, checkpoints
from .comparing import (
    ArgumentDrift,
    Comparison,
    Drift,
    FinishReasonDrift,
    StepCountDrift,
    StepDrift,
    ToolOrderDrift,
    compare_trajectories,
)
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
from .trajectory import Course, Trajectory, TrajectoryCall, TrajectoryStep, course, trajectory_steps
from .transcript import Transcript, check_transcript
from .usage import SessionUsage, evolve_usage, fold_usage

__all__ = [
    "INITIAL",
    "TRANSITIONS",
    "Approved",
    "ArgumentDrift",
    "Checkpoint",
    "Comparison",
    "Course",
    "Decided",
    "Drift",
    "EndedTurn",
    "FinishReasonDrift",
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
    "StepCountDrift",
    "StepDrift",
    "ToolOrderDrift",
    "Trajectory",
    "TrajectoryCall",
    "TrajectoryStep",
    "Transcript",
    "check_transcript",
    "check_transition",
    "checkpoints",
    "compare_trajectories",
    "course",
    "evolve",
    "evolve_usage",
    "fold",
    "fold_usage",
    "trajectory_steps",
]
