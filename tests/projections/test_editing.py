"""Edits fold: whatever a stream holds, nothing that is taken out is lost, and no model is given a
conversation that no provider accepts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import accumulate

import pytest
from histories import NOON, OWNER, conversations, edits, growth, hostile, turn
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from turnstream.events import (
    AgentHandedOff,
    AnyEvent,
    ApprovalResolved,
    AssistantMessage,
    Budget,
    ForkOrigin,
    ForkPatched,
    InputApplied,
    InputQueued,
    Message,
    ModelTurnRecorded,
    SessionCleared,
    SessionRewound,
    SessionStarted,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    ToolResultRecorded,
    ToolResultsTrimmed,
    TurnAborted,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    UserMessage,
)
from turnstream.projections import INITIAL, Phase, SessionState, check_transcript, evolve, fold
from turnstream.projections.editing import whole

C1, C2 = ToolCall("c1", "f"), ToolCall("c2", "f")


def states(events: Sequence[AnyEvent]) -> list[SessionState]:
    """The state before all events, and after each."""
    return list(accumulate(events, evolve, initial=INITIAL))


def rewound(keep: int, undoes: int = 0) -> SessionRewound:
    return SessionRewound(at=NOON, keep_entries=keep, undoes=undoes)


@pytest.mark.slow
@given(hostile)
@settings(max_examples=400)
def test_no_model_is_given_an_invalid_transcript_whatever_the_stream_holds(
    events: list[AnyEvent],
) -> None:
    for state in states(events):
        if state.unfolded:
            return
        if state.phase in (Phase.MODEL, Phase.ANSWERED):
            check_transcript(state.transcript)
        if state.phase is not Phase.IDLE:
            continue
        check_transcript(state.conversation)


@pytest.mark.slow
@given(hostile, st.data())
@settings(max_examples=300)
def test_a_fold_may_be_cut_anywhere(events: list[AnyEvent], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(events)))
    assert fold(events[cut:], fold(events[:cut])) == fold(events)
    assert states(events)[-1] == fold(events)


@given(hostile, st.lists(edits, max_size=4), st.lists(st.one_of(growth, edits), max_size=6))
def test_folding_on_changes_no_state_that_was_folded_before(
    events: list[AnyEvent], one: list[AnyEvent], other: list[AnyEvent]
) -> None:
    state, same = fold(events), fold(events)
    first = fold(one, state)
    second = fold(other, state)
    assert state == same
    assert first == fold([*events, *one])
    assert second == fold([*events, *other])


@pytest.mark.slow
@given(hostile)
@settings(max_examples=400)
def test_turns_begin_in_order_within_the_transcript(events: list[AnyEvent]) -> None:
    for state in states(events):
        starts = list(state.starts)
        assert starts == sorted(starts)
        assert not starts or 0 <= starts[0] <= starts[-1] <= len(state.transcript)
        if state.turn is not None and not state.unfolded:
            assert starts[-1] == state.turn.base


@st.composite
def held(draw: st.DrawFn) -> list[AnyEvent]:
    """A conversation as it may be held and edited, but for rewinds."""
    events: list[AnyEvent] = [SessionStarted(at=NOON, agent="planner")]
    open_turn = False
    for number in range(1, draw(st.integers(1, 6)) + 1):
        results = ["short", "long " * draw(st.integers(0, 40))]
        said = draw(st.sampled_from([(), (C1,), (C1, C2)]))
        if open_turn:
            events.append(TurnAborted(at=NOON, turn_id=f"turn-{number - 1}"))
        open_turn = draw(st.sampled_from([False, False, True]))
        kept = results[: draw(st.integers(0, 2))] if open_turn else results
        events += turn(number, *said, results=kept, end=not open_turn)
        if draw(st.booleans()):
            chars, turns = draw(st.integers(0, 60)), draw(st.integers(0, 2))
            events.append(ToolResultsTrimmed(at=NOON, keep_chars=chars, keep_turns=turns))
        if not open_turn and draw(st.integers(0, 5)) == 0:
            events.append(SessionCleared(at=NOON))
    if open_turn:
        events.append(TurnAborted(at=NOON, turn_id="turn-9"))
    return handed_over(events, draw(st.lists(st.sampled_from(["planner", "booker", ""]))))


def handed_over(events: list[AnyEvent], targets: list[str]) -> list[AnyEvent]:
    """The same, with the next of the agents going on after each step that had calls."""
    state, found, waiting = INITIAL, list[AnyEvent](), list(targets)
    for each in events:
        step: list[AnyEvent] = [each]
        if isinstance(each, TurnStarted):
            step = [replace(each, agent=state.active or "planner")]
        state = evolve(state, step[0])
        answered = isinstance(each, ToolResultRecorded) and state.phase is Phase.MODEL
        if answered and waiting and (target := waiting.pop()) and state.turn is not None:
            source, turn_id = state.turn.agent, state.turn.turn_id
            step.append(AgentHandedOff(at=NOON, turn_id=turn_id, source=source, target=target))
            state = evolve(state, step[1])
        found += step
    return found


@pytest.mark.slow
@given(held(), st.data())
@settings(max_examples=300)
def test_a_rewind_brings_back_what_was_there_at_any_version(
    events: list[AnyEvent], data: st.DataObject
) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        known = states(events)
        version = data.draw(st.integers(0, len(events)), label="version")
        then, now = known[version], known[-1]
        undoes = len(now.edits) - len(then.edits)
        events = [*events, rewound(len(then.transcript), undoes)]
        after = fold(events)
        keep = whole(then.transcript, len(then.transcript))
        assert after.unfolded == ""
        assert after.transcript == then.transcript[:keep]
        assert list(after.starts) == [each for each in then.starts if each < keep]
        earlier = [each for each in after.switches if each.place < keep]
        assert earlier == [each for each in then.switches if each.place < keep]
        if version and then.turn is None:
            assert (after.active, list(after.switches)) == (then.active, list(then.switches))


@given(held(), st.data())
def test_every_cut_keeps_calls_and_results_together(
    events: list[AnyEvent], data: st.DataObject
) -> None:
    state = fold(events)
    keep = data.draw(st.one_of(st.integers(-2, len(state.transcript) + 2), st.integers()))
    after = evolve(state, rewound(keep))
    check_transcript(after.transcript)
    assert list(after.transcript) == list(state.transcript)[: len(after.transcript)]
    short = max(min(keep, len(state.transcript)), 0) - len(after.transcript)
    assert 0 <= short <= 2  # an answer with the calls that lost a result, and the other result
    if keep >= len(state.transcript):
        assert after.transcript == state.transcript


@pytest.mark.parametrize(
    "event",
    [rewound(0, -1), rewound(0, 1), ToolResultsTrimmed(at=NOON, keep_chars=-1, keep_turns=0)],
)
def test_an_edit_that_can_not_be_followed_makes_the_session_read_only(event: AnyEvent) -> None:
    state = fold([*turn(1), event])
    assert state.unfolded == str(type(event).__struct_config__.tag)
    assert len(state.transcript) == 2


@pytest.mark.parametrize("event", [rewound(0), SessionCleared(at=NOON)])
def test_an_open_turn_is_not_cut_from_under_its_owner(event: AnyEvent) -> None:
    before = fold(turn(1, C1, end=False))
    after = evolve(before, event)
    assert after.unfolded and after.turn == before.turn and after.transcript == before.transcript


THREE = (*turn(1, "one", key="k1"), *turn(2, "two", key="k2"), *turn(3, "three", key="k3"))


class TestKeys:
    """Keys of turns that were cut are free, others are not."""

    @pytest.mark.parametrize(
        ("keep", "left"), [(6, 3), (5, 2), (4, 2), (3, 1), (2, 1), (1, 0), (0, 0)]
    )
    def test_a_cut_frees_the_keys_of_the_turns_it_reaches(self, keep: int, left: int) -> None:
        after = fold([*THREE, rewound(keep)])
        assert set(after.keyed) == {f"k{n}" for n in range(1, left + 1)}
        assert (after.ended is not None) == (left == 3)

    def test_a_turn_that_was_dropped_after_the_cut_has_a_free_key_too(self) -> None:
        dropped = [
            *turn(1, "one", key="k1"),
            *turn(2, "two", key="k2", end=False),
            TurnAborted(at=NOON, turn_id="turn-2"),
        ]
        assert set(fold(dropped).keyed) == {"k1", "k2"}
        assert set(fold([*dropped, rewound(3, 1)]).keyed) == {"k1"}
        assert set(fold([*dropped, SessionCleared(at=NOON)]).keyed) == set()

    def test_an_input_that_waits_keeps_its_key(self) -> None:
        (queued, *_) = turn(4, "four", key="k4")
        after = fold([*THREE, queued, rewound(0)])
        assert set(after.keyed) == {"k4"} and [each.key for each in after.queued] == ["k4"]

    def test_shortened_results_free_no_key(self) -> None:
        events = turn(1, C1, results=["long " * 50], key="k1")
        after = fold([*events, ToolResultsTrimmed(at=NOON, keep_chars=0, keep_turns=0)])
        assert set(after.keyed) == {"k1"} and after.ended is not None


class TestForked:
    """What comes before is another session's."""

    origin = SessionStarted(at=NOON, agent="planner", forked_from=ForkOrigin("s", 4))
    started = ToolCallStarted(at=NOON, turn_id="turn-1", call_id="c2")

    def test_results_are_kept_and_other_calls_were_never_begun(self) -> None:
        events = [*turn(1, C1, C2, results=["one"], end=False), self.started]
        state = fold([*events, self.origin])
        assert state.turn is not None and state.turn.halt is not None
        assert (state.status, state.turn.halt.code) == ("aborted", "forked")
        assert [type(each.stage).__name__ for each in state.turn.calls] == ["Settled", "Requested"]

    def test_no_time_passes_for_a_turn_between_its_last_event_and_the_fork(self) -> None:
        budget = Budget(max_steps=3, seconds=10)
        queued, started = turn(1, end=False)
        assert isinstance(started, TurnStarted)
        asked = ModelTurnRecorded(
            at=NOON + timedelta(seconds=4), turn_id="turn-1", step=1, tool_calls=(C1,)
        )
        began = TurnStarted(
            at=NOON,
            turn_id="turn-1",
            input_ids=started.input_ids,
            agent="planner",
            budget=budget,
            owner=OWNER,
        )
        later = NOON + timedelta(days=7)
        fork = SessionStarted(at=later, agent="planner", forked_from=ForkOrigin("s", 3))
        again = TurnResumed(at=later, turn_id="turn-1", owner=OWNER)
        state = fold([queued, began, asked, fork, again])
        assert state.turn is not None
        assert state.turn.active_at(later + timedelta(seconds=1)) == 5

    def test_it_knows_no_decision_of_its_source(self) -> None:
        decided = ApprovalResolved(at=NOON, approval_id="s/turn-1.1.1", decision="approved")
        assert set(fold([*turn(1), decided]).decided) == {"s/turn-1.1.1"}
        assert fold([*turn(1), decided, self.origin]).decided == {}
        assert fold([self.origin], fold([*turn(1), decided])).decided == {}


