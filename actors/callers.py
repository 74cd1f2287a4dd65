"""Who waits for what in one session.

Nobody is told anything before the events it rests on are durable, and everybody who waits is
told something: each path of an actor's life ends in ``tell``, ``fail_turn`` or ``fail_all``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..events.errors import (
    ContextTooLong,
    HookFailed,
    InvalidModelTurn,
    InvalidOutput,
    ModelFailed,
    ModelRefused,
    ModelStreamEnded,
    ModelTimedOut,
    ModelUnavailable,
    NothingUnfinished,
    TurnError,
    TurnstreamError,
    TurnWithdrawn,
)
from ..events.messages import NO_USAGE, AssistantMessage
from ..events.session import (
    AgentHandedOff,
    AnyEvent,
    ApprovalRequested,
    InputApplied,
    InputQueued,
    InputWithdrawn,
    ModelTurnRecorded,
    SessionCleared,
    SessionEvent,
    SessionRewound,
    ToolCallStarted,
    ToolResultRecorded,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    UnknownEvent,
)
from ..projections import EndedTurn, KeyedInput, QueuedInput, SessionState, evolve
from ..projections.phases import Phase
from .changing import Stated, stated
from .commands import ChangeState, Command, Continue, Discard, Submit, Trim, Withdraw
from .draft import Decision
from .feed import Feed
from .results import (
    AgentChanged,
    ApprovalShown,
    InputJoined,
    InputShown,
    ModelTurnShown,
    StreamItem,
    ToolBegan,
    ToolEnded,
    TurnBegan,
    TurnResult,
)
from .turns import Turn
from .waiting import Promise

_ERRORS: dict[str, type[TurnError]] = {
    error.code: error
    for error in (
        ContextTooLong,
        HookFailed,
        InvalidModelTurn,
        InvalidOutput,
        ModelFailed,
        ModelRefused,
        ModelStreamEnded,
        ModelTimedOut,
        ModelUnavailable,
    )
}


class Callers:
    """The handles of one session: ``waiters`` by the input they wait for, and those that
    ``joined`` the open turn, the one that started it first. The ``sponsor`` is the input that
    comes next, for whose sake a failed turn is tried again. ``cause`` is the exception behind
    the completion that is being decided, to be chained. ``typed`` makes a recorded output of
    the agent's type."""

    def __init__(self, session_id: str, typed: Callable[[str, Any], Any]) -> None:
        self._session_id, self._typed = session_id, typed
        self._waiters: dict[str, list[Turn]] = {}
        self._joined: list[Turn] = []
        self._sponsor = ""
        self.cause: BaseException | None = None

    @property
    def waiting(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiters or self._joined)

    @property
    def feed(self) -> Feed | None:
        """Where the open turn's items are shown."""
        return self._joined[0].feed if self._joined else None

    def answer(self, decision: Decision, command: Command, asker: Turn | Promise[Any]) -> None:
        """Answer a request whose events, if there are any, are durable."""
        if isinstance(asker, Promise):
            asker.resolve(_done(decision, command))
            return
        before, input_id = decision.states[0], _input_of(decision, command)
        asker.accept(input_id)
        if ended := _ended(before, command, input_id):
            asker.finish(self._result(before, ended))
        elif any(each.input_id == input_id for each in decision.accepted):
            self._wait(decision, input_id, asker)
        elif before.turn is not None:
            self._joined.append(asker)
        else:
            asker.fail(self._nothing_unfinished())

    def tell(self, decision: Decision, command: Command, first: int) -> None:
        """Tell everybody concerned what happened; ``first`` is the first event's version."""
        for place, event in enumerate(decision.events):
            before, after = decision.states[place : place + 2]
            self._tell(event, first + place, before, after)
            if isinstance(event, InputWithdrawn):
                self._take_back(event.input_id, before, command)
        if decision.state.phase is Phase.PAUSED:
            self._finish(_paused(decision.state, self._session_id))

    def tell_news(self, state: SessionState, events: Sequence[AnyEvent], first: int) -> None:
        """Tell everybody concerned what others did."""
        states = [state]
        for event in events:
            states.append(evolve(states[-1], event))
        known = tuple([each for each in events if not isinstance(each, UnknownEvent)])
        if self.waiting and len(known) == len(events):
            self.tell(Decision(known, tuple(states), adopted=False), Discard(), first)

    def sponsors(self, state: SessionState) -> bool:
        """Whether a failed turn is to be tried again for the sake of a waiting input."""
        turn = state.turn
        if turn is None or turn.halt is None or turn.aborted or not self._waiters:
            return False
        self._sponsor = next(iter(self._waiters))
        return True

    def fail_turn(self, error: BaseException, joining: Iterable[QueuedInput] = ()) -> None:
        """Fail those who wait for the open turn, and for the inputs that were to join it."""
        failed, self._joined = self._joined, []
        for input_id in (self._sponsor, *(each.input_id for each in joining)):
            failed += self._waiters.pop(input_id, ())
        self._sponsor = ""
        for each in failed:
            each.fail(error)

    def fail_all(self, error: BaseException) -> None:
        """Fail everybody who waits."""
        self.fail_turn(error)
        waiters, self._waiters = self._waiters, {}
        for handles in waiters.values():
            for each in handles:
                each.fail(error)

    def _wait(self, decision: Decision, input_id: str, asker: Turn) -> None:
        self._waiters.setdefault(input_id, []).append(asker)
        resumed = any(isinstance(event, TurnResumed) for event in decision.events)
        if resumed and not any(each.input_id == input_id for each in decision.state.joining):
            self._sponsor = input_id

    def _tell(
        self, event: SessionEvent, version: int, before: SessionState, after: SessionState
    ) -> None:
        match event:
            case TurnStarted():
                for input_id in event.input_ids:
                    self._joined += self._waiters.pop(input_id, ())
            case InputApplied(input_id=input_id):
                self._joined += self._waiters.pop(input_id, ())
            case TurnFinished():
                assert after.ended is not None
                self._finish(self._result(after, after.ended))
            case TurnAborted():
                self._finish(_aborted(before, after))
            case TurnFailed():
                self.fail_turn(self._error(event), before.joining)
            case _:
                pass
        if (feed := self.feed) is not None:
            if (item := _item(self._session_id, event, version, after)) is not None:
                feed.publish(item)

    def _finish(self, result: TurnResult) -> None:
        joined, self._joined, self._sponsor = self._joined, [], ""
        for each in joined:
            each.finish(result)

    def _result(self, state: SessionState, ended: EndedTurn) -> TurnResult:
        """The result of a turn that ended."""
        return TurnResult(
            ended.turn_id,
            ended.finish_reason,
            state.transcript.first(ended.length),
            ended.base,
            ended.steps,
            ended.usage,
            output=None if ended.output is None else self._typed(ended.agent, ended.output),
            run_id=ended.run_id,
        )

    def _take_back(self, input_id: str, state: SessionState, command: Command) -> None:
        """Tell those who wait for an input that it won't be used: its sender took it back, or
        stopped what would have become of it. In ``state`` it still waits."""
        length = len(state.conversation)
        run_id = next((each.run_id for each in state.queued if each.input_id == input_id), "")
        aborted = TurnResult("", "aborted", state.conversation, length, 0, NO_USAGE, run_id=run_id)
        for each in self._waiters.pop(input_id, ()):
            if isinstance(command, Withdraw):
                each.fail(self._taken_back(input_id))
            else:
                each.finish(aborted)

    def _taken_back(self, input_id: str) -> TurnWithdrawn:
        return TurnWithdrawn(
            f"input {input_id!r} of session {self._session_id!r} was taken back before it was used",
            session_id=self._session_id,
        )

    def _nothing_unfinished(self) -> NothingUnfinished:
        return NothingUnfinished(
            f"nothing is unfinished in session {self._session_id!r}: send an input",
            session_id=self._session_id,
        )

    def _error(self, event: TurnFailed) -> TurnstreamError:
        kept = "it can be resumed" if event.kept else "it was dropped"
        error = _ERRORS.get(event.code, TurnError)(
            f"{event.turn_id} of session {self._session_id!r} failed and {kept}: {event.error}",
            session_id=self._session_id,
            turn_id=event.turn_id,
        )
        if isinstance(error, ModelUnavailable) and isinstance(self.cause, ModelUnavailable):
            error.retry_after = self.cause.retry_after
        error.__cause__, self.cause = self.cause, None
        return error


