"""turnstream: durable AI-agent sessions as event-sourced actors.

Importing this package loads nothing. Each public name is fetched from its folder
(``actors``, ``stores``, ``projections`` or ``events``) when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .actors import ActorSystem as ActorSystem
    from .actors import Agent as Agent
    from .actors import Handoff as Handoff
    from .actors import Hooks as Hooks
    from .actors import Journal as Journal
    from .actors import JournalRun as JournalRun
    from .actors import Model as Model
    from .actors import ModelRequest as ModelRequest
    from .actors import Patch as Patch
    from .actors import ReasoningDelta as ReasoningDelta
    from .actors import Refused as Refused
    from .actors import Session as Session
    from .actors import StreamItem as StreamItem
    from .actors import TextDelta as TextDelta
    from .actors import Tool as Tool
    from .actors import ToolCallDelta as ToolCallDelta
    from .actors import ToolContext as ToolContext
    from .actors import ToolResultPatch as ToolResultPatch
    from .actors import Turn as Turn
    from .actors import TurnResult as TurnResult
    from .actors import compare as compare
    from .actors import import_transcript as import_transcript
    from .actors import replay as replay
    from .actors import tool as tool
    from .events import AssistantMessage as AssistantMessage
    from .events import FilePart as FilePart
    from .events import ImagePart as ImagePart
    from .events import MailboxFull as MailboxFull
    from .events import Message as Message
    from .events import ModelFailed as ModelFailed
    from .events import ModelTurn as ModelTurn
    from .events import RecordedEvent as RecordedEvent
    from .events import SessionError as SessionError
    from .events import StoreError as StoreError
    from .events import SystemClosed as SystemClosed
    from .events import TextPart as TextPart
    from .events import ToolCall as ToolCall
    from .events import ToolMessage as ToolMessage
    from .events import TurnError as TurnError
    from .events import TurnstreamError as TurnstreamError
    from .events import Usage as Usage
    from .events import UserMessage as UserMessage
    from .events import WouldDeadlock as WouldDeadlock
    from .projections import Checkpoint as Checkpoint
    from .projections import Pending as Pending
    from .projections import View as View

    __version__: str

_ROOMS = {
    "ActorSystem": "actors",
    "Agent": "actors",
    "AssistantMessage": "events",
    "Checkpoint": "projections",
    "FilePart": "events",
    "Handoff": "actors",
    "Hooks": "actors",
    "ImagePart": "events",
    "Journal": "actors",
    "JournalRun": "actors",
    "MailboxFull": "events",
    "Message": "events",
    "Model": "actors",
    "ModelFailed": "events",
    "ModelRequest": "actors",
    "ModelTurn": "events",
    "Patch": "actors",
    "Pending": "projections",
    "ReasoningDelta": "actors",
    "RecordedEvent": "events",
    "Refused": "actors",
    "Session": "actors",
    "SessionError": "events",
    "StoreError": "events",
    "StreamItem": "actors",
    "SystemClosed": "events",
    "TextDelta": "actors",
    "TextPart": "events",
    "Tool": "actors",
    "ToolCall": "events",
    "ToolCallDelta": "actors",
    "ToolContext": "actors",
    "ToolMessage": "events",
    "ToolResultPatch": "actors",
    "Turn": "actors",
    "TurnError": "events",
    "TurnResult": "actors",
    "TurnstreamError": "events",
    "Usage": "events",
    "UserMessage": "events",
    "View": "projections",
    "WouldDeadlock": "events",
    "compare": "actors",
    "import_transcript": "actors",
    "replay": "actors",
    "tool": "actors",
}
__all__ = [
    "ActorSystem",
    "Agent",
    "AssistantMessage",
    "Checkpoint",
    "FilePart",
    "Handoff",
    "Hooks",
    "ImagePart",
    "Journal",
    "JournalRun",
    "MailboxFull",
    "Message",
    "Model",
    "ModelFailed",
    "ModelRequest",
    "ModelTurn",
    "Patch",
    "Pending",
    "ReasoningDelta",
    "RecordedEvent",
    "Refused",
    "Session",
    "SessionError",
    "StoreError",
    "StreamItem",
    "SystemClosed",
    "TextDelta",
    "TextPart",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolMessage",
    "ToolResultPatch",
    "Turn",
    "TurnError",
    "TurnResult",
    "TurnstreamError",
    "Usage",
    "UserMessage",
    "View",
    "WouldDeadlock",
    "compare",
    "import_transcript",
    "replay",
    "tool",
]

if not TYPE_CHECKING:  # or any misspelt name would pass a type check

    def __getattr__(name: str) -> object:
        if name in _ROOMS:
            return getattr(import_module(f"turnstream.{_ROOMS[name]}"), name)
        if name == "__version__":
            from importlib.metadata import version

            return version("turnstream")
        raise AttributeError(f"module 'turnstream' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
