"""Who waits for what in one session.

Nobody is told anything before the events it rests on are durable, and everybody who waits is
told something: each path of an actor's life ends in ``tell``, ``fail_turn`` or ``fail_all``.
"""

from __future__ import annotations

from ..events.errors import (
    InvalidModelTurn,
    ModelFailed,
    ModelStreamEnded,
    NothingUnfinished,
    TurnError,
    TurnstreamError,
)
from ..events.messages import AssistantMessage
from ..events.session import (
    InputQueued,
    ModelTurnRecorded,
    SessionEvent,
    ToolCallStarted,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
)
from ..projections import SessionState
from ..projections.phases import Phase
from .commands import Command, Submit
from .decider import Decision
from .feed import Feed
from .handles import Turn
from .results import (
    InputShown,
    ModelTurnShown,
    StreamItem,
    ToolBegan,
    ToolEnded,
    TurnBegan,
    TurnResult,
)

_ERRORS: dict[str, type[TurnError]] = {
    error.code: error for error in (InvalidModelTurn, ModelFailed, ModelStreamEnded)
}


class Callers:
    """The handles of one session: ``waiters`` of inputs not yet used, and those that ``joined``
    the open turn, the one that started it first. A ``sponsor`` is a waiter whose input comes
    next, for whose sake a halted turn is tried again. ``cause`` is the exception behind the
    completion that is being decided, to be chained."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._waiters: dict[str, Turn] = {}
        self._joined: list[Turn] = []
        self._sponsor: Turn | None = None
        self.cause: BaseException | None = None

    @property
    def waiting(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiters or self._joined)

    @property
    def feed(self) -> Feed | None:
        """Where the open turn's items are shown."""
        return self._joined[0].feed if self._joined else None

    def tell(self, decision: Decision, first: int, command: Command, turn: Turn | None) -> None:
        """Tell everybody concerned what happened; ``first`` is the first event's version."""
        if turn is not None:
            self._admit(decision, command, turn)
        for place, event in enumerate(decision.events):
            before, after = decision.states[place : place + 2]
            self._tell(event, first + place, before, after)

    def nothing_follows(self, turn: Turn | None, state: SessionState) -> None:
        """Answer a request that changes nothing: it waits for the turn that runs, or has the
        last one's result."""
        if turn is None:
            return
        turn.accept(_first_input(state))
        if state.turn is not None and state.turn.halt is None:
            self._joined.append(turn)
        elif state.ended is not None:
            turn.finish(_result(state))
        else:
            turn.fail(
                NothingUnfinished(
                    f"nothing is unfinished in session {self._session_id!r}: send an input",
                    session_id=self._session_id,
                )
            )

    def sponsors(self, state: SessionState) -> bool:
        """Whether a halted turn is to be tried again for the sake of a waiting input."""
        if state.phase is not Phase.HALTED or not self._waiters:
            return False
        self._sponsor = next(iter(self._waiters.values()))
        return True

    def fail_turn(self, error: BaseException) -> None:
        """Fail those who wait for the open turn."""
        failed, self._joined = self._joined, []
        if self._sponsor is not None:
            self._waiters.pop(self._sponsor.input_id, None)
            failed.append(self._sponsor)
            self._sponsor = None
        for each in failed:
            each.fail(error)

    def fail_all(self, error: BaseException) -> None:
        """Fail everybody who waits."""
        self.fail_turn(error)
        waiters, self._waiters = self._waiters, {}
        for each in waiters.values():
            each.fail(error)

    def _admit(self, decision: Decision, command: Command, turn: Turn) -> None:
        queued = any(
            isinstance(event, InputQueued) and event.input_id == turn.input_id
            for event in decision.events
        )
        if queued and isinstance(command, Submit):
            self._waiters[turn.input_id] = turn
            if any(isinstance(event, TurnResumed) for event in decision.events):
                self._sponsor = turn
            turn.accept(turn.input_id)
        else:
            self._joined.append(turn)
            turn.accept(_first_input(decision.states[0]))

    def _tell(
        self, event: SessionEvent, version: int, before: SessionState, after: SessionState
    ) -> None:
        match event:
            case TurnStarted():
                ids = event.input_ids
                self._joined += [self._waiters.pop(i) for i in ids if i in self._waiters]
            case TurnFinished():
                self._finish(_result(after))
            case TurnAborted():
                self._finish(_aborted(before, after))
            case TurnFailed():
                self.fail_turn(self._error(event))
            case _:
                pass
        if (feed := self.feed) is not None and (item := _item(event, version, after)) is not None:
            feed.publish(item)

    def _finish(self, result: TurnResult) -> None:
        joined, self._joined, self._sponsor = self._joined, [], None
        for each in joined:
            each.finish(result)

    def _error(self, event: TurnFailed) -> TurnstreamError:
        kept = "it can be resumed" if event.kept else "it was dropped"
        error = _ERRORS.get(event.code, TurnError)(
            f"{event.turn_id} of session {self._session_id!r} failed and {kept}: {event.error}",
            session_id=self._session_id,
            turn_id=event.turn_id,
        )
        error.__cause__, self.cause = self.cause, None
        return error


def _item(event: SessionEvent, version: int, after: SessionState) -> StreamItem | None:
    match event:
        case TurnStarted(turn_id=turn_id) | TurnResumed(turn_id=turn_id):
            return TurnBegan(turn_id, version)
        case ModelTurnRecorded(turn_id=turn_id, step=step):
            message = AssistantMessage(event.text, event.tool_calls, event.parts)
            return ModelTurnShown(turn_id, version, step, message)
        case ToolCallStarted(turn_id=turn_id, call_id=call_id, attempt=attempt):
            return ToolBegan(turn_id, version, call_id, attempt)
        case ToolResultRecorded(turn_id=turn_id, call_id=call_id):
            return ToolEnded(turn_id, version, call_id, event.outcome, event.content)
        case InputQueued(input_id=input_id) if after.turn is not None:
            turn_id = after.turn.turn_id
            return InputShown(turn_id, version, input_id, event.content, event.policy)
        case _:
            return None


def _first_input(state: SessionState) -> str:
    inputs = state.turn.inputs if state.turn is not None else state.queued
    return inputs[0].input_id if inputs else ""


def _result(state: SessionState) -> TurnResult:
    ended = state.ended
    assert ended is not None
    return TurnResult(
        ended.turn_id,
        ended.finish_reason,
        state.transcript.first(ended.length),
        ended.base,
        ended.steps,
        ended.usage,
    )


def _aborted(before: SessionState, after: SessionState) -> TurnResult:
    turn = before.turn
    assert turn is not None
    conversation = after.conversation
    return TurnResult(
        turn.turn_id, "aborted", conversation, len(conversation), turn.steps, turn.usage
    )
