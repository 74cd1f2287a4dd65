"""Calls that wait for a decision: what the pause shows, and what each decision does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import pytest
from places import on_files_too
from sending import events

from turnstream.actors import ActorSystem, ModelRequest, Session, Tool, tool
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    ApprovalDecided,
    ApprovalNotFound,
    ApprovalRequested,
    ApprovalResolved,
    ArgumentsRefused,
    ModelTurn,
    ModelTurnRecorded,
    ToolCall,
    ToolMessage,
    ToolResultRecorded,
    UserMessage,
)
from turnstream.stores import EventStore

pytestmark = on_files_too

WAIT = 20
Run = Callable[..., ActorSystem]

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Remove."""
    ran.append(path)
    return f"removed {path}"


@tool
def look(path: str) -> str:
    """Look."""
    ran.append(f"look {path}")
    return f"saw {path}"


@tool
def fall() -> str:
    """Fall."""
    raise ConnectionError("down")


def unchecked_remove(path: str) -> None:
    ran.append(path)


unchecked = Tool.from_schema("remove", unchecked_remove, {}, needs_approval=True)
TOOLS = [remove, look, fall]


def removing(*paths: str) -> list[ToolCall]:
    return [call("remove", each, path=each) for each in paths]


def obedient(request: ModelRequest) -> ModelTurn:
    """Remove each of the letters that it was told; then say how often it was asked."""
    last = request.messages[-1]
    if isinstance(last, UserMessage):
        return ModelTurn(tool_calls=tuple(removing(*str(last.content))))
    return ModelTurn("done")


def paused(system: ActorSystem, session_id: str = "s", text: str = "go") -> Session:
    session = system.session(session_id)
    assert session.send(text).result(WAIT).finish_reason == "awaiting-approval"
    return session


def results(messages: Any) -> list[Any]:
    return [(each.call_id, each.outcome) for each in messages if isinstance(each, ToolMessage)]


def test_a_gated_call_pauses_its_turn_and_the_result_says_what_waits(run: Run) -> None:
    model = ScriptedModel([removing("a"), "done"])
    session = run([], model=model, tools=TOOLS).session("s")
    result = session.send("go").result(WAIT)

    assert (result.finish_reason, result.text, result.steps) == ("awaiting-approval", "", 1)
    assert [type(each).__name__ for each in result.messages] == ["UserMessage", "AssistantMessage"]
    (approval,) = result.approvals
    assert (approval.id, approval.session_id) == ("s/turn-1.1.1", "s")
    assert (approval.turn_id, approval.call_id) == ("turn-1", "a")
    assert (approval.tool, approval.arguments, approval.reason) == (
        "remove",
        {"path": "a"},
        "gated",
    )
    assert session.status == "awaiting-approval" and list(session.messages) == []
    assert len(model.requests) == 1 and ran == []


def test_the_stream_of_a_paused_turn_shows_the_question_and_ends(run: Run) -> None:
    session = run([removing("a", "b")], tools=TOOLS).session("s")
    turn = session.send("go")
    items: list[Any] = list(turn.stream())

    shown = ["approval.requested"] * 2
    assert [each.type for each in items] == ["turn.started", "model.turn", *shown, "turn.done"]
    assert tuple(each.approval for each in items[2:4]) == turn.result(WAIT).approvals
    recorded = {each.version: each.event for each in session.events()}
    asked = [recorded[each.version] for each in items[2:4]]
    assert [each.approval_id for each in asked] == [each.approval.id for each in items[2:4]]  # type: ignore[union-attr]
    assert items[-1].finish_reason == "awaiting-approval"
    assert items[-1].result is turn.result(WAIT)
    assert b"s/turn-1.1.2" in items[3].json() and b"s/turn-1.1.2" in items[-1].json()


def test_what_waits_reads_alike_wherever_and_whenever_it_is_looked_at(
    run: Run, place: EventStore | str
) -> None:
    system = run([], model=obedient, tools=TOOLS, on=place)
    waiting = system.session("s").send("ab").result(WAIT).approvals
    anew = run([], model=obedient, tools=TOOLS, on=place)

    for each in (system, anew):
        pending, view = each.session("s").pending(), asyncio.run(each.session("s").view()).pending
        assert pending is not None and view is not None
        assert pending.approvals == view.approvals == waiting
        assert [each.id for each in pending.calls] == ["a", "b"]
        assert tuple(each.approvals()) == waiting
        assert [row.approvals for row in each.sessions("awaiting-approval")] == [waiting]


def test_an_approved_call_runs_and_its_decision_has_the_result_of_the_turn(run: Run) -> None:
    model = ScriptedModel([removing("a"), "done"])
    session = paused(run([], model=model, tools=TOOLS))
    turn = session.approve("s/turn-1.1.1", by="me", note="go ahead")
    result = turn.result(WAIT)

    assert (result.text, result.finish_reason, ran) == ("done", "stop", ["a"])
    assert results(model.requests[1].messages) == [("a", "ok")]
    kinds = ["tool.started", "tool.result", "text.delta", "model.turn", "turn.done"]
    assert [item.type for item in turn.stream()] == kinds
    (resolved,) = events(session, ApprovalResolved)
    assert (resolved.decision, resolved.by, resolved.note) == ("approved", "me", "go ahead")
    assert session.status == "idle" and session.pending() is None


