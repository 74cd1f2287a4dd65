"""The guarantees, judged by what is in the stream and in the log of calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from plan import Accepted, Asked, Failed, Finished, Plan, Ran, Shown, digest
from story import Life, Story, events

from turnstream.events import (
    AnyEvent,
    AssistantMessage,
    InputQueued,
    Message,
    ModelTurnRecorded,
    StoredRecord,
    ToolCallStarted,
    ToolMessage,
    ToolResultRecorded,
    TurnFinished,
    TurnStarted,
    UserMessage,
    verify,
)
from turnstream.projections import INITIAL, Audit, check_transcript, evolve, fold


def conversation(plan: Plan) -> list[Message]:
    """What the session comes to where nothing is ever killed."""
    said: list[Message] = []
    script = iter(plan.script)
    for text in plan.inputs:
        said.append(UserMessage(text))
        for answer in script:
            said.append(AssistantMessage(answer.text, answer.tool_calls, answer.parts))
            said += [
                ToolMessage(each.id, each.name, str(each.arguments["text"]))
                for each in answer.tool_calls
            ]
            if not answer.tool_calls:
                break
    return said


def judge(story: Story) -> None:
    """Every guarantee, over the whole of a story that came to its end."""
    assert not [each for life in story.lives for each in life.lines if isinstance(each, Failed)]
    assert story.messages == conversation(story.plan) and story.state.turn is None
    judge_stream(story.records)
    assert_results_are_in_order_of_completion(story.events, story.plan.order)
    assert_inputs_are_applied_once_in_order(story.events, story.plan.inputs)
    for life in story.lives:
        judge_life(life)
        assert_nothing_was_told_before_it_was_durable(life)


def judge_life(life: Life) -> None:
    """What holds for one process and one session, however it ended."""
    assert_nothing_recorded_was_done_again(life)
    assert_nothing_began_before_it_was_announced(life)
    assert_models_were_asked_with_the_fold_of_the_stream(life)


def judge_stream(records: Sequence[StoredRecord]) -> None:
    """What holds for a stream at any time."""
    assert verify(records) is None
    assert_no_event_is_against_the_rules(records)
    recorded = events(records)
    assert_calls_have_one_result(recorded)
    assert_every_split_folds_alike(recorded)


def assert_no_event_is_against_the_rules(records: Sequence[StoredRecord]) -> None:
    audit = Audit()
    for record, event in zip(records, events(records), strict=True):
        audit.take(record.version, record.topic, record.payload, event)
    assert (audit.breach, audit.unknown) == (None, [])


def assert_calls_have_one_result(recorded: Sequence[AnyEvent]) -> None:
    """G1, G5."""
    state = fold(recorded)
    check_transcript(state.conversation)
    for turn in _turns(recorded):
        asked = [c.id for e in turn if isinstance(e, ModelTurnRecorded) for c in e.tool_calls]
        results = [each.call_id for each in turn if isinstance(each, ToolResultRecorded)]
        assert len(set(asked)) == len(asked)
        assert not [each for each, times in Counter(results).items() if times > 1]
        if isinstance(turn[-1], TurnFinished):
            assert sorted(results) == sorted(asked)


def _turns(recorded: Sequence[AnyEvent]) -> Iterator[list[AnyEvent]]:
    turn: list[AnyEvent] = []
    for event in recorded:
        turn.append(event)
        if isinstance(event, TurnFinished):
            yield turn
            turn = []
    if turn:
        yield turn


def assert_nothing_recorded_was_done_again(life: Life) -> None:
    """G2: what was in the stream when the process began, it did not do again; and what it did
    itself, it did once."""
    steps = {(e.turn_id, e.step) for e in life.inherited if isinstance(e, ModelTurnRecorded)}
    results = {(e.turn_id, e.call_id) for e in life.inherited if isinstance(e, ToolResultRecorded)}
    asked = [(each.turn_id, each.step) for each in life.asked]
    ran = [(each.turn_id, each.call_id) for each in life.ran]
    assert not steps & set(asked) and not results & set(ran)
    assert len(set(asked)) == len(asked) and len(set(ran)) == len(ran)


def assert_results_are_in_order_of_completion(
    recorded: Sequence[AnyEvent], order: Sequence[str]
) -> None:
    """G3, where ``order`` is the order in which the calls were made to end."""
    results = [each.content for each in recorded if isinstance(each, ToolResultRecorded)]
    assert [each for each in results if each in order] == list(order)


def assert_inputs_are_applied_once_in_order(
    recorded: Sequence[AnyEvent], inputs: Sequence[str]
) -> None:
    """G4."""
    queued = [each for each in recorded if isinstance(each, InputQueued)]
    started = [each for each in recorded if isinstance(each, TurnStarted)]
    applied = [input_id for each in started for input_id in each.input_ids]
    assert applied == [each.input_id for each in queued]
    assert [each.content for each in queued] == list(inputs)


def assert_every_split_folds_alike(recorded: Sequence[AnyEvent]) -> None:
    """G7: in one go, or up to some event and on from there."""
    whole, state = fold(recorded), INITIAL
    for place, event in enumerate(recorded):
        assert fold(recorded[place:], state) == whole
        state = evolve(state, event)
    assert state == whole


def assert_models_were_asked_with_the_fold_of_the_stream(life: Life) -> None:
    """G7 for the live actor: each request held the transcript as the stream has it."""
    state, due = INITIAL, dict[tuple[str, int], str]()
    for event in events(life.records):
        state = evolve(state, event)
        if state.turn is not None:
            due[state.turn.turn_id, state.turn.steps + 1] = digest(state.transcript)
    assert [each for each in life.asked if due[each.turn_id, each.step] != each.request] == []


def assert_nothing_began_before_it_was_announced(life: Life) -> None:
    """G8 for effects: what the process did up to its death follows from what it left."""
    left = events(life.records)
    started = {(e.turn_id, e.call_id, e.attempt) for e in left if isinstance(e, ToolCallStarted)}
    turns = {each.turn_id for each in left if isinstance(each, TurnStarted)}
    for line in life.lines:
        match line:
            case Ran():
                assert (line.turn_id, line.call_id, line.attempt) in started
            case Asked():
                assert line.turn_id in turns


def assert_nothing_was_told_before_it_was_durable(life: Life) -> None:
    """G8 for callers, and G7 for what they are told."""
    left = events(life.records)
    queued = {each.input_id for each in left if isinstance(each, InputQueued)}
    ends = {
        event.turn_id: digest(fold(left[: place + 1]).conversation)
        for place, event in enumerate(left)
        if isinstance(event, TurnFinished)
    }
    for line in life.lines:
        match line:
            case Accepted(input_id=input_id):
                assert not input_id or input_id in queued
            case Shown(version=version):
                assert version <= len(left)
            case Finished(turn_id=turn_id, conversation=told):
                assert ends[turn_id] == told
