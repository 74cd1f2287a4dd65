"""Agents that are tools of others: each call a turn in a session of its own."""

from __future__ import annotations

import asyncio
import threading

from families import WAIT, Works, children, family, results
from hypothesis import example, given
from hypothesis import strategies as st

from turnstream.actors import ActorSystem, Agent, ModelRequest, tool
from turnstream.actors.parentage import MAX_DEPTH, child_id
from turnstream.actors.testing import Line, ScriptedModel, call
from turnstream.events import (
    ModelTurn,
    ParentCall,
    SessionStarted,
    ToolCallStarted,
    ToolMessage,
    Usage,
    UserMessage,
)


def asking(name: str = "worker", text: str = "do it", number: int = 1) -> list[Line]:
    return [[call(name, f"c{n}", input=text) for n in range(1, number + 1)], "done"]


def test_a_call_is_a_turn_in_a_session_of_its_own_whose_last_text_is_the_result(store: str) -> None:
    works = Works()
    with ActorSystem(family(works), store=store) as system:
        session = system.session("s", tenant="acme")
        turn = session.send("worker look a & helper look b | look c").result(WAIT)
        assert turn.text == "boss: worker: saw a; helper: saw b; saw c"
        assert results(session)[-1] == ("c1", "ok", "worker: saw a; helper: saw b")
        (worker,) = children(system, session)
        (helper,) = children(system, worker)
        assert worker.messages[0] == UserMessage("look a | helper look b")
        assert helper.messages[-1].text == "helper: saw b"  # type: ignore[union-attr]
        assert {row.tenant for row in system.sessions()} == {"acme"}
        assert {row.agent for row in system.sessions()} == {"boss", "worker", "helper"}


def test_each_session_names_the_call_that_it_serves_and_the_call_its_session() -> None:
    works = Works()
    with ActorSystem(family(works)) as system:
        session = system.session("s")
        session.send("worker helper look b").result(WAIT)
        (worker,) = children(system, session)
        (helper,) = children(system, worker)
        for parent, child, path, within in (
            (session, worker, ("c1",), ("s",)),
            (worker, helper, ("c1", "c1"), ("s", worker.id)),
        ):
            begun = child.events()[0].event
            assert isinstance(begun, SessionStarted)
            assert begun.parent == ParentCall(parent.id, "turn-1", "c1", path, within)
            started = [each.event for each in parent.events()]
            named = [each.child for each in started if isinstance(each, ToolCallStarted)]
            assert named == [child.id]


CALLS = st.tuples(
    st.text(min_size=1).filter(str.isprintable), st.integers(1).map("turn-{}".format), st.text()
)


