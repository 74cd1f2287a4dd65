"""Pure folds over events.

Nothing here knows a store, a thread or a clock: a projection is a function of the events and of
nothing else. This layer imports ``events`` only.
"""

from .auditing import Audit, Breach
from .checkpoint import Checkpoint, Step, checkpoints, last_settled, steps
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
from .growing import Growing
from .open_turn import (
    Approved,
    Gated,
    Halt,
    InDoubt,
    OpenCall,
    OpenTurn,
    QueuedInput,
    Requested,
    Running,
    Settled,
    Stage,
    TakenStep,
    Transfer,
)
from .phases import TRANSITIONS, Phase, check_transition
from .read_model import MemoryRows, ReadModel, Rows, project
from .session import evolve, fold
from .snapshot import FOLD, Folded, dump_snapshot, load_snapshot
from .state import (
    INITIAL,
    Carried,
    Decided,
    Edit,
    EndedTurn,
    KeyedInput,
    SessionState,
    Switch,
)
from .trajectory import Course, Trajectory, TrajectoryCall, TrajectoryStep, course, trajectory_steps
from .transcript import Transcript, check_transcript
from .usage import SessionUsage, evolve_usage, fold_usage
from .usage_by_day import DiscardedUsage, ModelUsage, ToolUsage, UsageByDay
from .view import Pending, View

__all__ = [
    "FOLD",
    "INITIAL",
    "TRANSITIONS",
    "Approved",
    "ArgumentDrift",
    "Audit",
    "Breach",
    "Carried",
    "Checkpoint",
    "Comparison",
    "Course",
    "Decided",
    "DiscardedUsage",
    "Drift",
    "Edit",
    "EndedTurn",
    "FinishReasonDrift",
    "Folded",
    "Gated",
    "Growing",
    "Halt",
    "InDoubt",
    "KeyedInput",
    "MemoryRows",
    "ModelUsage",
    "OpenCall",
    "OpenTurn",
    "Pending",
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
    "Step",
    "StepCountDrift",
    "StepDrift",
    "Switch",
    "TakenStep",
    "ToolOrderDrift",
    "ToolUsage",
    "Trajectory",
    "TrajectoryCall",
    "TrajectoryStep",
    "Transcript",
    "Transfer",
    "UsageByDay",
    "View",
    "check_transcript",
    "check_transition",
    "checkpoints",
    "compare_trajectories",
    "course",
    "dump_snapshot",
    "evolve",
    "evolve_usage",
    "fold",
    "fold_usage",
    "last_settled",
    "load_snapshot",
    "project",
    "steps",
    "trajectory_steps",
]
