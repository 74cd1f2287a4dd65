"""What a process that is killed between two moments leaves behind, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Literal

import pytest
from places import on_durable_stores
from plan import AtAppend, InModel, InTool, calls, digest, says
from story import Story
from verdict import judge, judge_stream

from turnstream.events import (
    AssistantMessage,
    InputQueued,
    ModelTurn,
    ModelTurnRecorded,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    ToolResultRecorded,
    TurnFinished,
    Usage,
    UserMessage,
)

pytestmark = on_durable_stores

Tell = Callable[..., Story]
Side = Literal["before", "after"]


def answers(story: Story) -> list[tuple[object, str]]:
    """The results the model was given: content and outcome."""
    return [(m.content, m.outcome) for m in story.messages if isinstance(m, ToolMessage)]


def of_kind(story: Story, kind: type) -> int:
    return sum(isinstance(each, kind) for each in story.events)


def test_a_call_cut_off_by_a_kill_runs_again_before_the_next_message_is_answered(
    tell: Tell,
) -> None:
    story = tell(calls("c1"), says("done"), says("ack"), inputs=("go", "are you there?"))
    story.live(InTool("c1"), inputs=("go",))
    story.live(resumes=False)

    judge(story)
    assert story.ran == ["c1", "c1"]
    assert story.asked == [("turn-1", 1), ("turn-1", 2), ("turn-2", 1)]


def test_a_call_killed_before_it_was_recorded_as_started_runs_once(tell: Tell) -> None:
    story = tell(calls("c1"), says("done"), says("ack"), inputs=("go", "are you there?"))
    story.live(AtAppend("before", 1, "tool_call_started"), inputs=("go",))
    story.live(resumes=False)

    judge(story)
    assert story.ran == ["c1"]


def test_a_call_that_runs_again_has_the_same_idempotency_key_and_a_higher_attempt(
    tell: Tell,
) -> None:
    story = tell(calls("c1"), says("done"), inputs=("go",))
    story.live(InTool("c1"))
    story.live(InTool("c1"))
    story.live()

    judge(story)
    runs = [each for life in story.lives for each in life.ran]
    assert [each.attempt for each in runs] == [1, 2, 3]
    assert len({each.key for each in runs}) == 1


@pytest.mark.parametrize("recorded", range(4))
def test_of_a_half_answered_batch_exactly_the_calls_without_result_run_again(
    tell: Tell, recorded: int
) -> None:
    """For every subset of four calls whose results were recorded before the kill."""
    batch = ("c1", "~c2", "c3", "c4")
    for done in combinations(batch, recorded):
        rest = tuple(each for each in batch if each not in done)
        story = tell(calls(*batch), says("ok"), inputs=("go",))
        last = AtAppend("after", recorded, "tool_result_recorded")
        story.live(last if done else AtAppend("after", 1, "tool_call_started"), holds=rest)
        story.live()

        judge(story)
        assert sorted(each.text for each in story.lives[1].ran) == sorted(rest)
        again = [e for e in story.events if isinstance(e, ToolCallStarted) and e.attempt == 2]
        assert [each.call_id for each in again] == list(rest)
        assert story.asked == [("turn-1", 1), ("turn-1", 2)]


def test_of_two_calls_with_one_id_only_the_one_without_result_runs_again(tell: Tell) -> None:
    twins = tuple(ToolCall("x", "work", {"text": text}) for text in ("first", "second"))
    story = tell(ModelTurn(tool_calls=twins), says("ok"), inputs=("go",))
    story.live(AtAppend("after", 1, "tool_result_recorded"), holds=("second",))
    story.live()

    assert [each.text for each in story.lives[1].ran] == ["second"]
    assert answers(story) == [("first", "ok"), ("second", "ok")]
    judge_stream(story.records)


def test_arguments_that_are_no_object_are_answered_once_and_poison_nothing(tell: Tell) -> None:
    texts = ('{"path": "a', "[1,2]", "null")
    broken = tuple(ToolCall(f"c{n}", "work", malformed=text) for n, text in enumerate(texts))
    story = tell(ModelTurn(tool_calls=broken), says("sorry"), inputs=("go",))
    story.live(AtAppend("after", 1, "model_turn_recorded"))
    story.live()

    assert story.ran == [] and story.asked == [("turn-1", 1), ("turn-1", 2)]
    assert [outcome for _, outcome in answers(story)] == ["error"] * 3
    asked = story.messages[1]
    assert isinstance(asked, AssistantMessage)
    assert [(each.arguments, each.malformed) for each in asked.tool_calls] == [
        ({}, text) for text in texts
    ]


@pytest.mark.parametrize(
    "kill", [AtAppend("after", 1, "model_turn_recorded"), InTool("plan A")], ids=["", "in a call"]
)
def test_a_recorded_plan_is_carried_out_although_the_model_would_answer_another_now(
    tell: Tell, kill: AtAppend | InTool
) -> None:
    story = tell(calls("plan A"), says("done"), inputs=("go",))
    story.live(kill)
    story.live(script=(calls("plan B"), says("done")))

    judge(story)
    assert story.asked.count(("turn-1", 1)) == 1 and "plan B" not in story.ran


def test_a_plan_that_was_not_recorded_is_asked_for_again_and_the_new_one_counts(
    tell: Tell,
) -> None:
    story = tell(calls("plan B"), says("done"), inputs=("go",))
    story.live(AtAppend("before", 1, "model_turn_recorded"), script=(calls("plan A"),))
    story.live()

    judge(story)
    assert story.ran == ["plan B"]


def test_a_turn_is_in_the_conversation_from_the_append_on_that_finishes_it(tell: Tell) -> None:
    story = tell(calls("c1"), says("done"), says("ack"), inputs=("go", "next"))
    story.live(AtAppend("after", 1, "turn_finished"), inputs=("go",))

    assert story.state.turn is None
    assert digest(story.state.conversation) == digest(story.messages) and len(story.messages) == 4
    asked = len(story.asked)
    story.live()
    judge(story)
    assert story.asked[asked:] == [("turn-2", 1)]


def test_before_the_append_that_finishes_it_a_turn_is_unfinished_and_no_answer_is_there(
    tell: Tell,
) -> None:
    story = tell(calls("c1"), says("done"), says("ack"), inputs=("go", "next"))
    story.live(AtAppend("before", 1, "turn_finished"), inputs=("go",))

    assert list(story.state.conversation) == [] and len(story.messages) == 3
    story.live()
    judge(story)


@pytest.mark.parametrize("kill", [InModel(1), InTool("c1")], ids=["asking", "in a call"])
def test_a_message_sent_again_after_a_kill_is_there_once(
    tell: Tell, kill: InModel | InTool
) -> None:
    story = tell(calls("c1"), says("done"), inputs=("do X",))
    story.live(kill)
    story.live(inputs=("do X",), resumes=False)

    judge(story)
    assert of_kind(story, InputQueued) == 1


def test_a_message_sent_again_after_its_turn_finished_is_a_second_message(tell: Tell) -> None:
    story = tell(says("done"), says("done again"), inputs=("do X", "do X"))
    story.live(AtAppend("after", 1, "turn_finished"), inputs=("do X",))
    story.live(inputs=("do X",), resumes=False)

    judge(story)
    assert of_kind(story, InputQueued) == 2


def test_another_message_after_a_kill_comes_after_the_interrupted_turn(tell: Tell) -> None:
    story = tell(calls("c1"), says("X is done"), says("Y is done"), inputs=("do X", "do Y"))
    story.live(InTool("c1"), inputs=("do X",))
    story.live(resumes=False)

    judge(story)
    assert [each.content for each in story.messages if isinstance(each, UserMessage)] == [
        "do X",
        "do Y",
    ]


def test_half_an_answer_is_never_recorded(tell: Tell) -> None:
    story = tell(says("Hello"), inputs=("hi",))
    story.live(InModel(1))

    assert of_kind(story, ModelTurnRecorded) == 0
    story.live()
    judge(story)
    assert story.asked == [("turn-1", 1), ("turn-1", 1)]


@pytest.mark.slow
def test_a_fresh_interpreter_sees_the_calls_of_a_recorded_model_turn(tell: Tell) -> None:
    story = tell(calls("c1", "~c2", "c3"), says("done"), inputs=("go",))
    story.live(AtAppend("after", 1, "model_turn_recorded"), fresh=True)
    story.live(fresh=True)

    judge(story)
    assert sorted(story.ran) == ["c1", "c3", "~c2"]


@pytest.mark.parametrize(
    "kill", [InTool("c1"), AtAppend("after", 1, "model_turn_recorded")], ids=["began", "announced"]
)
def test_a_pending_call_of_a_tool_that_is_gone_is_answered_with_an_error(
    tell: Tell, kill: AtAppend | InTool
) -> None:
    story = tell(calls("c1"), says("I can't"), inputs=("go",))
    story.live(kill)
    ran = story.ran
    story.live(tools=("fetch",))

    assert story.state.turn is None and story.ran == ran
    ((content, outcome),) = answers(story)
    assert outcome == "error" and "no tool named 'work'" in str(content)
    judge_stream(story.records)


LIMITS = [({"max_steps": 3}, 3, "max-steps"), ({"token_budget": 1000}, 5, "budget")]


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("limit", "steps", "reason"), LIMITS, ids=["steps", "tokens"])
def test_a_process_killed_at_each_step_has_no_more_steps_than_one_that_is_not(
    tell: Tell, limit: dict[str, int], steps: int, reason: str, side: Side
) -> None:
    endless = [
        ModelTurn(tool_calls=calls(f"c{n}").tool_calls, usage=Usage(150, 50)) for n in "12345"
    ]
    story = tell(*endless, inputs=("go",), **limit)
    kills = range(steps if side == "after" else 1)
    for _ in kills:
        assert story.live(AtAppend(side, 1, "model_turn_recorded")).killed
    story.live()

    recorded = [each for each in story.events if isinstance(each, ModelTurnRecorded)]
    assert [each.step for each in recorded] == list(range(1, steps + 1))
    assert story.state.usage == Usage(150 * steps, 50 * steps)
    ends = [each.finish_reason for each in story.events if isinstance(each, TurnFinished)]
    assert ends == [reason]
    assert of_kind(story, ToolResultRecorded) == steps
    judge_stream(story.records)
