"""What happens next, decided without a thread or a store.

``World`` plays model and tools for the decider: it answers what is due in an order that
Hypothesis chooses, and can lose its memory after any event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from turnstream.actors.commands import (
    Command,
    Discard,
    Gate,
    ModelAnswered,
    ModelBroke,
    Resume,
    Rules,
    Stamp,
    Submit,
    ToolReturned,
)
from turnstream.actors.decider import decide
from turnstream.actors.draft import Decision
from turnstream.events import (
    AgentConfigured,
    Budget,
    InputQueued,
    Message,
    ModelCallDiscarded,
    ModelTurn,
    ModelTurnRecorded,
    Owner,
    SessionEvent,
    SessionReadOnly,
    SessionStarted,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    ToolResultRecorded,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    TurnTakenOver,
    UnknownEvent,
)
from turnstream.projections import (
    INITIAL,
    TRANSITIONS,
    Phase,
    Running,
    SessionState,
    check_transcript,
    fold,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)


def rules(
    *, max_steps: int = 32, tokens: int = 0, concurrency: int = 8, on_crash: str = "rerun"
) -> Rules:
    return Rules(
        AgentConfigured(at=AT, name="agent", model="m", fingerprint="f1"),
        Budget(max_steps=max_steps, tokens=tokens),
        concurrency,
        {"work": on_crash},  # type: ignore[dict-item]
        lambda call: None if call.name == "work" else f"no tool {call.name}",
        lambda call, session_id, state: None,
        {"work": Gate()},
    )


@dataclass
class World:
    """A session with its model and tools, and nothing else."""

    script: list[int]
    rules: Rules = field(default_factory=rules)
    state: SessionState = INITIAL
    events: list[SessionEvent] = field(default_factory=list)
    generation: int = 1
    adopted: bool = False
    asked: list[int] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)

    def tell(self, command: Command) -> Decision:
        stamp = Stamp(AT, Owner(self.generation, f"node-{self.generation}"), "s", "", self.adopted)
        decision = decide(self.state, command, self.rules, stamp)
        for place, event in enumerate(decision.events):
            _follows_the_table(decision.states[place], event, decision.states[place + 1])
        self.state, self.adopted = decision.state, decision.adopted
        self.events += decision.events
        self.ran += [e.call_id for e in decision.events if isinstance(e, ToolCallStarted)]
        return decision

    def due(self) -> list[Command]:
        """The completions that may come next."""
        turn = self.state.turn
        if turn is None or not self.adopted or self.state.phase is Phase.HALTED:
            return []
        if self.state.phase is Phase.MODEL:
            return [self._answer()]
        return [
            ToolReturned(turn.turn_id, each.call.id, each.stage.attempt, "ok", each.call.id)
            for each in turn.calls
            if isinstance(each.stage, Running)
        ]

    def _answer(self) -> ModelAnswered:
        turn = self.state.turn
        assert turn is not None
        check_transcript(self.state.transcript)
        place = sum(isinstance(each, ModelTurnRecorded) for each in self.events)
        calls = self.script[place] if place < len(self.script) else 0
        answer = ModelTurn(
            "" if calls else f"answer {place}",
            tuple(ToolCall(f"c{place}.{slot}", "work") for slot in range(calls)),
        )
        return ModelAnswered(turn.turn_id, turn.steps + 1, turn.discarded + 1, "m", answer)

    def run(self, choose: st.DataObject | None = None) -> None:
        while due := self.due():
            command = due[0] if choose is None else choose.draw(st.sampled_from(due))
            if isinstance(command, ModelAnswered):
                self.asked.append(command.step)
            self.tell(command)

    def crashed_after(self, count: int) -> World:
        """A new process on the first ``count`` events."""
        kept = self.events[:count]
        return World(self.script, self.rules, fold(kept), kept, self.generation + 1)


scripts = st.lists(st.integers(0, 4), max_size=6)


@pytest.mark.slow
@given(scripts, st.integers(1, 5), st.data())
def test_every_prefix_of_a_run_resumed_ends_in_the_same_transcript(
    script: list[int], concurrency: int, choose: st.DataObject
) -> None:
    original = World(script, rules(concurrency=concurrency))
    original.tell(Submit("i1", "go"))
    original.run(choose)
    begun = next(i for i, e in enumerate(original.events) if isinstance(e, TurnStarted)) + 1

    for count in range(begun, len(original.events) + 1):
        resumed = original.crashed_after(count)
        recorded = {e.call_id for e in resumed.events if isinstance(e, ToolResultRecorded)}
        steps = {e.step for e in resumed.events if isinstance(e, ModelTurnRecorded)}
        resumed.tell(Resume())
        resumed.run(choose)

        assert resumed.state.transcript == original.state.transcript
        assert resumed.state.turn is None
        assert not recorded & set(resumed.ran)
        assert not steps & set(resumed.asked)
        _each_call_has_one_result(resumed.events)


@given(scripts, st.data())
def test_the_fold_of_the_events_is_the_state_that_was_decided_on(
    script: list[int], choose: st.DataObject
) -> None:
    world = World(script)
    world.tell(Submit("i1", "one"))
    world.tell(Submit("i2", "two"))
    world.run(choose)

    assert fold(world.events) == world.state


@given(st.integers(1, 5), st.data())
def test_a_half_answered_batch_runs_exactly_the_calls_without_result(
    size: int, choose: st.DataObject
) -> None:
    """For every subset of a batch that was recorded, resume runs the rest, in call order."""
    world = World([size])
    world.tell(Submit("i1", "go"))
    world.tell(world.due()[0])
    done = choose.draw(st.sets(st.integers(0, size - 1), max_size=size - 1))
    for slot in done:
        world.tell(next(c for c in world.due() if c.call_id == f"c0.{slot}"))  # type: ignore[union-attr]

    resumed = world.crashed_after(len(world.events))
    resumed.tell(Resume())

    assert resumed.ran == [f"c0.{slot}" for slot in range(size) if slot not in done]


def test_a_first_input_is_one_append_with_its_turn() -> None:
    decision = World([]).tell(Submit("i1", "go"))

    assert [type(each) for each in decision.events] == [
        SessionStarted,
        InputQueued,
        AgentConfigured,
        TurnStarted,
    ]


def test_input_sent_during_a_turn_waits_and_runs_as_the_next_turn() -> None:
    world = World([1])
    world.tell(Submit("i1", "one"))
    world.tell(Submit("i2", "two"))
    world.tell(Submit("i3", "three"))
    world.run()

    starts = [each.input_ids for each in world.events if isinstance(each, TurnStarted)]
    assert starts == [("i1",), ("i2",), ("i3",)]


def test_the_agent_is_recorded_once_and_again_only_when_it_differs() -> None:
    world = World([])
    for place in range(3):
        world.tell(Submit(f"i{place}", "hi"))
        world.run()
    changed = AgentConfigured(at=AT, name="agent", model="m", fingerprint="f2")
    world.rules = replace(world.rules, configured=changed)
    world.tell(Submit("i4", "hi"))

    prints = [each.fingerprint for each in world.events if isinstance(each, AgentConfigured)]
    assert prints == ["f1", "f2"]


def test_tool_concurrency_of_one_runs_calls_strictly_in_order() -> None:
    world = World([3], rules(concurrency=1))
    world.tell(Submit("i1", "go"))
    world.tell(world.due()[0])
    running = []
    while world.state.phase is Phase.TOOLS:
        running.append([each.call_id for each in world.due()])  # type: ignore[union-attr]
        world.tell(world.due()[0])

    assert running == [["c0.0"], ["c0.1"], ["c0.2"]]


def test_two_calls_with_one_id_become_two_calls() -> None:
    world = World([])
    world.tell(Submit("i1", "go"))
    twins = (ToolCall("x", "work", {"n": 1}), ToolCall("x", "work", {"n": 2}))
    world.tell(ModelAnswered("turn-1", 1, 1, "m", ModelTurn(tool_calls=twins)))

    turn = world.state.turn
    assert turn is not None
    assert [each.call.arguments for each in turn.calls] == [{"n": 1}, {"n": 2}]
    assert len({each.call.id for each in turn.calls}) == 2


def test_an_id_used_in_an_earlier_step_of_the_turn_is_made_distinct() -> None:
    world = World([])
    world.tell(Submit("i1", "go"))
    again = ModelTurn(tool_calls=(ToolCall("x", "work"),))
    world.tell(ModelAnswered("turn-1", 1, 1, "m", again))
    world.tell(ToolReturned("turn-1", "x", 1, "ok", "1"))
    world.tell(ModelAnswered("turn-1", 2, 1, "m", again))

    turn = world.state.turn
    assert turn is not None and turn.calls[0].call.id != "x"


def test_an_unknown_tool_is_answered_with_an_error_and_never_started() -> None:
    world = World([])
    world.tell(Submit("i1", "go"))
    calls = (ToolCall("a", "nowhere"), ToolCall("b", "work"))
    world.tell(ModelAnswered("turn-1", 1, 1, "m", ModelTurn(tool_calls=calls)))

    assert world.ran == ["b"]
    result = next(each for each in world.events if isinstance(each, ToolResultRecorded))
    assert (result.call_id, result.outcome) == ("a", "error")


def test_at_the_step_limit_every_call_has_its_result_and_a_later_turn_a_new_budget() -> None:
    world = World([1, 1, 1, 1], rules(max_steps=2))
    world.tell(Submit("i1", "go"))
    world.run()
    finished = [each for each in world.events if isinstance(each, TurnFinished)]
    assert [each.finish_reason for each in finished] == ["max-steps"]
    assert isinstance(world.state.transcript[-1], ToolMessage)

    assert world.tell(Resume()).events == ()
    world.tell(Submit("i2", "continue"))
    world.run()
    assert len([each for each in world.events if isinstance(each, ModelTurnRecorded)]) == 4


@given(st.integers(1, 5), st.data())
def test_no_crash_gives_a_turn_more_steps_than_its_budget(
    limit: int, choose: st.DataObject
) -> None:
    world = World([1] * 9, rules(max_steps=limit))
    world.tell(Submit("i1", "go"))
    while world.state.turn is not None:
        if choose.draw(st.booleans()):
            world = world.crashed_after(len(world.events))
            world.tell(Resume())
        elif due := world.due():
            world.tell(due[0])

    assert len([each for each in world.events if isinstance(each, ModelTurnRecorded)]) == limit


def test_a_tool_that_must_not_run_twice_fails_after_a_crash_and_says_so() -> None:
    world = World([1], rules(on_crash="fail"))
    world.tell(Submit("i1", "go"))
    world.tell(world.due()[0])
    resumed = world.crashed_after(len(world.events))
    resumed.tell(Resume())

    assert resumed.ran == []
    result = next(each for each in resumed.events if isinstance(each, ToolResultRecorded))
    assert result.outcome == "error" and "may not have taken effect" in result.content


def test_a_call_in_doubt_runs_again_as_the_next_attempt() -> None:
    world = World([1])
    world.tell(Submit("i1", "go"))
    world.tell(world.due()[0])
    for _ in range(2):
        world = world.crashed_after(len(world.events))
        world.tell(Resume())

    attempts = [each.attempt for each in world.events if isinstance(each, ToolCallStarted)]
    assert attempts == [1, 2, 3]


def test_a_completion_of_an_earlier_attempt_is_dropped() -> None:
    world = World([1])
    world.tell(Submit("i1", "go"))
    world.tell(world.due()[0])
    late = world.due()[0]
    resumed = world.crashed_after(len(world.events))
    resumed.tell(Resume())

    assert resumed.tell(late).events == ()


def test_sending_again_what_the_interrupted_turn_began_with_is_a_retry() -> None:
    world = World([1])
    world.tell(Submit("i1", "do X"))
    resumed = world.crashed_after(len(world.events))
    resumed.tell(Submit("i2", "do X"))
    resumed.run()
    resumed.tell(Submit("i3", "do X"))
    resumed.run()

    queued = [each.input_id for each in resumed.events if isinstance(each, InputQueued)]
    assert queued == ["i1", "i3"]


def test_the_same_words_during_a_live_turn_are_a_second_message() -> None:
    world = World([])
    world.tell(Submit("i1", "do X"))
    world.tell(Submit("i2", "do X"))

    assert len([each for each in world.events if isinstance(each, InputQueued)]) == 2


def test_other_words_after_a_crash_come_after_the_interrupted_turn() -> None:
    world = World([1])
    world.tell(Submit("i1", "do X"))
    world.tell(world.due()[0])
    resumed = world.crashed_after(len(world.events))
    resumed.tell(Submit("i2", "do Y"))
    resumed.run()

    assert [_brief(each) for each in resumed.state.transcript] == [
        "do X",
        "calls",
        "result",
        "answer 1",
        "do Y",
        "answer 2",
    ]


def test_an_older_node_never_takes_a_turn_back() -> None:
    world = World([1], generation=2)
    world.tell(Submit("i1", "go"))
    older = World([1], world.rules, world.state, list(world.events), generation=1)

    for command in (Resume(), Submit("i2", "go"), Submit("i3", "other")):
        with pytest.raises(TurnTakenOver, match="younger"):
            older.tell(command)


def test_a_stream_that_broke_off_is_asked_for_once_more_and_then_fails_the_turn() -> None:
    world = World([], replace(rules(), model_retries=1))
    world.tell(Submit("i1", "go"))
    cut = ModelBroke("turn-1", 1, 1, "model-stream-ended", "cut", transient=True)
    assert [type(each) for each in world.tell(cut).events] == [ModelCallDiscarded]
    assert world.tell(cut).events == ()
    again = ModelBroke("turn-1", 1, 2, "model-stream-ended", "cut", transient=True)
    assert [type(each) for each in world.tell(again).events] == [TurnFailed]


def test_a_draining_session_records_what_comes_back_and_starts_nothing() -> None:
    world = World([2])
    world.tell(Submit("i1", "go"))
    answer = world.due()[0]
    stamp = Stamp(AT, Owner(1, "node-1"), adopted=True, draining=True)

    decision = decide(world.state, answer, world.rules, stamp)

    assert [type(each) for each in decision.events] == [ModelTurnRecorded]


def test_a_discarded_turn_leaves_the_conversation_as_it_was_before_it() -> None:
    world = World([0, 1])
    world.tell(Submit("i1", "one"))
    world.run()
    before = list(world.state.transcript)
    world.tell(Submit("i2", "two"))
    world.tell(world.due()[0])
    world.tell(Discard())

    assert world.state.transcript == before and world.state.turn is None


def test_a_stream_with_an_event_of_a_later_version_is_not_continued() -> None:
    world = World([])
    world.state = fold([UnknownEvent("later@1", b"{}")])

    with pytest.raises(SessionReadOnly, match="later@1"):
        world.tell(Submit("i1", "go"))


def _follows_the_table(before: SessionState, event: SessionEvent, after: SessionState) -> None:
    allowed = TRANSITIONS[before.phase][type(event)] or {before.phase}
    assert after.phase in allowed, (before.phase, event, after.phase)


def _each_call_has_one_result(events: list[SessionEvent]) -> None:
    asked = [c.id for e in events if isinstance(e, ModelTurnRecorded) for c in e.tool_calls]
    answered = [e.call_id for e in events if isinstance(e, ToolResultRecorded)]
    assert sorted(answered) == sorted(asked)


def _brief(message: Message) -> str:
    match message:
        case ToolMessage():
            return "result"
        case _ if getattr(message, "tool_calls", ()):
            return "calls"
        case _:
            return str(getattr(message, "content", "") or getattr(message, "text", ""))
