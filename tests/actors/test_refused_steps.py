"""Steps that can't be taken or recorded: the tool is told, and nothing is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest
from places import on_durable_stores
from stepping import PAY, WAIT, answers, place, resumed, run, steps, store_with, system_of

from turnstream.actors import NOT_DONE, ToolContext, tool
from turnstream.actors.testing import call
from turnstream.events import (
    StepConflict,
    StepRefused,
    StoreError,
    StoreUnavailable,
    SystemClosed,
    TurnstreamError,
    TurnTakenOver,
    Unstorable,
    WouldDeadlock,
)
from turnstream.stores import Append, Appended, MemoryStore, open_store

KEYED: dict[str, Any] = {"idempotency_key": "k"}


class Held:
    """A tool whose one step is under way until the test lets it end; ``told`` is what it came
    to."""

    def __init__(self) -> None:
        self.begun, self.ends = SimpleQueue[None](), Event()
        self.told: SimpleQueue[object] = SimpleQueue()
        self.done: list[str] = []

    def act(self) -> str:
        self.begun.put(None)
        assert self.ends.wait(WAIT)
        self.done.append("first")
        return "done"

    def pay(self, context: ToolContext) -> str:
        for name, fn in (("first", self.act), ("second", lambda: self.done.append("second"))):
            try:
                self.told.put(context.step(name, fn))
            except TurnstreamError as error:
                self.told.put(error)
        return "paid"

    @property
    def tool(self) -> Any:
        return tool(name="pay")(self.pay)


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.ends.set()


@pytest.mark.parametrize("keep", [True, False])
def test_a_step_that_ends_after_its_turn_was_stopped_is_not_recorded_and_no_other_begins(
    held: Held, keep: bool
) -> None:
    store = MemoryStore()
    with system_of(store, [held.tool], [PAY]) as system:
        turn = system.session("s").send("go")
        held.begun.get(timeout=WAIT)
        assert turn.abort(keep=keep).result(WAIT)
        held.ends.set()
        first, second = held.told.get(timeout=WAIT), held.told.get(timeout=WAIT)
    assert isinstance(first, StepRefused) and first.call_id == "c" and first.session_id == "s"
    assert isinstance(second, StepRefused)
    assert held.done == ["first"]
    assert steps(store.read("s")) == []


def test_a_step_that_ends_after_the_time_of_its_call_is_not_recorded(held: Held) -> None:
    store = MemoryStore()
    slow = tool(name="pay", timeout=0.01)(held.pay)
    with system_of(store, [slow], [PAY], "done") as system:
        system.session("s").send("go").result(WAIT)
        held.ends.set()
        assert isinstance(held.told.get(timeout=WAIT), StepRefused)
        assert isinstance(held.told.get(timeout=WAIT), StepRefused)
    assert held.done == ["first"]
    assert steps(store.read("s")) == []


def test_a_step_that_ends_while_the_system_closes_is_recorded_and_the_next_one_too(
    held: Held,
) -> None:
    store = MemoryStore()
    system = system_of(store, [held.tool], [PAY])
    system.session("s").send("go")
    held.begun.get(timeout=WAIT)
    held.ends.set()
    assert system.close()
    assert [each.name for each in steps(store.read("s"))] == ["first", "second"]
    assert answers(store.read("s")) == ["paid"]


@pytest.mark.slow
def test_a_step_that_ends_after_the_system_was_closed_is_refused(held: Held) -> None:
    store = MemoryStore()
    system = system_of(store, [held.tool], [PAY])
    system.session("s").send("go")
    held.begun.get(timeout=WAIT)
    assert not system.close(timeout=0.01)
    held.ends.set()
    assert isinstance(held.told.get(timeout=WAIT), (SystemClosed, StepRefused))
    assert steps(store.read("s")) == []


@on_durable_stores
def test_who_lost_the_turn_is_told_so_and_its_step_is_not_recorded(
    held: Held, address: str
) -> None:
    older, newer = open_store(address), open_store(address)
    ran: list[int] = []

    @tool(name="pay")
    def pay(context: ToolContext) -> str:
        return str(context.step("first", lambda: ran.append(context.attempt)))

    with system_of(older, [held.tool], [PAY]) as first:
        first.session("s").send("go")
        held.begun.get(timeout=WAIT)
        with system_of(newer, [pay], "done") as second:
            turn = second.session("s").resume()
            assert turn is not None and turn.result(WAIT).text == "done"
        held.ends.set()
        told = held.told.get(timeout=WAIT)
    assert isinstance(told, (TurnTakenOver, StepRefused))
    assert ran == [2]
    assert [each.value for each in steps(newer.read("s"))] == [None]
    for each in (older, newer):
        each.close()


@on_durable_stores
def test_who_lost_a_turn_that_still_runs_elsewhere_is_told_so(address: str) -> None:
    there, here = Held(), Held()
    with system_of(address, [here.tool], [PAY]) as first:
        first.session("s").send("go")
        here.begun.get(timeout=WAIT)
        with system_of(address, [there.tool], "done") as second:
            turn = second.session("s").resume()
            there.begun.get(timeout=WAIT)
            here.ends.set()
            assert isinstance(here.told.get(timeout=WAIT), TurnTakenOver)
            there.ends.set()
            assert turn is not None and turn.result(WAIT).text == "done"
    assert there.told.get(timeout=WAIT) == "done"


class Failing:
    """A real store that takes no steps."""

    def __init__(self, kept: MemoryStore) -> None:
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    def submit(self, append: Append, done: Callable[[Appended | StoreError], None]) -> None:
        if any(each.topic == "step_recorded" for each in append.events):
            done(StoreUnavailable("the disk is full"))
        else:
            self._kept.submit(append, done)


def test_a_tool_is_told_of_the_store_that_could_not_record_its_step(held: Held) -> None:
    kept = MemoryStore()
    held.ends.set()
    with system_of(Failing(kept), [held.tool], [PAY]) as system:
        with pytest.raises(StoreUnavailable):
            system.session("s").send("go").result(WAIT)
        assert isinstance(held.told.get(timeout=WAIT), StoreUnavailable)
    assert steps(kept.read("s")) == []


def told(*bodies: Callable[[ToolContext], Any], **options: Any) -> list[Any]:
    """What the bodies of a tool raised or returned, and the steps that were recorded."""
    found: list[Any] = []

    @tool(name="pay", **options)
    def pay(context: ToolContext) -> str:
        for body in bodies:
            try:
                found.append(body(context))
            except TurnstreamError as error:
                found.append(error)
        return "paid"

    found.append(steps(run([pay], [PAY], "done")))
    return found


def test_a_value_that_cant_be_stored_is_refused_with_its_path_and_leaves_nothing() -> None:
    error, recorded = told(lambda context: context.step("s", lambda: {"rows": [1, object()]}))
    assert isinstance(error, Unstorable) and error.path == "value.rows[1]"
    assert recorded == []


def test_an_argument_that_cant_be_told_again_is_refused_before_anything_is_done() -> None:
    done: list[Any] = []
    first, second, recorded = told(
        lambda context: context.step("s", done.append, {"connection": object()}),
        lambda context: context.step("s", dict, rows=[object()]),
    )
    assert isinstance(first, Unstorable) and first.path == "args[0].connection"
    assert isinstance(second, Unstorable) and second.path == "kwargs.rows[0]"
    assert (done, recorded) == ([], [])


def test_an_item_that_cant_be_stored_is_refused_where_it_comes() -> None:
    error, recorded = told(
        lambda context: [*context.step_stream("s", lambda: iter([1, {"a": object()}]))]
    )
    assert isinstance(error, Unstorable) and error.path == "items[1].a"
    assert recorded == []


@pytest.mark.parametrize("name", ["", 7, None])
def test_a_step_has_a_name_and_its_key_is_text(name: Any) -> None:
    first, second, recorded = told(
        lambda context: context.step(name, lambda: 1),
        lambda context: context.step("s", lambda: 1, idempotency_key=name or ""),
    )
    assert isinstance(first, Unstorable) and first.path == "name"
    assert isinstance(second, Unstorable) and second.path == "idempotency_key"
    assert recorded == []


def test_inside_of_a_step_another_one_needs_a_key() -> None:
    def inside(context: ToolContext, key: str | None) -> Any:
        return context.step("inner", lambda: 1, idempotency_key=key)

    error, value, recorded = told(
        lambda context: context.step("outer", lambda: inside(context, None)),
        lambda context: context.step("outer", lambda: inside(context, "k")),
    )
    assert isinstance(error, StepRefused) and value == 1
    assert [(each.name, each.position) for each in recorded] == [("inner", 0), ("outer", 1)]


def test_two_steps_of_one_key_are_not_taken_at_once() -> None:
    error, after, recorded = told(
        lambda context: context.step(
            "outer",
            lambda: context.step("inner", lambda: 1, idempotency_key="k"),
            idempotency_key="k",
        ),
        lambda context: context.step("later", lambda: 2, idempotency_key="k"),
    )
    assert isinstance(error, StepRefused) and after == 2
    assert [each.name for each in recorded] == ["later"]


def test_a_sync_tool_takes_no_async_step_and_streams_what_can_be_iterated() -> None:
    async def later() -> int:
        return 1

    async_step, no_items, recorded = told(
        lambda context: context.step("s", later),
        lambda context: [*context.step_stream("s", lambda: 7)],
    )
    assert isinstance(async_step, StepRefused) and isinstance(no_items, StepRefused)
    assert recorded == []


def test_a_sync_step_that_would_block_an_event_loop_is_refused_before_it_is_taken() -> None:
    done: list[int] = []

    def on_a_loop(context: ToolContext) -> None:
        async def main() -> None:
            context.step("s", lambda: done.append(1))

        asyncio.run(main())

    error, recorded = told(on_a_loop)
    assert isinstance(error, WouldDeadlock)
    assert (done, recorded) == ([], [])


def test_what_is_asked_about_a_call_takes_no_steps() -> None:
    told: list[Exception] = []

    def ask(context: ToolContext, *_: Any) -> Any:
        try:
            context.step("s", lambda: 1)
        except StepRefused as error:
            told.append(error)
        return NOT_DONE

    @tool(name="pay", reconcile=ask, needs_approval=lambda context, given: not ask(context))
    def pay(context: ToolContext) -> int:
        return context.step("s", lambda: 5)

    lived = run([pay], [PAY], "done")
    assert len(told) == 1
    again = resumed(lived[: place(lived, "tool_call_started")], [pay], "done")
    assert len(told) == 2
    assert [each.value for each in steps(again)] == [5]


def test_a_key_with_other_arguments_is_refused_and_drops_nothing() -> None:
    done: list[int] = []

    def charge(context: ToolContext, amount: int) -> Any:
        return context.step("charge", lambda x: done.append(x) or x, amount, idempotency_key="k")

    def stream(context: ToolContext, amount: int) -> Any:
        return [*context.step_stream("charge", range, amount, idempotency_key="k")]

    first, *conflicts, again, recorded = told(
        lambda context: charge(context, 1),
        lambda context: charge(context, 2),
        lambda context: stream(context, 2),
        lambda context: charge(context, 1),
    )
    assert [first, again] == [1, 1] and done == [1]
    for each in conflicts:
        assert isinstance(each, StepConflict) and each.call_id == "c"
    assert [(each.key, each.value) for each in recorded] == [("k", 1)]


def test_a_key_recorded_before_a_crash_is_refused_with_other_arguments_after_it() -> None:
    amounts = [1, 2, 1]
    done: list[int] = []

    @tool(name="pay")
    def pay(context: ToolContext) -> int:
        return context.step("charge", lambda x: done.append(x) or x, amounts.pop(0), **KEYED)

    lived = run([pay], [PAY], "done")
    crashed = lived[: place(lived, "step_recorded")]
    (refused,) = answers(resumed(crashed, [pay], "done"))
    assert "StepConflict" in refused and done == [1]
    assert answers(resumed(crashed, [pay], "done")) == answers(lived) and done == [1]


def test_a_call_that_goes_on_with_other_arguments_has_none_of_its_numbered_steps() -> None:
    done: list[int] = []

    @tool(name="pay", on_crash="ask")
    def pay(context: ToolContext, amount: int) -> int:
        return context.step("charge", lambda: done.append(amount) or amount)

    lived = run([pay], [call("pay", id="c", amount=1)], "done")
    crashed = lived[: place(lived, "step_recorded")]
    for arguments, expected in ((None, [1]), ({"amount": 1}, [1]), ({"amount": 2}, [1, 2])):
        done[:] = [1]
        assert decided(crashed, [pay], arguments) == [str(expected[-1])]
        assert done == expected


def test_a_call_that_goes_on_with_other_arguments_has_its_steps_with_keys() -> None:
    done: list[int] = []

    @tool(name="pay", on_crash="ask")
    def pay(context: ToolContext, amount: int, note: str = "") -> int:
        return context.step("charge", lambda x: done.append(x) or x, amount, **KEYED)

    lived = run([pay], [call("pay", id="c", amount=1)], "done")
    crashed = lived[: place(lived, "step_recorded")]
    assert decided(crashed, [pay], {"amount": 1, "note": "sorry"}) == ["1"]
    (refused,) = decided(crashed, [pay], {"amount": 2})
    assert "StepConflict" in refused
    assert done == [1]


def decided(records: Any, tools: Any, arguments: dict[str, Any] | None) -> list[Any]:
    store = store_with(records)
    with system_of(store, tools, "done") as system:
        session = system.session("s")
        turn = session.resume()
        assert turn is not None
        (approval,) = turn.result(WAIT).approvals
        session.approve(approval.id, arguments=arguments).result(WAIT)
    return answers(store.read("s"))
