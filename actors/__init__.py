"""The runtime: sessions as actors.

This layer knows all the others, and is the only one with threads, clocks and effects. What
happens next is decided by pure functions (``decider``); everything else here carries it out.
"""

from .agent import Agent
from .atif import export_trajectory
from .atif_reading import import_trajectory
from .choosing import AgentContext
from .comparing import Comparable, compare
from .exporting import export_chat, export_events
from .handles import Pending, Session, View
from .importing import import_transcript, transcript_events
from .models import (
    Delta,
    Model,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from .replaying import RefusedCall, Replayed, ReplayedStep, replay
from .restoring import Restored, import_events
from .results import (
    ApprovalShown,
    ErrorShown,
    InputJoined,
    InputShown,
    ModelTurnShown,
    ReasoningEmitted,
    StreamItem,
    TextEmitted,
    ToolBegan,
    ToolEnded,
    TurnBegan,
    TurnDone,
    TurnResult,
)
from .system import ActorSystem, EventSubscription
from .tools import NOT_DONE, Tool, ToolContext, tool
from .turns import Reply, Turn, TurnStream

__all__ = [
    "NOT_DONE",
    "ActorSystem",
    "Agent",
    "AgentContext",
    "ApprovalShown",
    "Comparable",
    "Delta",
    "ErrorShown",
    "EventSubscription",
    "InputJoined",
    "InputShown",
    "Model",
    "ModelRequest",
    "ModelTurnShown",
    "Pending",
    "ReasoningDelta",
    "ReasoningEmitted",
    "RefusedCall",
    "Replayed",
    "ReplayedStep",
    "Reply",
    "Restored",
    "Session",
    "StreamItem",
    "TextDelta",
    "TextEmitted",
    "Tool",
    "ToolBegan",
    "ToolCallDelta",
    "ToolContext",
    "ToolEnded",
    "Turn",
    "TurnBegan",
    "TurnDone",
    "TurnResult",
    "TurnStream",
    "View",
    "compare",
    "export_chat",
    "export_events",
    "export_trajectory",
    "import_events",
    "import_trajectory",
    "import_transcript",
    "replay",
    "tool",
    "transcript_events",
]
