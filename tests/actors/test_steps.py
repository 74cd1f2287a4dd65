"""Durable steps of tools: run once, recorded, and answered from the record after a crash."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepping import PAY, WAIT, Till, answers, place, resumed, run, steps, store_with, system_of

from turnstream.actors import Patch, ToolContext, tool
from turnstream.actors.testing import call
from turnstream.events import CODEC, AssistantMessage, StepRecorded
from turnstream.projections import TakenStep, fold

plans = st.lists(
    st.tuples(
        st.sampled_from(["hold", "charge", "ship"]), st.integers(0, 3), st.sampled_from([None, "k"])
    ),
    max_size=4,
).map(lambda found: [(n, x, k and f"{k}{place}") for place, (n, x, k) in enumerate(found)])
ONCE = {"idempotency_key": "once"}
kinds = st.sampled_from(["pay", "pay_async", "stream", "stream_async"])


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(plans, kinds)
def test_wherever_a_process_is_lost_what_was_recorded_is_not_done_again(
    plan: list[tuple[str, int, str | None]], kind: str
) -> None:
    till = Till(*plan)
    lived = run([till.tool(kind)], [PAY], "done")
    whole, begun = till.done[:], place(lived, "tool_call_started")
    for length in range(begun, place(lived, "tool_result_recorded")):
        till.done.clear()
        again = resumed(lived[:length], [till.tool(kind)], "done")

        recorded = lived[begun:length]
        left = plan[len(recorded) :]
        expected = Till(*left)
        run([expected.tool(kind)], [PAY], "done")
        assert till.done == expected.done == whole[len(whole) - len(expected.done) :]
        assert answers(again) == answers(lived)
        assert steps(again) == steps(lived)


def test_a_step_is_recorded_with_all_that_tells_it_and_its_value_comes_back_as_it_was() -> None:
    till = Till(("hold", 1, None), ("charge", 2, "once"), ("hold", 1, None))
    first, second, third = steps(run([till.tool("pay")], [PAY], "done"))
    assert (first.turn_id, first.call_id, first.name) == ("turn-1", "c", "hold")
    assert (first.position, first.key, first.value) == (1, "", {"by": "hold", "many": [1]})
    assert (second.position, second.key) == (0, "once")
    assert (third.position, third.arguments_digest) == (2, first.arguments_digest)
    assert second.arguments_digest != first.arguments_digest


def test_what_a_step_gives_is_the_same_live_and_from_the_record_and_the_tools_own() -> None:
    given: list[Any] = []

    @tool
    def pay(context: ToolContext) -> str:
        value = context.step("s", lambda: (1, {"a": (2,)}))
        given.append([*value])
        value.append("changed")
        value[1]["a"].append("changed")
        return "paid"

    lived = run([pay], [PAY], "done")
    resumed(lived[: place(lived, "step_recorded")], [pay], "done")
    assert given == [[1, {"a": [2, "changed"]}]] * 2
    assert steps(lived)[0].value == [1, {"a": [2]}]


def test_a_step_is_durable_before_the_tool_has_its_value() -> None:
    seen: list[int] = []
    store = store_with(run([], "done")[:1])

    @tool
    def pay(context: ToolContext) -> str:
        context.step("s", lambda: 1)
        seen.append(len(steps(store.read("s"))))
        return "paid"

    @tool
    async def pay_async(context: ToolContext) -> str:
        await context.step("s", lambda: 1)
        seen.append(len(steps(store.read("s"))))
        return "paid"

    with system_of(store, [pay, pay_async], [call("pay")], [call("pay_async")], "done") as system:
        system.session("s").send("go").result(WAIT)
    assert seen == [1, 2]


@pytest.mark.parametrize("other", [("hold", 2, None), ("other", 1, None)])
def test_on_another_path_a_step_is_run_and_recorded_and_a_warning_names_ids_alone(
    other: Any, caplog: pytest.LogCaptureFixture
) -> None:
    till = Till(("hold", 1, None), ("ship", 1, None))
    lived = run([till.tool("pay")], [PAY], "done")
    till.done, till.plan = [], [other, ("ship", 1, None)]
    crashed = lived[: place(lived, "step_recorded", 2)]
    again = resumed(crashed, [till.tool("pay")], "done")
    assert till.done == [other[:2]]
    assert [each.position for each in steps(again)] == [1, 2, 1]
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "step 1" in warning and "'c'" in warning and "turn-1" in warning
    assert not any(word in warning for word in ("hold", "other", "many"))

    twice = resumed(again[: place(again, "step_recorded", 3)], [till.tool("pay")], "done")
    assert till.done == [other[:2]]
    assert answers(twice) == answers(again)


def test_a_key_alone_tells_a_step_wherever_it_is_taken_and_whatever_it_is_called() -> None:
    plan: list[tuple[str, int, dict[str, str]]] = [("hold", 1, {}), ("charge", 3, ONCE)]
    done: list[int] = []

    @tool
    def pay(context: ToolContext) -> list[int]:
        return [context.step(n, lambda x: done.append(x) or x, x, **key) for n, x, key in plan]

    lived = run([pay], [PAY], "done")
    plan[:] = [("renamed", 3, ONCE), ("hold", 1, {}), ("ship", 2, {})]
    again = resumed(lived[: place(lived, "step_recorded", 2)], [pay], "done")
    assert done == [1, 3, 2]
    assert answers(again) == ["[3,1,2]"]


def test_equal_calls_take_their_steps_each_for_themselves() -> None:
    till = Till(("charge", 7, None), ("charge", 8, "key"))
    script = [[call("pay"), call("pay")], [call("pay")], "done", [call("pay")], "done"]
    store = store_with(run([], "done")[:1])
    with system_of(store, [till.tool("pay")], *script) as system:
        session = system.session("s")
        session.send("go").result(WAIT)
        session.send("go").result(WAIT)
    assert sorted(till.done) == [("charge", 7)] * 4 + [("charge", 8)] * 4


def test_steps_of_calls_side_by_side_are_told_apart_after_a_crash() -> None:
    tills = {"a": Till(("hold", 1, None), ("ship", 1, None)), "b": Till(("hold", 1, None))}

    @tool
    def work(context: ToolContext, name: str) -> Any:
        return tills[name].pay(context)

    script = [[call("work", id="a", name="a"), call("work", id="b", name="b")], "done"]
    lived = run([work], *script)
    cut = place(lived, "tool_result_recorded") - 1
    recorded = [each.call_id for each in steps(lived[:cut])]
    for till in tills.values():
        till.done.clear()
    resumed(lived[:cut], [work], "done")
    for name, till in tills.items():
        assert len(till.done) == len(till.plan) - recorded.count(name)


def test_with_its_result_a_call_leaves_no_steps_in_the_state() -> None:
    till = Till(("hold", 1, None), ("ship", 1, None))
    lived = run([till.tool("pay")], [PAY], "done")
    events = [CODEC.recorded(each).event for each in lived]
    ended = place(lived, "tool_result_recorded")
    open_turn, after = fold(events[: ended - 1]).turn, fold(events[:ended]).turn
    assert open_turn is not None and after is not None
    assert [each.name for each in open_turn.taken] == ["hold", "ship"]
    assert after.taken == ()


def test_a_step_that_raises_is_not_recorded_and_may_be_tried_again() -> None:
    tries = count(1)
    done: list[str] = []

    def charge() -> str:
        if next(tries) < 3:
            raise ConnectionError("the bank is closed")
        done.append("charge")
        return "charged"

    def ship() -> str:
        done.append("ship")
        return "shipped"

    @tool
    def pay(context: ToolContext) -> list[str]:
        while True:
            try:
                first = context.step("charge", charge)
            except ConnectionError:
                continue
            return [first, context.step("ship", ship)]

    lived = run([pay], [PAY], "done")
    assert [(each.name, each.position) for each in steps(lived)] == [("charge", 1), ("ship", 2)]
    again = resumed(lived[: place(lived, "step_recorded", 2)], [pay], "done")
    assert done == ["charge", "ship"]
    assert answers(again) == answers(lived)


def test_steps_taken_side_by_side_are_numbered_as_they_were_called() -> None:
    done: list[int] = []

    async def act(number: int) -> int:
        for _ in range(5 - number):
            await asyncio.sleep(0)
        done.append(number)
        return number

    @tool
    async def pay(context: ToolContext) -> list[int]:
        return await asyncio.gather(*(context.step("act", act, each) for each in range(5)))

    lived = run([pay], [PAY], "done")
    assert done == [4, 3, 2, 1, 0]
    assert sorted((each.position, each.value) for each in steps(lived)) == [
        (each + 1, each) for each in range(5)
    ]
    done.clear()
    again = resumed(lived[: place(lived, "step_recorded", 3)], [pay], "done")
    assert sorted(done) == [0, 1]
    assert answers(again) == answers(lived) == ["[0,1,2,3,4]"]


def test_a_stream_that_broke_off_is_run_again_from_its_start() -> None:
    broken = [True]
    seen: list[list[str]] = []

    def lines() -> Any:
        yield "one"
        if broken.pop():
            raise ConnectionError("broken off")
        yield "two"

    @tool
    def read(context: ToolContext) -> str:
        seen.append([])
        for _ in range(2):
            try:
                for line in context.step_stream("lines", lines):
                    seen[-1].append(line)
                break
            except ConnectionError:
                broken.append(False)
        return "read"

    lived = run([read], [call("read", id="c")], "done")
    assert seen == [["one", "one", "two"]]
    assert [(each.position, each.value) for each in steps(lived)] == [(1, ["one", "two"])]
    resumed(lived[: place(lived, "step_recorded")], [read], "done")
    assert seen[1:] == [["one", "two"]]


def test_a_stream_that_was_left_early_is_not_recorded_and_items_come_as_they_are_made() -> None:
    made: list[int] = []

    def numbers() -> Any:
        for each in count():
            made.append(each)
            yield each

    @tool
    def read(context: ToolContext) -> int:
        for number in context.step_stream("numbers", numbers):
            assert made[-1] == number
            if number == 3:
                break
        return context.step("after", lambda: 5)

    (after,) = steps(run([read], [call("read")], "done"))
    assert (after.name, after.position, made) == ("after", 2, [0, 1, 2, 3])


def forked(records: Any, tools: Any, patch: Patch | None = None) -> Any:
    store = store_with(records)
    with system_of(store, tools, "done") as system:
        fork = system.session("s").fork(version=len(records), patch=patch, session_id="f")
        turn = fork.resume()
        assert turn is not None
        turn.result(WAIT)
    return store.read("f")


def test_a_fork_of_an_unfinished_call_has_its_steps() -> None:
    till = Till(("hold", 1, None), ("ship", 1, None))
    lived = run([till.tool("pay")], [PAY], "done")
    till.done.clear()
    fork = forked(lived[: place(lived, "step_recorded")], [till.tool("pay")])
    assert till.done == [("ship", 1)]
    assert answers(fork) == answers(lived)


def test_a_forks_other_call_of_the_same_id_has_none_of_them() -> None:
    done: list[int] = []

    @tool
    def pay(context: ToolContext, amount: int = 1) -> int:
        return context.step("charge", lambda: done.append(amount) or amount, idempotency_key="k")

    lived = run([pay], [PAY], "done")
    cut = place(lived, "step_recorded")
    messages = fold(CODEC.recorded(each).event for each in lived[:cut]).transcript
    said, asked = messages
    assert isinstance(asked, AssistantMessage)
    other = AssistantMessage("", (call("pay", id="c", amount=2),))
    fork = forked(lived[:cut], [pay], Patch(messages=[said, other]))
    assert done == [1, 2]
    assert answers(fork) == ["2"]


def test_the_fold_knows_of_two_steps_at_one_place_the_later() -> None:
    till = Till(("hold", 1, None))
    lived = run([till.tool("pay")], [PAY], "done")
    events = [CODEC.recorded(each).event for each in lived[: place(lived, "step_recorded")]]
    assert isinstance(events[-1], StepRecorded)
    state = fold([*events, events[-1]])
    assert state.turn is not None
    first, second = state.turn.taken_by("c")
    assert first == second and isinstance(first, TakenStep)
