"""Why a turn could not go on."""

from __future__ import annotations

from .root import TurnstreamError


class TurnError(TurnstreamError):
    """The turn could not go on."""

    code = "turn"


class ModelFailed(TurnError):
    """The model raised. The cause is chained."""

    code = "model-failed"


class ModelUnavailable(ModelFailed):
    """The provider can't answer now: it is overloaded, limits the rate, or can't be reached.
    Asking again may help, after ``retry_after`` seconds where the provider said so."""

    code = "model-unavailable"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        session_id: str = "",
        turn_id: str = "",
        call_id: str = "",
    ) -> None:
        super().__init__(message, session_id=session_id, turn_id=turn_id, call_id=call_id)
        self.retry_after = retry_after


class ModelRefused(ModelFailed):
    """The provider does not take the request, and would not take it again: a wrong key, an unknown
    model, a request it calls invalid."""

    code = "model-refused"


class ContextTooLong(ModelFailed):
    """The conversation is longer than the model can read."""

    code = "context-too-long"


class ModelStreamEnded(TurnError):
    """The model's stream ended without its closing turn."""

    code = "model-stream-ended"


class ModelTimedOut(TurnError):
    """The model took longer than the agent's ``model_timeout``."""

    code = "model-timed-out"


class InvalidOutput(TurnError):
    """The model's final answers do not fit the agent's output type."""

    code = "invalid-output"


class HookFailed(TurnError):
    """A hook around the model raised, or returned what can't be used. ``usage`` is what the
    model had used by then, if it had answered."""

    code = "hook-failed"

    def __init__(
        self, message: str, *, usage: object = None, session_id: str = "", turn_id: str = ""
    ) -> None:
        super().__init__(message, session_id=session_id, turn_id=turn_id)
        self.usage = usage


class TurnWithdrawn(TurnError):
    """The input was taken back before it was used: there is no turn."""

    code = "turn-withdrawn"


class InvalidModelTurn(TurnError):
    """What the model answered is no turn."""

    code = "invalid-model-turn"


class TurnTakenOver(TurnError):
    """A younger node runs the turn; its result will be in the stream."""

    code = "turn-taken-over"


class StateRefused(TurnError):
    """The state can't be changed by this call: it has ended, or is no longer wanted."""

    code = "state-refused"


class StepRefused(TurnError):
    """The step can't be taken or recorded here: its call or run has ended or is no longer wanted,
    or it is taken where it would not be found again."""

    code = "step-refused"


class StepConflict(TurnError):
    """A step of this idempotency key was recorded with other arguments, or an unfinished run of
    this id was begun with others. Nothing was run, and what was recorded stays."""

    code = "step-conflict"


class RunBusy(TurnError):
    """The run of this id is under way elsewhere, or in another thread or task here."""

    code = "run-busy"


class ToolError(TurnError):
    """For tools to raise: the model reads its text as it is, without the name of a class."""

    code = "tool-error"
