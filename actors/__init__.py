"""The runtime: sessions as actors.

This layer knows all the others, and is the only one with threads, clocks and effects. What
happens next is decided by pure functions (``decider``); everything else here carries it out.
"""

from .agent import Agent
from .archive_reading import ImportedSession, import_events
from .atif import export_trajectory
from .atif_reading import import_trajectory
from .auditing import Audited, Finding, audit_session, audit_store
from .choosing import AgentContext
from .comparing import Comparable, compare
from .context import Context, ContextPolicy, Shrunk, last_turns, summarised
from .exporting import export_chat, export_events
from .forking import Lineage
from .handles import Session
from .handoff import Handoff
from .hooks import Hooks, Refused, Rest, Stretch
from .importing import import_transcript, transcript_events
from .journal import Journal
from .journal_run import JournalRun
from .logging_context import CallFilter
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
from .replaying import RefusedCall, Replayed, ReplayedStep, replay
from .restoring import Restored, restore_rows
from .results import (
    AgentChanged,
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
from .tool_context import ToolContext
from .tools import NOT_DONE, Tool, tool
from .turns import Reply, Turn, TurnStream

__all__ = [
    "NOT_DONE",
    "ActorSystem",
    "Agent",
    "AgentChanged",
    "AgentContext",
    "ApprovalShown",
    "Audited",
    "CallFilter",
    "Comparable",
    "Context",
    "ContextPolicy",
    "Delta",
    "ErrorShown",
    "EventSubscription",
    "Finding",
    "Handoff",
    "Hooks",
    "ImportedSession",
    "InputJoined",
    "InputShown",
    "Journal",
    "JournalRun",
    "Lineage",
    "Model",
    "ModelRequest",
    "ModelTurnShown",
    "Patch",
    "Projector",
    "Pruned",
    "ReasoningDelta",
    "ReasoningEmitted",
    "Refused",
    "RefusedCall",
    "Replayed",
    "ReplayedStep",
    "Reply",
    "Rest",
    "Restored",
    "Session",
    "Shrunk",
    "StreamItem",
    "Stretch",
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
    "compare",
    "export_chat",
    "export_events",
    "export_trajectory",
    "import_events",
    "import_trajectory",
    "import_transcript",
    "last_turns",
    "prune",
    "replay",
    "restore_rows",
    "summarised",
    "tool",
    "transcript_events",
]