class TestPatched:
    """A fork's beginning, changed."""

    @staticmethod
    def patched(**changes: object) -> ForkPatched:
        call = {"result": "tool_result", "call_id": ""}
        changed = tuple(call.get(each, each) for each in changes)
        kinds = tuple(each for each in changed if each)
        return ForkPatched(at=NOON, changed=kinds, **changes)  # type: ignore[arg-type]

    @given(conversations(), conversations(unfinished=True), st.booleans())
    def test_other_messages_take_the_place_of_all_there_were(
        self, finished: tuple[Message, ...], unfinished: tuple[Message, ...], is_open: bool
    ) -> None:
        said = unfinished if is_open else finished
        events = [*turn(1), *turn(2, C1, end=not is_open, results=["r"])]
        state = fold([*events, self.patched(messages=said)])
        assert state.unfolded == ""
        assert state.transcript == said
        back = evolve(
            fold([TurnAborted(at=NOON, turn_id="turn-2")], state), rewound(99, len(state.edits))
        )
        assert is_open or back.transcript == fold(events).transcript

    @given(conversations(unfinished=True))
    def test_an_open_turn_goes_on_after_other_messages(self, said: tuple[Message, ...]) -> None:
        state = fold([*turn(1), *turn(2, C1, end=False), self.patched(messages=said)])
        turn_ = state.turn
        assert turn_ is not None and turn_.base <= len(said)
        asked = said[-1].tool_calls if said and isinstance(said[-1], AssistantMessage) else ()
        assert [each.call for each in turn_.calls] == list(asked)

    def test_results_that_were_there_stay_with_their_calls(self) -> None:
        events = turn(1, C1, C2, results=["one"], end=False)
        said = (UserMessage("other"), AssistantMessage("", (C1, C2)))
        state = fold([*events, self.patched(messages=said)])
        assert state.turn is not None
        assert [each.content for each in state.turn.results] == ["one"]

    def test_a_result_is_replaced_where_it_stands(self) -> None:
        events = [*turn(1, C1, results=["one"]), *turn(2)]
        state = fold([*events, self.patched(call_id="c1", result={"n": 2})])
        assert state.transcript[2] == ToolMessage("c1", "f", '{"n":2}')
        assert len(state.transcript) == 6 and list(state.starts) == [0, 4]

    def test_a_missing_result_is_recorded_and_the_last_one_lets_the_model_go_on(self) -> None:
        events = turn(1, C1, C2, end=False)
        one = fold([*events, self.patched(call_id="c2", result="two")])
        assert one.turn is not None and [m.content for m in one.turn.results] == ["two"]
        both = evolve(one, self.patched(call_id="c1", result="one"))
        assert [each.content for each in both.transcript[2:]] == ["one", "two"]  # type: ignore[union-attr]
        assert both.phase is Phase.MODEL

    def test_a_result_of_no_call_makes_the_session_read_only(self) -> None:
        assert fold([*turn(1), self.patched(call_id="c1", result=1)]).unfolded == "fork_patched"