_DONE = (InputWithdrawn, TurnAborted, SessionRewound, SessionCleared)


def _done(decision: Decision, command: Command) -> bool | int | Stated:
    """Whether what was asked for was done; of a trim, how many results it made shorter; of a call,
    also what the state is now."""
    if isinstance(command, ChangeState):
        return stated(decision, command)
    if isinstance(command, Trim):
        before, after = decision.states[0].transcript, decision.states[-1].transcript
        return sum(old is not new for old, new in zip(before, after, strict=False))
    return any(isinstance(each, _DONE) for each in decision.events)


def _input_of(decision: Decision, command: Command) -> str:
    """The input that a request stands for: the one it brought, the one that its key or run id
    names, or else the one that comes next. Empty where there is none."""
    if isinstance(command, (Submit, Continue)):
        for event in decision.events:
            if isinstance(event, InputQueued) and event.input_id == command.input_id:
                return event.input_id
    state = decision.states[0]
    if (known := _named(state, command)) is not None:
        return known.input_id
    inputs = state.turn.inputs if state.turn is not None else state.queued
    return inputs[0].input_id if inputs else ""


def _ended(state: SessionState, command: Command, input_id: str) -> EndedTurn | None:
    """How the turn of a request ended, where it did before: the last one, where there is nothing
    to go on with."""
    if not input_id and state.turn is None:
        return state.ended
    known = _named(state, command)
    return known.ended if known is not None and known.input_id == input_id else None


