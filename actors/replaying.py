"""A recorded session held against a changed agent: would it go the same way?

At each recorded step the agent's model is asked with the conversation as it was recorded up to
there, and what it answers is compared with what was recorded. No tool runs: the recorded results
are the fixtures. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from queue import SimpleQueue
from threading import Thread
from typing import Literal, TypeAlias

from msgspec import Struct

from ..events.errors import InvalidAgent
from ..events.messages import (
    NO_USAGE,
    ModelTurn,
    ToolCall,
    Usage,
)
from ..projections import TrajectoryCall, TrajectoryStep
from ..projections.comparing import Leniency, StepDrift, same_step, step_drift
from .agent import Agent
from .commands import ModelAnswered, ModelBroke
from .completions import model_command
from .effects import Effects, Settled
from .fixtures import Fixture, Replayable, fixtures_of
from .gate import Gate
from .handles import Session
from .ready import ReadyAgent
from .roster import team
from .turns import Reply
from .waiting import Promise

Verdict: TypeAlias = Literal["same", "differs", "refused", "failed"]

CLOSING_SECONDS = 1.0


class RefusedCall(Struct, frozen=True):
    """A recorded call that the agent would not run, and why."""

    call: int
    tool: str
    reason: str


class ReplayedStep(Struct, frozen=True):
    """What the agent made of one recorded step.

    ``verdict`` is ``same``; ``differs`` where the model answers otherwise (``drift`` says in which
    calls); ``refused`` where it answers the same, but a call that ran would not run now; ``failed``
    where it gave no answer: ``code`` and ``error`` say why.
    """

    step: int
    turn_id: str
    verdict: Verdict
    recorded: TrajectoryStep
    answer: TrajectoryStep | None = None
    drift: tuple[StepDrift, ...] = ()
    refused: tuple[RefusedCall, ...] = ()
    code: str = ""
    error: str = ""
    usage: Usage = NO_USAGE


class Replayed(Struct, frozen=True):
    """The steps that were replayed, of the ``recorded`` ones there are."""

    steps: tuple[ReplayedStep, ...]
    recorded: int

    @property
    def diverged_at(self) -> int | None:
        """The first step at which the agent would go another way; None where it would not, as
        far as it was replayed."""
        return self._first("differs", "refused")

    @property
    def failed_at(self) -> int | None:
        """The first step at which the model gave no answer; None where it gave them all."""
        return self._first("failed")

    @property
    def usage(self) -> Usage:
        """What the replay itself used."""
        return sum((each.usage for each in self.steps), NO_USAGE)

    def _first(self, *verdicts: Verdict) -> int | None:
        return next((each.step for each in self.steps if each.verdict in verdicts), None)


def replay(
    recorded: Replayable,
    agent: Agent,
    *,
    ignore: Mapping[str, Iterable[str]] | None = None,
    ignore_text: bool = False,
    all_steps: bool = False,
) -> Reply[Replayed]:
    """Ask an agent's model, step by step, what was asked when a session was recorded, and compare
    the answers: ``.result()`` blocks for the outcome, ``await`` waits for it.

    ``recorded`` is a session, recorded events, or messages. It ends at the first step where the
    agent would go another way or its model fails; with ``all_steps`` it goes on, from what was
    recorded. ``ignore`` and ``ignore_text`` are those of ``compare``. Runs no tool, and writes
    nothing. Returns at once; the reply raises ``InvalidAgent`` where what a dynamic agent chooses
    can't work, ``InvalidTranscript``, and the store's errors.
    """
    if not isinstance(agent, Agent):
        raise InvalidAgent(f"an agent can replay a session, not {type(agent).__name__}")
    leniency = Leniency.of(ignore, text=ignore_text)
    session_id = recorded.id if isinstance(recorded, Session) else ""
    promise: Promise[Replayed] = Promise(session_id)

    def work() -> None:
        try:
            fixtures = fixtures_of(recorded)
            steps = _replayed(fixtures, agent, leniency, all_steps=all_steps)
            promise.resolve(Replayed(tuple(steps), len(fixtures)))
        except BaseException as error:
            promise.fail(error)

    Thread(target=work, name="turnstream-replay", daemon=True).start()
    return Reply(promise)


def _replayed(
    fixtures: Iterable[Fixture], agent: Agent, leniency: Leniency, *, all_steps: bool
) -> Iterator[ReplayedStep]:
    playing = _Playing(agent)
    with closing(_Asker()) as asker:
        for number, fixture in enumerate(fixtures):
            ready = playing.ready(fixture)
            step = _judged(number, fixture, ready, asker.ask(ready, fixture), leniency)
            yield step
            if step.verdict != "same" and not all_steps:
                return


class _Playing:
    """Who plays the agents of a recording: the agent that is given, and those that it hands over
    to, each what was said under its name; the given one what was said under another."""

    def __init__(self, agent: Agent) -> None:
        self._given, self._team = agent, team(agent)
        self._ready: dict[str, ReadyAgent] = {}
        self._turn_id = ""
        self._chosen: dict[str, ReadyAgent] = {}

    def ready(self, fixture: Fixture) -> ReadyAgent:
        """The one that plays there, what it chooses chosen once a turn."""
        agent = self._team.get(fixture.agent, self._given)
        if agent.name not in self._ready:
            self._ready[agent.name] = ReadyAgent(agent, keep_failed=False)
        ready = self._ready[agent.name]
        if not ready.is_dynamic:
            return ready
        if fixture.turn_id != self._turn_id:
            self._turn_id, self._chosen = fixture.turn_id, {}
        if agent.name not in self._chosen:
            self._chosen[agent.name] = ready.chosen(fixture.context(agent.name))
        return self._chosen[agent.name]


class _Asker:
    """Asks models as sessions do: async ones on a loop, sync ones on a thread, in their time."""

    def __init__(self) -> None:
        self._effects = Effects(threads=1)

    def ask(self, ready: ReadyAgent, fixture: Fixture) -> ModelAnswered | ModelBroke:
        settled: SimpleQueue[Settled] = SimpleQueue()
        request = fixture.request(ready)
        self._effects.run(
            ready.asking(ready.ask, request, fixture.turns, fixture.carried, _show_nobody),
            is_async=ready.model_is_async,
            gate=Gate(),
            opens="result",
            session_id=fixture.session_id,
            timeout=ready.agent.model_timeout,
            post=settled.put,
        )
        command, _ = model_command(settled.get(), request, 1, ready, None)
        assert isinstance(command, (ModelAnswered, ModelBroke))
        return command

    def close(self) -> None:
        self._effects.close(CLOSING_SECONDS)


def _show_nobody(delta: object) -> None:
    pass


def _judged(
    number: int,
    fixture: Fixture,
    ready: ReadyAgent,
    command: ModelAnswered | ModelBroke,
    leniency: Leniency,
) -> ReplayedStep:
    recorded = fixture.recorded
    if isinstance(command, ModelBroke):
        return ReplayedStep(
            number,
            fixture.turn_id,
            "failed",
            recorded,
            code=command.code,
            error=command.error,
            usage=command.usage or NO_USAGE,
        )
    answer = _said(command.answer)
    asked = _without_results(recorded)
    refused = tuple(_refused(recorded, ready))
    verdict: Verdict = "refused" if refused else "same"
    return ReplayedStep(
        number,
        fixture.turn_id,
        verdict if same_step(asked, answer, leniency) else "differs",
        recorded,
        answer,
        tuple(step_drift(number, asked, answer, leniency)),
        refused,
        usage=command.answer.usage,
    )


def _said(turn: ModelTurn) -> TrajectoryStep:
    calls = [TrajectoryCall(each.name, each.arguments, each.malformed) for each in turn.tool_calls]
    return TrajectoryStep(turn.text, tuple(calls))


def _without_results(step: TrajectoryStep) -> TrajectoryStep:
    calls = [TrajectoryCall(each.name, each.arguments, each.malformed) for each in step.calls]
    return TrajectoryStep(step.text, tuple(calls))


def _refused(step: TrajectoryStep, ready: ReadyAgent) -> Iterator[RefusedCall]:
    """The recorded calls that this agent refuses, but for those whose recorded result is that
    very refusal."""
    for place, each in enumerate(step.calls):
        call = ToolCall("", each.name, dict(each.arguments), each.malformed)
        reason = ready.rules.refusal(call)
        never_ran = each.outcome in ("rejected", "cancelled", "skipped")
        if reason and not never_ran and (each.outcome, each.result) != ("error", reason):
            yield RefusedCall(place, each.name, reason)