def test_a_rejected_call_never_runs_and_the_model_reads_why(run: Run) -> None:
    model = ScriptedModel([removing("a"), "a pity"])
    session = paused(run([], model=model, tools=TOOLS))
    result = session.reject("s/turn-1.1.1", by="me", note="too early").result(WAIT)

    assert results(model.requests[1].messages) == [("a", "rejected")]
    assert "too early" in str(model.requests[1].messages[-1])
    (recorded,) = events(session, ToolResultRecorded)
    assert recorded.content == {"error": "rejected", "note": "too early"}
    assert result.text == "a pity" and ran == []
    assert [each.decision for each in events(session, ApprovalResolved)] == ["rejected"]


@pytest.mark.parametrize(
    "restarting",
    [
        pytest.param(False, id="live"),
        pytest.param(True, id="restarted", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("order", list(permutations("abc")), ids="".join)
def test_each_decision_reaches_its_own_call_in_whatever_order_they_come(
    run: Run, place: EventStore | str, order: tuple[str, ...], restarting: bool
) -> None:
    def started() -> ActorSystem:
        return run([], model=obedient, tools=TOOLS, on=place)

    system, asked = started(), set[str]()
    for n, decisions in enumerate(product([True, False], repeat=3)):
        session_id, approved = f"s{n}", dict(zip("abc", decisions, strict=True))
        ran.clear()
        session = paused(system, session_id, "abc")
        ids = {each.call_id: each.id for each in session.pending().approvals}  # type: ignore[union-attr]
        asked |= set(ids.values())
        decided = []
        for name in order:
            if restarting:
                system.close()
                system = started()
            decide = system.approve if approved[name] else system.reject
            decided.append(decide(ids[name]).result(WAIT))

        assert [len(each.approvals) for each in decided] == [2, 1, 0]
        assert decided[-1].text == "done"
        assert sorted(ran) == [each for each in "abc" if approved[each]]
        outcomes = [(each, "ok" if approved[each] else "rejected") for each in "abc"]
        assert results(decided[-1].messages) == outcomes
        assert len(events(system.session(session_id), ModelTurnRecorded)) == 2
    assert len(asked) == 24, "no two questions share an id"


def test_questions_of_later_steps_and_turns_have_ids_of_their_own(run: Run) -> None:
    script = [removing("a"), removing("b"), "done", removing("a"), "done"]
    session = paused(run(script, tools=TOOLS))
    session.approve("s/turn-1.1.1").result(WAIT)
    session.approve("s/turn-1.2.1").result(WAIT)
    paused(session._system)
    session.approve("s/turn-2.1.1").result(WAIT)

    assert ran == ["a", "b", "a"]
    assert len({each.approval_id for each in events(session, ApprovalRequested)}) == 3


def test_calls_that_the_model_gave_one_id_are_decided_each_for_itself(run: Run) -> None:
    calls = [call("remove", "same", path=each) for each in "abc"]
    session = paused(run([calls, "done"], tools=TOOLS))
    questions = session.pending().approvals  # type: ignore[union-attr]
    assert len({each.id for each in questions}) == len({each.call_id for each in questions}) == 3

    for question in questions:
        decide = session.approve if question.arguments == {"path": "b"} else session.reject
        decide(question.id).result(WAIT)
    assert ran == ["b"] and session.status == "idle"


def test_calls_that_need_no_decision_have_their_results_before_the_pause(run: Run) -> None:
    model = ScriptedModel(
        [
            [
                call("look", "1", path="x"),
                call("remove", "2", path="a"),
                call("fall", "3"),
                call("remove", "4", wrong="b"),
                call("nothing", "5"),
            ],
            "done",
        ]
    )
    session = paused(run([], model=model, tools=TOOLS))
    before = {each.call_id: each.outcome for each in events(session, ToolResultRecorded)}
    assert before == {"1": "ok", "3": "error", "4": "error", "5": "error"}

    session.approve("s/turn-1.1.2").result(WAIT)
    assert [each[0] for each in results(model.requests[1].messages)] == list("12345")
    assert ran == ["look x", "a"]


def test_the_views_of_a_pause_show_the_results_that_are_there(
    run: Run, place: EventStore | str
) -> None:
    def batch(request: ModelRequest) -> ModelTurn:
        return ModelTurn(tool_calls=(*removing("a"), call("look", "x", path="x"), *removing("b")))

    result = run([], model=batch, tools=TOOLS, on=place).session("s").send("go").result(WAIT)
    anew = run([], model=batch, tools=TOOLS, on=place).session("s")
    pending = anew.pending()

    assert pending is not None and list(pending.messages) == list(result.messages)
    assert results(result.messages) == [("x", "ok")]
    assert [each.id for each in pending.calls] == ["a", "b"]
    one = anew.approve("s/turn-1.1.3").result(WAIT)
    assert results(one.messages) == [("x", "ok"), ("b", "ok")]


def test_a_turn_waits_for_decisions_only_once_nothing_else_runs(run: Run, held: Any) -> None:
    script = [[call("held", "1", text="x"), *removing("a")], "done"]
    session = run(script, tools=[*held.tools, *TOOLS]).session("s")
    turn = session.send("go")
    held.begun("x")

    assert session.status == "awaiting-approval" and not turn.done()
    assert [each.call_id for each in session._system.approvals()] == ["a"]
    held.let("x")
    assert turn.result(WAIT).finish_reason == "awaiting-approval"


def test_a_decision_that_comes_while_a_sibling_runs_saves_the_pause(run: Run, held: Any) -> None:
    script = [[call("held", "1", text="x"), *removing("a")], "done"]
    session = run(script, tools=[*held.tools, *TOOLS]).session("s")
    turn = session.send("go")
    held.begun("x")
    decided = session.approve("s/turn-1.1.2")
    decided.accepted().result(WAIT)
    held.let("x")

    assert turn.result(WAIT).text == "done"
    assert decided.result(WAIT) is turn.result(WAIT) and ran == ["a"]


def test_one_call_at_a_time_means_one_question_at_a_time_and_in_order(run: Run) -> None:
    calls = [*removing("a"), call("look", "x", path="x"), *removing("b")]
    session = run([calls, "done"], tools=TOOLS, tool_concurrency=1).session("s")

    first = session.send("go").result(WAIT)
    assert [each.call_id for each in first.approvals] == ["a"] and ran == []
    second = session.approve(first.approvals[0].id).result(WAIT)
    assert [each.call_id for each in second.approvals] == ["b"] and ran == ["a", "look x"]
    assert session.reject(second.approvals[0].id).result(WAIT).text == "done"
    assert ran == ["a", "look x"]


def test_edited_arguments_run_and_what_was_proposed_is_kept_beside_them(run: Run) -> None:
    model = ScriptedModel([removing("a", "b"), "done"])
    session = paused(run([], model=model, tools=TOOLS))
    session.approve("s/turn-1.1.1", arguments={"path": "z"}).result(WAIT)
    result = session.approve("s/turn-1.1.2").result(WAIT)

    assert ran == ["z", "b"]
    proposed, edited = events(session, ModelTurnRecorded)[0], events(session, ApprovalResolved)[0]
    assert [each.arguments["path"] for each in proposed.tool_calls] == ["a", "b"]
    assert edited.arguments == {"path": "z"}
    seen = model.requests[1].messages[1]
    assert [each.arguments["path"] for each in seen.tool_calls] == ["z", "b"]  # type: ignore[union-attr]
    assert [each.arguments["path"] for each in result.tool_calls] == ["z", "b"]


MISFITS: list[Any] = [{}, {"path": 7}, {"path": "z", 1: 2}, [1], "z"]


@pytest.mark.parametrize(
    ("schema", "edited"),
    [*[("hints", each) for each in MISFITS], *[("given", each) for each in MISFITS[2:]]],
)
def test_edited_arguments_that_do_not_fit_decide_nothing(
    run: Run, edited: Any, schema: str
) -> None:
    tools = TOOLS if schema == "hints" else [unchecked]
    session = paused(run([removing("a"), "done"], tools=tools))
    before = session.version

    with pytest.raises(ArgumentsRefused):
        session.approve("s/turn-1.1.1", arguments=edited).result(WAIT)
    assert session.version == before and ran == []
    assert session.approve("s/turn-1.1.1").result(WAIT).text == "done" and ran == ["a"]


def test_a_decision_is_taken_once_and_later_ones_hear_whose_it_was(
    run: Run, place: EventStore | str
) -> None:
    session = paused(run([removing("a"), "done"], tools=TOOLS, on=place))
    session.reject("s/turn-1.1.1", by="first").result(WAIT)
    version = session.version

    for system in (session._system, run([], tools=TOOLS, on=place)):
        for late in (system.approve, system.reject):
            turn = late("s/turn-1.1.1", by="second")
            for outcome in (turn.accepted().result, turn.result):
                with pytest.raises(ApprovalDecided) as refused:
                    outcome(WAIT)
                assert (refused.value.decision, refused.value.by) == ("rejected", "first")
    assert session.version == version and ran == []


NO_QUESTIONS = (
    "", "/", "s", "s/", "s/turn-1.1.2", "s/turn-1.1.1.2", "t/turn-1.1.1", "t/../s/turn-1.1.1",
    "\ud800/turn-1.1.1", "s\0/turn-1.1.1", "x" * 5000, "S/turn-1.1.1",
)  # fmt: skip


@pytest.mark.parametrize("unknown", NO_QUESTIONS, ids=lambda each: repr(each)[:20])
def test_a_decision_on_what_nobody_asked_finds_nothing(run: Run, unknown: str) -> None:
    session = paused(run([removing("a")], tools=TOOLS))
    before = session.version

    with pytest.raises(ApprovalNotFound):
        session._system.approve(unknown).result(WAIT)
    with pytest.raises(ApprovalNotFound):
        session._system.session("other").approve("s/turn-1.1.1").result(WAIT)
    assert session.version == before and ran == []