@given(CALLS, CALLS)
@example(("a", "turn-1", "b"), ("a", "turn-1", "b\0"))
@example(("a", "turn-1", "1/b"), ("a/turn-1", "turn-1", "b"))
def test_two_calls_never_share_a_session(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    first, second = child_id(*one), child_id(*other)
    assert (first == second) == (one == other)
    assert set(first) <= set("sub-0123456789abcdef")


def test_what_sub_agents_use_counts_for_those_that_ask_them_once() -> None:
    works = Works()
    with ActorSystem(family(works)) as system:
        session = system.session("s")
        turn = session.send("worker look a & helper look b | helper look c").result(WAIT)
        assert turn.usage == session.usage == Usage(80, 8)
        worker, helper = children(system, session)
        assert (worker.usage, helper.usage) == (Usage(40, 4), Usage(20, 2))
        again = session.send("look d").result(WAIT)
        assert (again.usage, session.usage) == (Usage(20, 2), Usage(100, 10))


def test_a_sub_agent_has_no_more_tokens_than_its_parent_had_left() -> None:
    works = Works()
    worker = Agent("worker", model=works.obeying("worker"), tools=works.tools(), max_steps=9)

    def endless(request: ModelRequest) -> ModelTurn:
        works.asked.append((request.session_id, request.step))
        return ModelTurn(tool_calls=(call("look", path="x"),), usage=Usage(10, 0))

    busy = Agent("busy", model=endless, tools=works.tools())
    script = [ModelTurn(tool_calls=(call("busy", "c1", input="go"),), usage=Usage(15, 0))]
    boss = Agent(
        "boss", model=ScriptedModel(script), tools=[worker.as_tool(), busy.as_tool()],
        token_budget=50,
    )  # fmt: skip
    with ActorSystem(boss) as system:
        session = system.session("s")
        turn = session.send("go").result(WAIT)
        assert turn.finish_reason == "budget" and turn.usage == Usage(55, 0)
        ((_, outcome, content),) = results(session)
        assert outcome == "error" and "limit (budget)" in content
        assert len(works.asked) == 4  # 10, 20, 30, 40: the 35 that were left are used


def test_a_call_that_comes_when_the_budget_is_used_up_begins_no_session() -> None:
    works = Works()
    worker = Agent("worker", model=works.obeying("worker"))
    script = [ModelTurn(tool_calls=(call("worker", "c1", input="go"),), usage=Usage(60, 0))]
    boss = Agent("boss", model=ScriptedModel(script), tools=[worker.as_tool()], token_budget=50)
    with ActorSystem(boss) as system:
        session = system.session("s")
        assert session.send("go").result(WAIT).finish_reason == "budget"
        assert results(session) == [("c1", "error", "Not run: the turn has used its budget.")]
        assert not children(system, session) and not works.asked


def test_a_sub_agent_that_fails_gives_the_call_an_error(store: str) -> None:
    worker = Agent("worker", model=ScriptedModel([RuntimeError("no route"), "later"]))
    boss = Agent("boss", model=ScriptedModel(asking()), tools=[worker.as_tool()])
    with ActorSystem(boss, store=store) as system:
        session = system.session("s")
        assert session.send("go").result(WAIT).text == "done"
        ((_, outcome, content),) = results(session)
        assert outcome == "error"
        assert "'worker' failed (model-failed)" in content and "no route" in content
        system.resume_all()
        assert session.pending() is None


def test_a_sub_agent_that_comes_to_its_limit_gives_the_call_an_error() -> None:
    works = Works()
    worker = Agent("worker", model=works.obeying("worker"), tools=works.tools(), max_steps=1)
    boss = Agent("boss", model=ScriptedModel(asking(text="look a")), tools=[worker.as_tool()])
    with ActorSystem(boss) as system:
        session = system.session("s")
        session.send("go").result(WAIT)
        ((_, outcome, content),) = results(session)
        assert outcome == "error" and "(max-steps)" in content
        assert session.usage == Usage(10, 1)


def test_agents_that_ask_themselves_stop_at_a_depth_that_is_told() -> None:
    """An agent can't be among its own tools, but for tools that are chosen anew."""
    held: list[Agent] = []

    def model(request: ModelRequest) -> ModelTurn:
        if isinstance(last := request.messages[-1], ToolMessage):
            return ModelTurn(str(last.content))
        return ModelTurn(tool_calls=(call("again", input="more"),))

    held.append(Agent("again", model=model, tools=lambda context: [held[0].as_tool()]))
    with ActorSystem(held) as system:
        turn = system.session("s").send("go").result(WAIT)
        assert (
            turn.text
            == f"Not run: agents ask agents more than {MAX_DEPTH} deep, which is the limit."
        )
        assert len(system.sessions()) == 1 + MAX_DEPTH


def test_arguments_that_do_not_fit_begin_no_session() -> None:
    worker = Agent("worker", model=ScriptedModel([]))
    script = [[call("worker", "c1", text="x")], "done"]
    boss = Agent("boss", model=ScriptedModel(script), tools=[worker.as_tool()])
    with ActorSystem(boss) as system:
        session = system.session("s")
        session.send("go").result(WAIT)
        ((_, outcome, content),) = results(session)
        assert outcome == "error" and "input" in content
        assert not children(system, session)


def test_name_and_description_are_what_the_model_sees() -> None:
    agent = Agent("the worker", model=ScriptedModel([]))
    named = agent.as_tool(name="delegate", description="Hand it over.")
    assert (named.spec.name, named.spec.description) == ("delegate", "Hand it over.")
    plain = agent.as_tool()
    assert plain.name == "the_worker" and "the worker" in plain.spec.description
    assert plain.spec.schema["required"] == ["input"]


def test_many_children_of_many_parents_take_no_thread_while_they_wait() -> None:
    """Each parent waits for three children, and each of these for a model that waits for all."""
    parents, each = 40, 3
    here, all_here = 0, asyncio.Event()
    before = threading.active_count()
    seen: list[int] = []

    async def model(request: ModelRequest) -> ModelTurn:
        nonlocal here
        here += 1
        if here == parents * each:
            seen.append(threading.active_count())
            all_here.set()
        await all_here.wait()
        return ModelTurn("mine")

    worker = Agent("worker", model=model)

    def boss_model(request: ModelRequest) -> ModelTurn:
        if isinstance(request.messages[-1], ToolMessage):
            return ModelTurn("done")
        return ModelTurn(tool_calls=tuple(call("worker", f"c{n}", input="x") for n in range(each)))

    boss = Agent("boss", model=boss_model, tools=[worker.as_tool()])
    with ActorSystem(boss) as system:
        turns = [system.session(f"s{n}").send("go") for n in range(parents)]
        assert {turn.result(WAIT).text for turn in turns} == {"done"}
    assert seen[0] - before < 40


def test_with_a_concurrency_of_one_the_children_run_one_after_another() -> None:
    running, most = 0, 0

    async def model(request: ModelRequest) -> ModelTurn:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return ModelTurn("mine")

    worker = Agent("worker", model=model)
    boss = Agent(
        "boss",
        model=ScriptedModel(asking(number=4)),
        tools=[worker.as_tool()],
        tool_concurrency=1,
    )
    with ActorSystem(boss) as system:
        session = system.session("s")
        session.send("go").result(WAIT)
        assert most == 1 and [each for each, *_ in results(session)] == ["c1", "c2", "c3", "c4"]


def test_a_child_may_ask_a_tool_that_sends_to_another_session() -> None:
    held: list[ActorSystem] = []

    @tool(name="ask_clerk")
    def ask_clerk(text: str) -> str:
        """Ask."""
        return held[0].session("clerk", agent="clerk").send(text).result(WAIT).text

    clerk = Agent("clerk", model=ScriptedModel(["stamped"]))
    worker = Agent(
        "worker", model=ScriptedModel([[call("ask_clerk", text="x")], "so be it"]),
        tools=[ask_clerk],
    )  # fmt: skip
    boss = Agent("boss", model=ScriptedModel(asking()), tools=[worker.as_tool()])
    with ActorSystem([boss, clerk]) as system:
        held.append(system)
        session = system.session("s")
        session.send("go").result(WAIT)
        assert results(session) == [("c1", "ok", "so be it")]


def test_a_child_that_would_wait_for_its_own_parent_is_told_so_at_once() -> None:
    held: list[ActorSystem] = []

    @tool(name="ask_up")
    def ask_up(text: str) -> str:
        """Ask."""
        return held[0].session("s").send(text).result(WAIT).text

    worker = Agent(
        "worker", model=ScriptedModel([[call("ask_up", text="x")], "I could not"]), tools=[ask_up]
    )
    boss = Agent("boss", model=ScriptedModel([*asking(), "next"]), tools=[worker.as_tool()])
    with ActorSystem(boss) as system:
        held.append(system)
        session = system.session("s")
        assert session.send("go").result(WAIT).text == "done"
        (worker_session,) = children(system, session)
        ((_, outcome, content),) = results(worker_session)
        assert outcome == "error" and "WouldDeadlock" in content