def test_a_turn_that_said_nothing_leaves_no_trace_when_it_is_dropped() -> None:
    (_, started) = turn(1, end=False)
    state = fold([started, TurnAborted(at=NOON, turn_id="turn-1"), *turn(2)])
    assert list(state.starts) == [0] and len(state.transcript) == 2


def test_a_shorter_conversation_has_its_open_turn_further_up() -> None:
    finished = [
        each
        for n in (1, 2)
        for each in (*turn(n, "a", end=False), TurnFinished(at=NOON, turn_id=f"turn-{n}"))
    ]
    joined = [
        InputQueued(at=NOON, input_id="i2", content="a", policy="queue"),
        InputApplied(at=NOON, turn_id="turn-3", input_id="i2"),
    ]
    before = fold([*finished, *turn(3, "a", end=False), *joined])
    assert list(before.starts) == [0, 1, 2] and len(before.transcript) == 4
    said = (UserMessage("a"),) * 3
    after = evolve(before, ForkPatched(at=NOON, messages=said, changed=("messages",)))
    assert after.turn is not None and after.turn.base == 1
    assert list(after.starts) == [0, 1]


def test_a_late_result_changes_nothing_that_was_cut() -> None:
    events = [*turn(1, C1, results=["r"]), rewound(0)]
    late = ToolResultRecorded(at=NOON, turn_id="turn-1", call_id="c1", content="late")
    assert fold([*events, late]) == fold(events)


