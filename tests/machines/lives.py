"""A process's life, as a system of puppets, and its callers with all they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from threading import Condition
from typing import Any, cast

import guarantees
import witnessed
from audience import Audience, Caller
from msgspec import Struct
from outfits import PLAIN, Outfit, tools_of
from puppets import Answer, Kind, MortalStore, Order, Puppet, Stage
from streams import OTHER, Recorded
from witnessed import Asked, Ran, Seen

from turnstream.actors import ActorSystem, Agent, Reply, Turn
from turnstream.actors.commands import Resolve
from turnstream.actors.recording import record_decision
from turnstream.events import (
    CODEC,
    ModelTurn,
    ToolCall,
    TurnAborted,
    TurnFailed,
    TurnFinished,
    TurnstreamError,
    Usage,
)
from turnstream.projections import Phase, Running, SessionState, fold
from turnstream.stores import EventStore

WAIT = 10.0
MOST = 500
SESSION = "s"
USED = Usage(input_tokens=3, output_tokens=2)


class Settings(Struct, frozen=True):
    """What all processes of a session agree on."""

    model: Kind = "stream"
    max_steps: int = 32
    token_budget: int | None = None
    tool_concurrency: int = 8
    on_failure: str = "keep"
    tool_call_budget: int | None = None
    session_token_budget: int | None = None


class Life:
    """A system on a store that outlives it, whose model and tools are puppets.

    ``is_awake`` says whether the session was asked anything here, so that a clock runs for its
    questions; ``elsewhere`` is the version up to which another process wrote and nobody went on.
    """

    def __init__(
        self,
        kept: EventStore,
        settings: Settings,
        audience: Audience,
        moved: Condition,
        witness: Callable[[Seen], None],
        *,
        outfit: Outfit = PLAIN,
    ) -> None:
        self.outfit = outfit
        self._kept, self._audience, self._moved = kept, audience, moved
        self.store = MortalStore(kept, moved)
        self.stage = Stage(moved, witness, self.seen)
        agent = partial(
            Agent,
            model=self.stage.model(settings.model),
            tools=tools_of(self.stage, outfit),
            token_budget=settings.token_budget,
            tool_call_budget=settings.tool_call_budget,
            session_token_budget=settings.session_token_budget,
            tool_concurrency=settings.tool_concurrency,
            model_retries=1,
            retry_wait=lambda failures, retry_after: 0,
        )
        others = [OTHER] if outfit.shares else []
        agents = [
            agent(
                "agent",
                instructions=outfit.instructions,
                handoffs=others,
                max_steps=settings.max_steps,
            ),
            *(
                agent(name, instructions=name, handoffs=["agent"], max_steps=settings.max_steps + 1)
                for name in others
            ),
        ]
        store = cast("EventStore", self.store)
        # The one before it died with its store, and not with this test's process.
        self.system = ActorSystem(
            agents,
            store=store,
            on_failure=settings.on_failure,
            on_agent_drift=outfit.on_drift,
            lease=0,
        )
        self.stage.generation = self.store.generation
        self.session = self.system.session(SESSION)
        self.callers: list[Caller] = []
        self.answers: list[list[bool | TurnstreamError]] = []
        self.is_awake, self.elsewhere = False, 0

    def seen(self) -> int:
        """The version of the stream."""
        return version_of(self._kept)

    @property
    def recorded(self) -> Recorded:
        """The stream."""
        return events_of(self._kept)

    def attend(self, ask: Callable[[], Turn | None], *, goes_on: bool = True) -> Caller | None:
        """Ask for a turn, and have somebody wait for it; ``goes_on`` says whether that is to go on
        with what is unfinished."""
        asked_at = self.seen()
        if (turn := ask()) is None:
            return None
        self.is_awake = True
        self.elsewhere = 0 if goes_on else self.elsewhere
        self.callers.append(self._audience.attend(turn, asked_at))
        return self.callers[-1]

    def ask(
        self, reply: Reply[bool], request: str, caller: Caller | None = None
    ) -> list[bool | TurnstreamError]:
        """Have somebody wait for the reply."""
        self.is_awake = True
        input_id = (lambda: caller.turn.input_id) if caller is not None else str
        self.answers.append(self._audience.ask(reply, request, input_id))
        return self.answers[-1]

    def decide_elsewhere(self, decision: Resolve) -> TurnstreamError | None:
        """Have another process record a decision; what it was told."""
        try:
            record_decision(self._kept, decision, datetime.now(UTC))
        except TurnstreamError as error:
            return error
        self.elsewhere = self.seen()
        return None

    def due(self, recorded: Recorded, state: SessionState) -> list[Puppet | None]:
        """The calls that are to be under way in this process, by what the stream says; None for
        one that is not yet, or not any more."""
        turn = state.turn
        if turn is None or turn.halt is not None:
            return []
        if turn.owner.generation != self.store.generation:
            return []
        if state.phase is Phase.MODEL:
            since = witnessed.openings(recorded)[-1].version
            asked = self._asked(turn.turn_id, turn.steps + 1, since)
            waits = asked is None and len(recorded) == self.elsewhere
            return [] if waits else [asked]
        return [
            self._running(turn.turn_id, each.call.id, each.stage.attempt)
            for each in turn.calls
            if isinstance(each.stage, Running)
        ]

    def _asked(self, turn_id: str, step: int, since: int) -> Puppet | None:
        for each in reversed(self.stage.puppets):
            call = each.call
            if isinstance(call, Asked) and (call.turn_id, call.step) == (turn_id, step):
                if call.seen >= since:
                    return each
        return None

    def _running(self, *wanted: object) -> Puppet | None:
        for each in self.stage.puppets:
            call = each.call
            if isinstance(call, Ran) and (call.turn_id, call.call_id, call.attempt) == wanted:
                return each
        return None

    def waits(self, caller: Caller, state: SessionState) -> bool:
        """Whether the caller may still wait, by what the stream says."""
        queued = {each.input_id for each in state.queued}
        if caller.id in queued:
            joins, turn = {each.input_id for each in state.joining}, state.turn
            return caller.id not in joins or turn is None or turn.halt is None or turn.aborted
        if state.turn is None or state.turn.halt is not None or state.turn.is_paused:
            return False
        return caller.id in {each.input_id for each in state.turn.inputs}

    def goes_on(self, state: SessionState) -> bool:
        """Whether a failed turn is about to be tried again, for an input that waits behind it."""
        turn, queued = state.turn, {each.input_id for each in state.queued}
        if turn is None or turn.halt is None or turn.aborted:
            return False
        return any(each.outcome is None and each.id in queued for each in self.callers)

    def expires(self, state: SessionState) -> bool:
        """Whether a question is about to be no longer waited for here."""
        turn = state.turn
        if turn is None or turn.next_expiry is None or not self.is_awake:
            return False
        return turn.is_paused or turn.owner.generation == self.store.generation

    def wake_what_can_not_be_stopped(self) -> None:
        """Let functions return, which a close would have to give up."""
        with self.stage.moved:
            held = [each for each in self.stage.puppets if not each.is_async]
        for each in held:
            self.stage.let_go(each, improvised(each))

    def puppet(self, kind: type[Asked | Ran], which: int = 0) -> Puppet | None:
        """One of the calls that the stream wants to be under way."""
        with self._moved:
            recorded = self.recorded
            due = self.due(recorded, fold(recorded))
        mine = [each for each in due if each is not None and isinstance(each.call, kind)]
        return mine[which % len(mine)] if mine else None

    def unwanted(self) -> list[Puppet]:
        """The calls that are still under way, although nobody wants them any more."""
        with self._moved:
            recorded = self.recorded
            wanted = self.due(recorded, fold(recorded))
            return [each for each in self.stage.puppets if each not in wanted]

    def pull(self, kind: type[Asked | Ran], which: int, order: Order) -> None:
        """Tell one of the calls that the stream wants how to end."""
        if (puppet := self.puppet(kind, which)) is not None:
            self.stage.let_go(puppet, order)

    def settle(self) -> None:
        """Wait until nothing moves but by a string, and everybody was told what there is."""
        with self._moved:
            if not self._moved.wait_for(lambda: not self._unsettled(), WAIT):
                raise AssertionError(f"{self._unsettled()}, after {self.recorded[-3:]}")

    def _unsettled(self) -> str:
        """What still has to come; "" where nothing has."""
        recorded, callers = self.recorded, self.callers
        state = fold(recorded)
        if not all(self.answers):
            return "a request was not answered"
        if not all(each.input_id is not None or each.outcome is not None for each in callers):
            return "an input was neither accepted nor refused"
        if None in self.due(recorded, state):
            return "a call that is due is not under way"
        if self.goes_on(state):
            return "a failed turn is not tried again"
        if self.expires(state):
            return "a question is to expire"
        late = [each.id for each in callers if each.outcome is None and not self.waits(each, state)]
        return f"callers of {late} were not told how it ended" if late else ""

    def come_to_the_end(self) -> None:
        """Resume, decide and answer until nothing is unfinished."""
        self.settle()
        for _ in range(MOST):
            state = fold(self.recorded)
            if state.turn is None and not state.queued:
                return
            self._go_on(state)
            self.settle()
        raise AssertionError(f"no end comes, after {self.recorded[-3:]}")

    def _go_on(self, state: SessionState) -> None:
        kind: type[Asked | Ran] = Asked if state.phase is Phase.MODEL else Ran
        session, now = self.session, datetime.now(UTC)
        # One that expired in a life before is withdrawn by whoever resumes the turn.
        approvals = [each for each in state.approvals(SESSION) if not each.is_over(now)]
        if (puppet := self.puppet(kind)) is not None:
            self.stage.let_go(puppet, improvised(puppet))
        elif approvals:
            decide = session.reject if self.seen() % 3 == 0 else session.approve
            assert self.attend(lambda: decide(approvals[-1].id)) is not None
        else:
            assert self.attend(session.resume) is not None

    def end(self, seconds: float) -> bool:
        """Close the system, whatever is under way let go."""
        self.stage.let_all_go(improvised)
        return self.system.close(seconds)


def improvised(puppet: Puppet) -> Answer:
    """How a call ends that nobody has an order for."""
    return Answer(ModelTurn("improvised", usage=USED) if isinstance(puppet.call, Asked) else "late")


def version_of(store: EventStore) -> int:
    """The version of the session's stream."""
    row = store.session(SESSION)
    return row.version if row is not None else 0


