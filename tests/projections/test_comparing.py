"""Two runs beside each other: what is a difference, and what only looks like one."""

from __future__ import annotations

import time
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from turnstream.events import (
    AssistantMessage,
    ImagePart,
    InvalidTranscript,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from turnstream.projections import (
    ArgumentDrift,
    Comparison,
    Drift,
    FinishReasonDrift,
    StepCountDrift,
    ToolOrderDrift,
    Trajectory,
    compare_trajectories,
    trajectory_steps,
)
from turnstream.projections.comparing import Leniency, same_value

NAN = float("nan")


def step(*calls: ToolCall, text: str = "", results: tuple[Any, ...] = ()) -> list[Message]:
    """An answer with calls and their results, which are ``ok`` unless they say otherwise."""
    given = results or ("done",) * len(calls)
    return [
        AssistantMessage(text, calls),
        *(ToolMessage(each.id, each.name, r) for each, r in zip(calls, given, strict=True)),
    ]


def call(tool: str = "find", call_id: str = "c1", /, **arguments: Any) -> ToolCall:
    return ToolCall(call_id, tool, arguments)


def run(*parts: list[Message], ended: str | None = None) -> Trajectory:
    """A run of these steps; ``ended`` is how its last turn ended."""
    messages: list[Message] = [UserMessage("go")]
    for part in parts:
        messages += part
    known = {} if ended is None else {len(messages): ended}
    return Trajectory(trajectory_steps(messages, known, None if ended is None else ""))


def mirrored(comparison: Comparison) -> Comparison:
    return replace(
        comparison,
        a=comparison.b,
        b=comparison.a,
        drift=tuple(replace(each, a=each.b, b=each.a) for each in comparison.drift),
        usage_a=comparison.usage_b,
        usage_b=comparison.usage_a,
    )


def compared(a: Trajectory, b: Trajectory, **ignore: tuple[str, ...]) -> Comparison:
    """Compared both ways."""
    leniency = Leniency.of(ignore, text=False)
    there = compare_trajectories(a, b, leniency)
    back = compare_trajectories(b, a, leniency)
    assert repr(back) == repr(mirrored(there))  # NaN is not itself to ==
    return there


def argument(a: Any, b: Any, name: str = "x", step: int = 0, call: int = 0) -> ArgumentDrift:
    return ArgumentDrift(step, call, "find", name, a, b)


SEARCH, ANSWER = step(call(x=1)), step(text="Found.")
PAIRS: dict[str, tuple[Trajectory, Trajectory, int | None, tuple[Drift, ...]]] = {
    "key order": (
        run(step(call(x=1, y={"a": 1, "b": 2}))),
        run(step(call(y={"b": 2, "a": 1}, x=1))),
        None,
        (),
    ),
    "1 and 1.0": (run(step(call(x=1))), run(step(call(x=1.0))), None, ()),
    "1 and Decimal": (run(step(call(x=1))), run(step(call(x=Decimal("1.00")))), None, ()),
    "1 and True": (run(step(call(x=1))), run(step(call(x=True))), 0, (argument(1, True),)),
    "0 and False, inside": (
        run(step(call(x=[{"y": 0}]))),
        run(step(call(x=[{"y": False}]))),
        0,
        (argument([{"y": 0}], [{"y": False}]),),
    ),
    "1 and '1'": (run(step(call(x=1))), run(step(call(x="1"))), 0, (argument(1, "1"),)),
    "None and missing": (run(step(call(x=None))), run(step(call())), 0, (argument(None, UNSET),)),
    "None and missing, inside": (
        run(step(call(x={"y": None}))),
        run(step(call(x={}))),
        0,
        (argument({"y": None}, {}),),
    ),
    "NaN": (run(step(call(x=[NAN]))), run(step(call(x=[float("nan")]))), None, ()),
    "NaN and a number": (run(step(call(x=NAN))), run(step(call(x=0.0))), 0, (argument(NAN, 0.0),)),
    "different ids": (
        run(step(call("find", "c1", x=1), call("find", "c2", x=2), results=("r1", "r2"))),
        run(step(call("find", "z9", x=1), call("find", "z1", x=2), results=("r1", "r2"))),
        None,
        (),
    ),
    "list order": (
        run(step(call(x=[1, 2]))),
        run(step(call(x=[2, 1]))),
        0,
        (argument([1, 2], [2, 1]),),
    ),
    "a repeated tool, results swapped": (
        run(ANSWER, step(call("find", "1"), call("find", "2"), results=("r1", "r2"))),
        run(ANSWER, step(call("find", "1"), call("find", "2"), results=("r2", "r1"))),
        1,
        (),
    ),
    "a repeated tool, once more": (
        run(step(call(), call("find", "2"))),
        run(step(call(), call("find", "2"), call("find", "3"))),
        0,
        (ToolOrderDrift(0, ("find", "find"), ("find", "find", "find")),),
    ),
    "tool order": (
        run(SEARCH, step(call("a", "1", x=1), call("b", "2"))),
        run(SEARCH, step(call("b", "1"), call("a", "2", x=2))),
        1,
        (ToolOrderDrift(1, ("a", "b"), ("b", "a")),),
    ),
    "one a prefix of the other": (
        run(SEARCH),
        run(SEARCH, ANSWER),
        1,
        (StepCountDrift(1, 1, 2),),
    ),
    "empty and empty": (run(), run(), None, ()),
    "empty and not": (run(), run(ANSWER), 0, (StepCountDrift(0, 0, 1),)),
    "finish reason only": (
        run(SEARCH, ended="stop"),
        run(SEARCH, ended="budget"),
        None,
        (FinishReasonDrift(0, "stop", "budget"),),
    ),
    "a finish reason not known": (run(SEARCH, ended="stop"), run(SEARCH), None, ()),
    "text whitespace": (run(step(text="Hi there")), run(step(text="Hi  there")), 0, ()),
    "whitespace at the end": (run(step(text="Hi")), run(step(text="Hi\n")), 0, ()),
    "outcome only": (
        run([AssistantMessage("", (call(),)), ToolMessage("c1", "find", "no", "error")]),
        run([AssistantMessage("", (call(),)), ToolMessage("c1", "find", "no", "rejected")]),
        0,
        (),
    ),
    "a result and none yet": (run(SEARCH), run([SEARCH[0]]), 0, ()),
    "parts of a result": (
        run(step(call(), results=((TextPart("a"), ImagePart(url="u")),))),
        run(step(call(), results=((TextPart("a"), ImagePart(url="v")),))),
        0,
        (),
    ),
    "malformed arguments": (
        run(step(ToolCall("1", "find", malformed="{"))),
        run(step(ToolCall("2", "find", malformed="["))),
        0,
        (argument("{", "[", name=""),),
    ),
    "two arguments, by name": (
        run(step(call(b=1, a=1))),
        run(step(call(a=2, b=2))),
        0,
        (argument(1, 2, "a"), argument(1, 2, "b")),
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_a_difference_is_found_and_nothing_else(pair: str) -> None:
    a, b, diverged_at, drift = PAIRS[pair]
    before = deepcopy((a, b))
    found = compared(a, b)
    assert found.diverged_at == diverged_at
    assert repr(found.drift) == repr(drift)
    assert found.equal == (diverged_at is None and not drift)
    assert (found.a, found.b) == (a.steps, b.steps)
    assert repr((a, b)) == repr(before)


def test_volatile_arguments_are_left_aside_for_the_tool_that_is_named() -> None:
    a = run(step(call("find", "1", token="s3"), call("save", "2", token="s3")))
    b = run(step(call("find", "1", token="q7"), call("save", "2")))
    assert compared(a, b, find=("token",), save=("token", "at")).equal
    found = compared(a, b, find=("token",))
    assert found.drift == (ArgumentDrift(0, 1, "save", "token", "s3", UNSET),)
    assert found.diverged_at == 0


def test_a_text_in_place_of_names_to_ignore_is_refused() -> None:
    with pytest.raises(TypeError, match="token"):
        Leniency.of({"find": "token"}, text=False)


def test_texts_are_left_aside_on_request() -> None:
    a, b = run(step(call(), text="Let me see.")), run(step(call(), text="One moment."))
    assert compare_trajectories(a, b).diverged_at == 0
    assert compare_trajectories(a, b, Leniency(text=True)).equal


def test_usage_is_shown_and_does_not_count() -> None:
    a, b = replace(run(ANSWER), usage=Usage(5, 1)), replace(run(ANSWER), usage=Usage(9, 2))
    found = compared(a, b)
    assert (found.usage_a, found.usage_b, found.equal) == (Usage(5, 1), Usage(9, 2), True)


def test_drift_is_told_of_every_step_that_both_have() -> None:
    a = run(step(call(x=1)), ANSWER, step(call("a")), step(call(x=1)))
    b = run(step(call(x=2)), ANSWER, step(call("b")), step(call(x=1)), ANSWER)
    assert [(each.step, type(each)) for each in compared(a, b).drift] == [
        (0, ArgumentDrift),
        (2, ToolOrderDrift),
        (4, StepCountDrift),
    ]


@pytest.mark.parametrize(
    "messages",
    [
        [UserMessage("go"), ToolMessage("c1", "find", "stray")],
        [*step(text="Hi"), ToolMessage("c1", "find", "stray")],
        [*step(call()), ToolMessage("c1", "find", "once more")],
    ],
)
def test_a_result_of_no_call_is_refused(messages: list[Message]) -> None:
    with pytest.raises(InvalidTranscript, match=f"message {len(messages) - 1} ") as refused:
        trajectory_steps(messages)
    assert refused.value.call_id == "c1"


def test_calls_of_one_id_get_their_results_in_order() -> None:
    (found,) = trajectory_steps(step(call("a", "1"), call("b", "1"), results=("r1", "r2")))
    assert [(each.name, each.result) for each in found.calls] == [("a", "r1"), ("b", "r2")]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({True: 1}, {1: 1}),
        ({"1": 1}, {1: 1}),
        ([], {}),
        ([1], [1, 1]),
        ("", None),
        (b"a", "a"),
        (Decimal("sNaN"), 0),
        (Decimal("0.1"), 0.1),
        (2**53 + 1, float(2**53)),
    ],
)
def test_values_that_differ(a: Any, b: Any) -> None:
    assert same_value(a, a) and same_value(b, b)
    assert not same_value(a, b) and not same_value(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({1: "x"}, {1.0: "x"}),
        ({NAN: 1}, {float("nan"): 1}),
        ((1, 2), [1, 2]),
        (NAN, Decimal("NaN")),
        (-0.0, 0),
        (10**400, 10**400),
    ],
)
def test_values_that_are_the_same(a: Any, b: Any) -> None:
    assert same_value(a, b) and same_value(b, a)


