"""Sessions that are forked, rewound, trimmed, cleared, lost and resumed in whatever order, beside
lists that tell what they should be.

An input says what becomes of it: ``7:call,gate`` asks for a call, then for one that needs a
decision, then is answered. What fails or hangs does so once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Condition
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from plainly import Plainly, Then

from turnstream.actors import ActorSystem, Agent, ModelRequest, Session, ToolContext, Turn, tool
from turnstream.actors.testing import call
from turnstream.events import (
    CODEC,
    AssistantMessage,
    ModelTurn,
    SessionAwaitingApproval,
    StoreError,
    TurnAborted,
    UserMessage,
    verify,
)
from turnstream.projections import (
    Phase,
    Running,
    SessionState,
    check_transcript,
    fold,
    last_settled,
)
from turnstream.stores import Append, Appended, EventStore, open_store

WAIT = 30
WHICH = st.integers(0, 9)
PLANS = st.sampled_from(
    ["say", "call", "two", "gate", "mixed", "call,two", "fail", "hang", "call,fail", "stuck"]
)


def rests(state: SessionState) -> bool:
    """Whether nothing goes on by itself."""
    if state.phase is Phase.IDLE:
        return not state.queued
    return state.phase in (Phase.PAUSED, Phase.HALTED)


class Watched:
    """A store that says when something was written."""

    def __init__(self, kept: EventStore, moved: Condition) -> None:
        self._kept, self._moved = kept, moved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        def told(outcome: Appended | StoreError) -> None:
            done(outcome)
            with self._moved:
                self._moved.notify_all()

        self._kept.submit(append, told)


class TravelMachine(RuleBasedStateMachine):
    """One store, some sessions, one process after the other."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.kept = open_store(address)
        self.moved = Condition()
        self.armed: set[str] = set()
        self.hung: dict[str, str] = {}
        self.faults: list[str] = []
        self.runs: list[tuple[str, str, str]] = []
        self.copied: dict[str, set[tuple[str, str]]] = {}
        self.plain: dict[str, Plainly] = {}
        self.turns: dict[str, Turn] = {}
        self.sent = 0

    @initialize()
    def begin(self) -> None:
        self.system = self.be_born()
        for name in ("one", "two"):
            self.plain[name] = Plainly()

    def be_born(self) -> ActorSystem:
        @tool(name="work")
        def work(context: ToolContext) -> str:
            self.runs.append((context.session_id, context.turn_id, context.call_id))
            return "w" * 60

        @tool(name="stuck")
        async def stuck(context: ToolContext) -> str:
            self.runs.append((context.session_id, context.turn_id, context.call_id))
            await self.hang_if(f"stuck in {context.session_id}", context.session_id)
            return "s" * 60

        @tool(name="gated", needs_approval=True)
        def gated(context: ToolContext) -> str:
            self.runs.append((context.session_id, context.turn_id, context.call_id))
            return "g" * 60

        agent = Agent("agent", model=self.answer, tools=[work, stuck, gated])
        store: Any = Watched(self.kept, self.moved)
        return ActorSystem(agent, store=store, on_failure="keep", lease=0)

    async def answer(self, request: ModelRequest) -> ModelTurn:
        messages = list(request.messages)
        try:
            check_transcript(messages)
        except Exception as error:
            self.faults.append(f"{request.session_id}: {error}")
        last = max(n for n, each in enumerate(messages) if isinstance(each, UserMessage))
        text = str(messages[last].content)  # type: ignore[union-attr]
        done = sum(isinstance(each, AssistantMessage) for each in messages[last:])
        plan = text.partition(":")[2].split(",")
        match plan[done] if done < len(plan) else "say":
            case "call":
                return ModelTurn(tool_calls=(call("work"),))
            case "two":
                return ModelTurn(tool_calls=(call("work"), call("work")))
            case "gate":
                return ModelTurn(tool_calls=(call("gated"),))
            case "mixed":
                return ModelTurn(tool_calls=(call("work"), call("gated"), call("gated")))
            case "stuck":
                return ModelTurn(tool_calls=(call("work"), call("stuck")))
            case "fail" if text in self.armed:
                self.armed.discard(text)
                raise ConnectionError("no route")
            case "hang":
                await self.hang_if(text, request.session_id)
        return ModelTurn(f"answer to {text}")

    async def hang_if(self, text: str, session_id: str) -> None:
        if text not in self.armed:
            return
        self.armed.discard(text)
        with self.moved:
            self.hung[session_id] = text
            self.moved.notify_all()
        await asyncio.Event().wait()

    # What is read

    def session(self, which: int) -> Session:
        names = list(self.plain)
        return self.system.session(names[which % len(names)])

    def recorded(self, name: str) -> list[Any]:
        return [CODEC.recorded(each).event for each in self.kept.read(name)]

    def rest(self, name: str, edited: Then | None = None) -> None:
        """Wait until nothing goes on by itself in the session, and take in what was recorded."""
        with self.moved:
            assert self.moved.wait_for(
                lambda: self.is_stuck(name) or rests(fold(self.recorded(name))), WAIT
            )
        self.plain[name].follow(self.recorded(name), edited)

    def is_stuck(self, name: str) -> bool:
        """Whether the model hangs, or the one tool that still runs."""
        if (hung := self.hung.get(name)) is None:
            return False
        turn = fold(self.recorded(name)).turn
        running = sum(isinstance(each.stage, Running) for each in turn.calls) if turn else 0
        return running == hung.startswith("stuck")

    # What is done

    @rule(which=WHICH, plan=PLANS)
    def send(self, which: int, plan: str) -> None:
        session = self.session(which)
        if session.id in self.hung:
            return
        self.sent += 1
        text = f"{self.sent}:{plan}"
        self.armed |= {text, f"stuck in {session.id}"} if "stuck" in plan else {text}
        turn = session.send(text)
        if session.status == "awaiting-approval" and not self.accepted(turn):
            return
        turn.accepted().result(WAIT)
        self.turns[session.id] = turn
        self.rest(session.id)

    @staticmethod
    def accepted(turn: Turn) -> bool:
        try:
            turn.accepted().result(WAIT)
        except SessionAwaitingApproval:
            return False
        return True

    @rule(which=WHICH, keep=st.booleans())
    def abort(self, which: int, keep: bool) -> None:
        session = self.session(which)
        if session.id in self.hung and session.id in self.turns:
            known = len(self.recorded(session.id))
            self.turns[session.id].abort(keep=keep).result(WAIT)
            # An input that waits for a turn that goes on is taken back, and that turn still hangs.
            if any(isinstance(each, TurnAborted) for each in self.recorded(session.id)[known:]):
                self.hung.pop(session.id)
            self.rest(session.id)

    @rule()
    def crash(self) -> None:
        self.system.close(timeout=0)
        self.hung.clear()
        self.system = self.be_born()

    @rule(which=WHICH)
    def resume(self, which: int) -> None:
        session = self.session(which)
        if session.id not in self.hung and session.status != "awaiting-approval":
            if (turn := session.resume()) is not None:
                turn.accepted().result(WAIT)
                self.turns[session.id] = turn
                self.rest(session.id)

    @rule(which=WHICH, yes=st.booleans())
    def decide(self, which: int, yes: bool) -> None:
        session = self.session(which)
        pending = session.pending()
        if pending is not None and pending.approvals and session.id not in self.hung:
            take = session.approve if yes else session.reject
            take(pending.approvals[0].id).accepted().result(WAIT)
            self.rest(session.id)

    @rule(which=WHICH, place=st.integers(0, 999), how=st.sampled_from(["version", "step", "last"]))
    def fork(self, which: int, place: int, how: str) -> None:
        source = self.session(which)
        if not source.version or len(self.plain) >= 6:
            return
        recorded = self.recorded(source.id)
        version = 1 + place % len(recorded)
        point: dict[str, Any] = {"version": version}
        if how == "step" and (history := source.history()):
            entry = history[place % len(history)]
            point, version = {"step": entry.step}, entry.version
        elif how == "last":
            point, version = {}, last_settled(recorded)
        fork = source.fork(**point)
        assert fork.id not in self.plain
        self.plain[fork.id] = Plainly(self.plain[source.id].versions[: version + 1])
        self.plain[fork.id].follow(self.recorded(fork.id))
        turn = fold(recorded[:version]).turn
        settled = {each.call_id for each in turn.results} if turn is not None else set()
        self.copied[fork.id] = {(turn.turn_id, each) for each in settled} if turn else set()
        pending = fork.pending()
        assert turn is None or (pending is not None and pending.code == "forked")
        assert fork.status in ("idle", "running") if turn is None else fork.status == "aborted"

    @rule(which=WHICH, place=st.integers(0, 999), how=st.sampled_from(["version", "step", "keep"]))
    def rewind(self, which: int, place: int, how: str) -> None:
        session = self.session(which)
        plain, recorded = self.plain[session.id], self.recorded(session.id)
        if not recorded:
            return
        now, then = plain.now, plain.versions[1 + place % len(recorded)]
        request: dict[str, Any] = {"to_version": 1 + place % len(recorded)}
        if how == "step" and (history := session.history()):
            entry = history[place % len(history)]
            request, then = {"to_step": entry.step}, plain.versions[entry.version]
        if how == "keep":
            keep = place % (len(now.shown) + 2)
            request = {"keep_entries": keep}
            then = Then(tuple(now.shown[:keep]), now.begins)
        done = session.rewind(**request).result(WAIT)
        assert done or now.is_open or list(now.said) == now.cut_to(then.shown, then.begins).shown
        self.edited(session, now.cut_to(then.shown, then.begins))

    @rule(which=WHICH)
    def clear(self, which: int) -> None:
        session = self.session(which)
        now = self.plain[session.id].now
        assert session.clear().result(WAIT) is bool(now.said)
        self.edited(session, Then())

    @rule(which=WHICH, keep_chars=st.sampled_from([0, 10, 25]), keep_turns=st.integers(0, 2))
    def trim(self, which: int, keep_chars: int, keep_turns: int) -> None:
        session = self.session(which)
        now = self.plain[session.id].now
        after = now.trimmed(keep_chars, keep_turns)
        changed = sum(old != new for old, new in zip(now.said, after.said, strict=True))
        request = session.trim_tool_results(keep_chars=keep_chars, keep_turns=keep_turns)
        assert request.result(WAIT) == changed
        self.edited(session, after)

    def edited(self, session: Session, after: Then) -> None:
        """Take in an edit. One that dropped a turn lets the inputs that wait run; where no process
        goes on with the session, nothing else does."""
        known, recorded = len(self.plain[session.id].versions) - 1, self.recorded(session.id)
        if any(isinstance(each, TurnAborted) for each in recorded[known:]):
            self.hung.pop(session.id, None)
            self.rest(session.id, after)
        else:
            self.plain[session.id].follow(recorded, after)

    # What holds

    @invariant()
    def every_session_is_what_the_lists_say(self) -> None:
        assert self.faults == []
        for name, plain in self.plain.items():
            recorded = self.recorded(name)
            assert len(plain.versions) == len(recorded) + 1, "another session was written to"
            assert verify(self.kept.read(name)) is None
            state, half = fold(recorded), len(recorded) // 2
            assert state == fold(recorded[half:], fold(recorded[:half]))
            turn = state.turn
            shown = [*state.transcript, *(turn.results if turn is not None else ())]
            assert shown == plain.now.shown
            assert list(state.starts) == list(plain.now.begins)
            assert list(state.conversation) == plain.now.conversation
            session = self.system.session(name)
            assert list(session.messages) == plain.now.conversation
            row = self.kept.session(name)
            assert (row.status if row else "idle") == state.status
        for name, turn_id, call_id in self.runs:
            assert (turn_id, call_id) not in self.copied.get(name, set())

    def teardown(self) -> None:
        if hasattr(self, "system"):
            self.system.close(timeout=0)
        self.kept.close()