def test_a_turn_that_is_dropped_takes_its_hand_off_along_and_no_earlier_one() -> None:
    gone = AgentHandedOff(at=NOON, turn_id="turn-2", source="booker", target="clerk")
    events = handed_over(
        [*turn(1, C1, results=["r"]), *turn(2, C1, results=["r"], end=False)], ["booker"]
    )
    assert fold([*events, gone]).active == "clerk"
    assert fold([*events, gone, TurnAborted(at=NOON, turn_id="turn-2")]).active == "booker"


def test_time_counts_where_the_agent_that_goes_on_has_a_limit_of_it() -> None:
    def at(seconds: int) -> datetime:
        return NOON + timedelta(seconds=seconds)

    def handed(seconds: int, limit: float) -> AgentHandedOff:
        budget = Budget(max_steps=9, seconds=limit)
        return AgentHandedOff(
            at=at(seconds), turn_id="turn-1", source="a", target="b", budget=budget
        )

    state = fold(turn(1, C1, results=["r"], end=False))
    for event in (handed(10, 60), handed(15, 0), handed(100, 60)):
        state = evolve(state, event)
    assert state.turn is not None
    assert state.turn.active_at(at(103)) == 5 + 3
    assert state.turn.budget.seconds == 60


def test_a_hand_off_while_calls_lack_results_makes_the_session_read_only() -> None:
    state = fold(turn(1, C1, end=False))
    for applied, unfolded in ((False, ""), (True, "agent_handed_off")):
        event = AgentHandedOff(
            at=NOON, turn_id="turn-1", source="planner", target="b", applied=applied
        )
        assert evolve(state, event).unfolded == unfolded