def _named(state: SessionState, command: Command) -> KeyedInput | None:
    """The input that the key or the run id of a request names."""
    match command:
        case Submit(run_id=run_id) if run_id:
            return state.run(run_id)
        case Submit(key=key) | Continue(key=key) if key:
            return state.keyed.get(key)
        case _:
            return None


def _paused(state: SessionState, session_id: str) -> TurnResult:
    """The result of a turn that waits for decisions."""
    turn = state.turn
    assert turn is not None
    return TurnResult(
        turn.turn_id,
        "awaiting-approval",
        (*state.transcript, *turn.results),
        turn.base,
        turn.steps,
        turn.usage,
        state.approvals(session_id),
        run_id=turn.run_id,
    )


def _aborted(before: SessionState, after: SessionState) -> TurnResult:
    """The result of a turn that was stopped: what is kept of it, or the conversation before."""
    turn = before.turn
    assert turn is not None
    return TurnResult(
        turn.turn_id,
        "aborted",
        after.transcript,
        turn.base,
        turn.steps,
        turn.usage,
        run_id=turn.run_id,
    )


def _item(
    session_id: str, event: SessionEvent, version: int, after: SessionState
) -> StreamItem | None:
    match event:
        case ApprovalRequested(turn_id=turn_id, approval_id=approval_id):
            asked = after.approvals(session_id)
            approval = next(each for each in asked if each.id == approval_id)
            return ApprovalShown(turn_id, version, approval)
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
        case InputApplied(turn_id=turn_id, input_id=input_id):
            return InputJoined(turn_id, version, input_id)
        case AgentHandedOff(turn_id=turn_id, target=target, applied=True):
            return AgentChanged(turn_id, version, target)
        case _:
            return None