def events_of(store: EventStore) -> list[Any]:
    """The session's stream, decoded."""
    return [CODEC.decode(each.topic, each.payload) for each in store.read(SESSION)]


def one_object(callers: Sequence[Caller], recorded: Recorded) -> None:
    """Callers who waited for a turn when it ended were told the very same thing. (Who was not told
    yet will be; and who was told of an earlier turn that failed, or that it was paused, does not
    wait any more.)"""
    stops: dict[str, list[int]] = {}
    for version, event in enumerate(recorded, 1):
        if isinstance(event, TurnFinished | TurnFailed | TurnAborted):
            since = stops.setdefault(event.turn_id, [0])[-1]
            concerned = concerned_by(recorded[:version])
            told = [
                each.outcome
                for each in callers
                if since <= each.asked_at <= each.accepted_at < version
                and each.input_id in concerned
                and getattr(each.outcome, "turn_id", "") == event.turn_id
                and getattr(each.outcome, "finish_reason", "") != "awaiting-approval"
            ]
            assert all(each is told[0] for each in told), f"told different things: {told}"
            stops[event.turn_id].append(version)


def concerned_by(recorded: Recorded) -> set[str]:
    """The inputs whose callers are told of the last event, the end of a turn: those that are part
    of it, and where it failed those that were to join it."""
    event, queue = recorded[-1], guarantees.Queue()
    for place, each in enumerate(recorded[:-1]):
        queue.take(place, each)
    joining = queue.joining if isinstance(event, TurnFailed) else []
    return {*witnessed.inputs_of(recorded, getattr(event, "turn_id", "")), *joining}


def answer(calls: list[tuple[str, str]]) -> Answer:
    """An answer with these calls; with none, one that ends the turn."""
    called = tuple(ToolCall(call_id, name) for name, call_id in calls)
    return Answer(ModelTurn("" if called else "done", called, USED))
