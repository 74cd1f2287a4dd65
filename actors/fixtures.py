"""Recorded steps, as fixtures for an agent to be held against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..events.codec import CODEC
from ..events.envelope import RecordedEvent
from ..events.messages import AssistantMessage, Message, ToolMessage, UserMessage
from ..projections import (
    Carried,
    TrajectoryCall,
    TrajectoryStep,
    Transcript,
    course,
    trajectory_steps,
)
from ..projections.trajectory import Answered, Course
from .choosing import AgentContext
from .handles import Session
from .models import ModelRequest
from .ready import ReadyAgent

Replayable: TypeAlias = Session | Sequence[RecordedEvent] | Sequence[Message]


class Fixture(NamedTuple):
    """A recorded step: what was asked, what the agent could know when its turn began, and what
    was answered; where turns begin in ``messages``, what a context policy carried over, and which
    agent was active."""

    session_id: str
    turn_id: str
    step: int
    messages: Sequence[Message]
    before_turn: Sequence[Message]
    tenant: str
    application: Any
    recorded: TrajectoryStep
    turns: Sequence[int] = ()
    carried: Carried | None = None
    agent: str = ""

    def request(self, ready: ReadyAgent) -> ModelRequest:
        """What this agent's model is asked there."""
        configured = ready.configured
        return ModelRequest(
            self.messages,
            configured.instructions,
            configured.tools,
            self.session_id,
            self.turn_id,
            self.step,
            ready.agent.settings,
            configured.output,
        )

    def context(self, agent: str) -> AgentContext:
        """What a dynamic agent chooses by, when the turn begins."""
        return AgentContext(
            agent, self.session_id, self.turn_id, self.tenant, self.before_turn, self.application
        )


def fixtures_of(recorded: Replayable) -> list[Fixture]:
    """The recorded steps. Raises ``InvalidTranscript``, ``TypeError`` and the store's errors."""
    if isinstance(recorded, Session):
        recorded = [CODEC.recorded(each) for each in recorded.records()]
    events = [each for each in recorded if isinstance(each, RecordedEvent)]
    if events and len(events) == len(recorded):
        run = course(each.event for each in events)
        return list(_from_course(run, events[0].session_id))
    messages = [each for each in recorded if isinstance(each, Message)]
    if len(messages) < len(recorded):
        raise TypeError("a recording is a session, or a sequence of recorded events or of messages")
    return list(_from_messages(messages))


def _from_course(run: Course, session_id: str) -> Iterator[Fixture]:
    """The model is compared with what it said: arguments that were edited later are not its."""
    messages = run.messages
    places = [n for n, each in enumerate(messages) if isinstance(each, AssistantMessage)]
    steps = dict(zip(places, trajectory_steps(messages), strict=True))
    for answered in run.answers:
        before, turn = answered.before, answered.before.turn
        if turn is None or answered.place not in steps:
            continue
        yield Fixture(
            session_id,
            turn.turn_id,
            answered.event.step,
            before.transcript,
            before.conversation,
            before.tenant,
            before.application,
            _proposed(answered, steps[answered.place]),
            before.starts,
            before.carried_over,
            turn.agent,
        )


def _proposed(answered: Answered, step: TrajectoryStep) -> TrajectoryStep:
    calls = answered.event.tool_calls
    if len(calls) != len(step.calls):
        return step
    return TrajectoryStep(
        answered.event.text,
        tuple(
            [
                TrajectoryCall(call.name, call.arguments, call.malformed, ran.result, ran.outcome)
                for call, ran in zip(calls, step.calls, strict=True)
            ]
        ),
    )


def _from_messages(messages: Sequence[Message]) -> Iterator[Fixture]:
    """A turn begins with what the user says after a final answer."""
    steps, said = iter(trajectory_steps(messages)), Transcript(messages)
    began = [0]
    turns, base, step, is_over = 1, 0, 0, False
    for place, message in enumerate(messages):
        match message:
            case AssistantMessage(tool_calls=calls):
                step, is_over = step + 1, not calls
                yield Fixture(
                    "",
                    f"turn-{turns}",
                    step,
                    said.first(place),
                    said.first(base),
                    "",
                    None,
                    next(steps),
                    tuple(began),
                )
            case UserMessage() if is_over:
                turns, base, step, is_over = turns + 1, place, 0, False
                began.append(place)
            case UserMessage() | ToolMessage():
                pass