@pytest.mark.slow
def test_values_nested_deeper_than_the_stack_are_compared() -> None:
    def nested(last: int) -> Any:
        value: Any = last
        for _ in range(100_000):
            value = [value]
        return value

    a, b, other = nested(1), nested(1), nested(2)
    assert same_value(a, b) and not same_value(a, other)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
calls = st.lists(
    st.builds(
        ToolCall,
        st.just(""),
        st.sampled_from("abc"),
        st.dictionaries(st.sampled_from("xyz"), plain, max_size=2),
    ),
    max_size=3,
)


@st.composite
def transcripts(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = []
    for turn in range(draw(st.integers(0, 4))):
        asked = tuple(replace(c, id=f"{turn}.{n}") for n, c in enumerate(draw(calls)))
        results = tuple(draw(st.text(max_size=4)) for _ in asked)
        messages += step(*asked, text=draw(st.text(max_size=4)), results=results)
    return messages


def renamed(messages: list[Message]) -> list[Message]:
    """The same with other ids."""
    found: list[Message] = []
    for each in messages:
        match each:
            case AssistantMessage(tool_calls=asked):
                asked = tuple(replace(c, id=f"other-{c.id}") for c in asked)
                found.append(replace(each, tool_calls=asked))
            case ToolMessage(call_id=call_id):
                found.append(replace(each, call_id=f"other-{call_id}"))
            case _:
                found.append(each)
    return found


@pytest.mark.slow
@given(transcripts(), transcripts())
def test_comparing_is_a_mirror_knows_no_ids_and_changes_nothing(
    one: list[Message], other: list[Message]
) -> None:
    before = repr((one, other))
    a, b = Trajectory(trajectory_steps(one)), Trajectory(trajectory_steps(other))
    assert compared(a, a).equal
    assert compared(a, Trajectory(trajectory_steps(deepcopy(one)))).equal
    assert compared(a, Trajectory(trajectory_steps(renamed(one)))).equal
    found = compared(a, b)
    assert repr(compared(Trajectory(trajectory_steps(renamed(one))), b)) == repr(found)
    at = found.diverged_at
    if at is None:
        assert len(a.steps) == len(b.steps)
    else:
        assert compared(Trajectory(a.steps[:at]), Trajectory(b.steps[:at])).equal
        heads = Trajectory(a.steps[at : at + 1]), Trajectory(b.steps[at : at + 1])
        assert not compared(*heads).equal or heads[0] != heads[1]
    assert repr((one, other)) == before


def seconds_for(steps: int) -> float:
    messages: list[Message] = []
    for number in range(steps):
        messages += step(call("find", f"c{number}", x=number, y=[number]), text="on")
    begun = time.process_time()
    a, b = Trajectory(trajectory_steps(messages)), Trajectory(trajectory_steps(renamed(messages)))
    assert compare_trajectories(a, b).equal
    return time.process_time() - begun


@pytest.mark.slow
def test_a_hundred_thousand_steps_take_ten_times_what_ten_thousand_take() -> None:
    few = min(seconds_for(10_000) for _ in range(3))
    assert seconds_for(100_000) < 30 * few
