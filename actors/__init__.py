"""The runtime: sessions as actors.

This layer knows all the others, and is the only one with threads, clocks and effects. What
happens next is decided by pure functions (``decider``); everything else here carries it out.
"""

from .agent import Agent
from .auditing import Audited, Finding, audit_session, audit_store
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
from .projecting import Projector
from .restoring import Restored, restore_rows
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
from .retention import Pruned, prune
from .system import ActorSystem, EventSubscription
from .tools import NOT_DONE, Tool, ToolContext, tool
from .turns import Reply, Turn, TurnStream

__all__ = [
    "NOT_DONE",
    "ActorSystem",
    "Agent",
    "AgentContext",
    "ApprovalShown",
    "Audited",
    "Delta",
    "ErrorShown",
    "EventSubscription",
    "Finding",
    "InputJoined",
    "InputShown",
    "Lineage",
    "Model",
    "ModelRequest",
    "ModelTurnShown",
    "Patch",
    "Projector",
    "Pruned",
    "ReasoningDelta",
    "ReasoningEmitted",
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
    "ToolResultPatch",
    "Turn",
    "TurnBegan",
    "TurnDone",
    "TurnResult",
    "TurnStream",
    "audit_session",
    "audit_store",
    "import_transcript",
    "prune",
    "restore_rows",
    "tool",
    "transcript_events",
]
