"""The runtime: sessions as actors.

This layer knows all the others, and is the only one with threads, clocks and effects. What
happens next is decided by pure functions (``decider``); everything else here carries it out.
"""

from .agent import Agent
from .choosing import AgentContext
from .comparing import Comparable, compare
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
    "import_transcript",
    "replay",
    "tool",
    "transcript_events",
]
