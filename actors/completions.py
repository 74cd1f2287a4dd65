"""How the end of a call is told: as one command, in plain data.

What user code returned or raised is looked at where it ran, not in the actor.
"""

from __future__ import annotations

from ..events.errors import (
    ContextTooLong,
    HookFailed,
    InvalidModelTurn,
    ModelFailed,
    ModelRefused,
    ModelStreamEnded,
    ModelTimedOut,
    ModelUnavailable,
)
from ..events.messages import Usage
from ..events.session import ToolCallStarted
from ..events.values import is_light
from .commands import (
    Command,
    ModelAnswered,
    ModelBroke,
    SubAgentLeft,
    SubAgentPaused,
    ToolReturned,
)
from .effects import Abandoned, Cancelled, NotRun, Raised, Returned, Settled, TimedOut
from .models import ModelRequest, is_usage, model_turn
from .outcomes import ToolDone, described, text_of, tool_done
from .ready import ReadyAgent
from .sub_agents import SubAgentGone, SubAgentWaits
from .tools import Tool

_TRANSIENT = (ModelStreamEnded, ModelUnavailable)
_MODEL_ERRORS = (
    *_TRANSIENT,
    ModelRefused,
    ContextTooLong,
    InvalidModelTurn,
    ModelFailed,
    HookFailed,
)


def failure_of(settled: Settled) -> ModelStreamEnded | ModelUnavailable | None:
    """Why a model call came to nothing, where asking again may help."""
    if isinstance(settled, Raised) and isinstance(settled.error, _TRANSIENT):
        return settled.error
    return None


def model_command(
    settled: Settled, request: ModelRequest, attempt: int, ready: ReadyAgent, used: Usage | None
) -> tuple[Command, BaseException | None]:
    """How a model call ended, and the exception behind it. ``used`` is what it is known to have
    used before it ended."""
    key = (request.turn_id, request.step, attempt)
    match settled:
        case Returned(value=value):
            try:
                return ModelAnswered(*key, ready.configured.model, model_turn(value)), None
            except Exception as error:  # the answer is user code's, down to its __iter__
                return ModelBroke(*key, InvalidModelTurn.code, described(error)), error
        case Raised(error=error):
            usage, transient = _usage(error) or used, failure_of(settled) is not None
            why, text = _model_error(error)
            return ModelBroke(*key, why, text, transient=transient, usage=usage), error
        case TimedOut():
            too_long = f"the model took longer than {ready.agent.model_timeout:g} seconds"
            return ModelBroke(*key, ModelTimedOut.code, too_long, usage=used), None
        case _:
            return ModelBroke(*key, ModelFailed.code, "the model call was cancelled"), None


def _model_error(error: BaseException) -> tuple[str, str]:
    """The code that the turn fails with, one that callers get an error of its own for, and why.
    Only what says nothing of itself is named by its class."""
    known = next((each for each in _MODEL_ERRORS if isinstance(error, each)), None)
    if known is None:
        return ModelFailed.code, described(error)
    return known.code, text_of(error) or described(error)


def _usage(error: BaseException) -> Usage | None:
    """What a call cost that came to nothing, where its error tells."""
    try:
        usage = getattr(error, "usage", None)
    except Exception:  # an error may have code of its own
        return None
    return usage if isinstance(usage, Usage) and is_usage(usage) else None


def takes_long(settled: Settled) -> bool:
    """Whether to tell how a tool call ended would keep the loop on which it did."""
    match settled:
        case Returned(value=ToolDone() | SubAgentWaits() | SubAgentGone()):
            return False
        case Returned(value=value):
            return not is_light(value)
        case _:
            return False


def tool_command(settled: Settled, event: ToolCallStarted, tool: Tool) -> Command:
    """How a tool call ended."""
    key = (event.turn_id, event.call_id, event.attempt)
    match settled:
        case Returned(value=SubAgentWaits(asked=asked)):
            return SubAgentPaused(*key, asked)
        case Returned(value=SubAgentGone()):
            return SubAgentLeft()
        case Returned(value=value):
            done = value if isinstance(value, ToolDone) else tool_done(value)
            return ToolReturned(*key, done.outcome, done.content, done.usage)
        case Raised(error=error):
            return ToolReturned(*key, "error", described(error))
        case TimedOut():
            return ToolReturned(
                *key,
                "error",
                f"The tool took longer than {tool.options.timeout:g} seconds. It may still take "
                "effect.",
            )
        case NotRun():
            return ToolReturned(*key, "cancelled", "Not run: the turn was stopped.")
        case Cancelled():
            return ToolReturned(*key, "cancelled", "Stopped while it ran.")
        case Abandoned():
            return ToolReturned(
                *key, "cancelled", "It could not be stopped and may still take effect."
            )
