"""The runtime: sessions as actors.

This layer knows all the others, and is the only one with threads, clocks and effects. What
happens next is decided by pure functions (``decider``); everything else here carries it out.
"""

from .agent import Agent
from .choosing import AgentContext
from .forking import Lineage
from .handles import Session
from .importing import import_transcript, transcript_events
from .models import (
    Delta,
    Model,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from .patching import Patch, ToolResultPatch
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
    "Delta",
    "ErrorShown",
    "EventSubscription",
    "InputJoined",
    "InputShown",
    "Lineage",
    "Model",
    "ModelRequest",
    "ModelTurnShown",
    "Patch",
    "ReasoningDelta",
    "ReasoningEmitted",
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
    "ToolResultPatch",
    "Turn",
    "TurnBegan",
    "TurnDone",
    "TurnResult",
    "TurnStream",
    "import_transcript",
    "tool",
    "transcript_events",
]
