"""What user code returned or raised, as it is recorded."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..events.errors import ToolError, Unstorable
from ..events.messages import NO_USAGE, Outcome, Usage
from ..events.values import plain


class ToolDone(Struct, frozen=True):
    """How a tool call ended, as plain data, and what a sub-agent used for it."""

    outcome: Outcome
    content: Any
    usage: Usage = NO_USAGE


def tool_done(value: object) -> ToolDone:
    """The result of a tool that returned ``value``."""
    try:
        return ToolDone("ok", plain(value, "result"))
    except Exception as error:  # a result may have code of its own, such as model_dump
        why = str(error) if isinstance(error, Unstorable) else described(error)
        return ToolDone("error", f"The tool ran, but its result can't be recorded: {why}")


def described(error: BaseException) -> str:
    """What was raised, in words for the model and for whoever reads the stream."""
    text = text_of(error)
    if isinstance(error, ToolError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(error: BaseException) -> str:
    """Its text, empty where it can't tell: an error may have code of its own."""
    try:
        return str(error)
    except Exception:
        return ""
