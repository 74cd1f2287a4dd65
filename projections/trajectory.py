"""What an agent did in a conversation, step by step: one step for each answer of its model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from ..events.errors import InvalidTranscript
from ..events.messages import AssistantMessage, Content, Message, Outcome, ToolMessage, Usage
from ..events.session import (
    AnyEvent,
    ForkPatched,
    ModelTurnRecorded,
    TurnFinished,
    UnknownEvent,
)
from .session import evolve
from .state import (
    INITIAL,
    SessionState,
)


class TrajectoryCall(Struct, frozen=True, gc=False):
    """A call and what came of it; ``result`` and ``outcome`` are None where nothing did yet. It
    has no id: ids are given out anew in each run, and mean nothing beyond it."""

    name: str
    arguments: Mapping[str, Any] = {}
    malformed: str = ""
    result: Content | None = None
    outcome: Outcome | None = None


class TrajectoryStep(Struct, frozen=True, gc=False):
    """An answer of the model. ``ended`` is how the turn ended with it: empty where the turn went
    on, None where that is not known."""

    text: str = ""
    calls: tuple[TrajectoryCall, ...] = ()
    ended: str | None = None


class Trajectory(Struct, frozen=True):
    """The steps of a run, and the tokens they took, where that is known."""

    steps: tuple[TrajectoryStep, ...] = ()
    usage: Usage | None = None


def trajectory_steps(
    messages: Iterable[Message], ended: Mapping[int, str] = {}, otherwise: str | None = None
) -> tuple[TrajectoryStep, ...]:
    """The steps of a conversation. ``ended`` says after how many messages a turn ended, and how;
    ``otherwise`` is what is known of all other steps. Raises ``InvalidTranscript`` for a result
    of no call."""
    begun: list[_Begun] = []
    for length, message in enumerate(messages, 1):
        match message:
            case AssistantMessage():
                begun.append(_Begun(message, otherwise))
            case ToolMessage():
                if not (begun and begun[-1].settle(message)):
                    raise InvalidTranscript(
                        f"message {length - 1} is a result, and no call before it lacks one",
                        call_id=message.call_id,
                    )
            case _:
                pass
        if begun and length in ended:
            begun[-1].ended = ended[length]
    return tuple([each.step() for each in begun])


class _Begun:
    """A step whose results are still being read."""

    def __init__(self, answer: AssistantMessage, ended: str | None) -> None:
        self._answer, self.ended = answer, ended
        self._results: list[ToolMessage | None] = [None] * len(answer.tool_calls)
        self._open: dict[str, list[int]] = {}
        for place in reversed(range(len(answer.tool_calls))):
            self._open.setdefault(answer.tool_calls[place].id, []).append(place)

    def settle(self, result: ToolMessage) -> bool:
        """Give the first open call of that id its result; false where there is none."""
        if not (places := self._open.get(result.call_id)):
            return False
        self._results[places.pop()] = result
        return True

    def step(self) -> TrajectoryStep:
        calls = [
            TrajectoryCall(
                call.name,
                call.arguments,
                call.malformed,
                None if result is None else result.content,
                None if result is None else result.outcome,
            )
            for call, result in zip(self._answer.tool_calls, self._results, strict=True)
        ]
        return TrajectoryStep(self._answer.text, tuple(calls), self.ended)


class Answered(Struct, frozen=True, gc=False, eq=False):
    """A recorded answer, and the session right before it."""

    before: SessionState
    event: ModelTurnRecorded

    @property
    def place(self) -> int:
        """Where in the conversation the answer stands."""
        return len(self.before.transcript)


class Course(Struct, frozen=True, eq=False):
    """How a session came to be what it is: the answers that are still part of its conversation,
    when each of its messages was said, and after how many messages a turn ended, and how."""

    state: SessionState
    answers: Sequence[Answered]
    times: Sequence[datetime | None]
    ended: Mapping[int, str]

    @property
    def messages(self) -> Sequence[Message]:
        """The whole conversation, with the results there are of calls still being answered."""
        turn = self.state.turn
        results = turn.results if turn is not None else []
        return (*self.state.transcript, *results) if results else self.state.transcript

    @property
    def trajectory(self) -> Trajectory:
        """The steps of the conversation as it is."""
        steps = trajectory_steps(self.messages, self.ended, "")
        return Trajectory(steps, self.state.usage)


def course(events: Iterable[AnyEvent]) -> Course:
    """The course of a session. Like a fold it is total."""
    state = INITIAL
    answers: list[Answered] = []
    times: list[datetime | None] = []
    ended: dict[int, str] = {}
    for event in events:
        before, state = state, evolve(state, event)
        length = len(state.transcript)
        if length < len(times):
            del times[length:]
            ended = {upto: how for upto, how in ended.items() if upto <= length}
            while answers and answers[-1].place >= length:
                answers.pop()
        at = None if isinstance(event, UnknownEvent) else event.at
        times += [at] * (length - len(times))
        match event:
            case ModelTurnRecorded() if length > len(before.transcript):
                answers.append(Answered(before, event))
            case ForkPatched(changed=changed) if "messages" in changed:
                answers.clear()  # they were answers to something else
            case TurnFinished() if before.turn is not None and state.turn is None:
                ended[length] = event.finish_reason
            case _:
                pass
    return Course(state, answers, times, ended | _unfinished(state))


def _unfinished(state: SessionState) -> dict[int, str]:
    """How the open turn stands, where it does not go on by itself."""
    turn, status = state.turn, state.status
    if turn is None or not turn.steps or status in ("idle", "running"):
        return {}
    return {len(state.transcript) + len(turn.results): status}
