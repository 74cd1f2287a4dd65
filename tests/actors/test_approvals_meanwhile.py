"""What else may happen around a question: inputs, stops, and gates that are functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Session, Tool, ToolContext, Turn, tool
from turnstream.actors.testing import ScriptedModel, call, said
from turnstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWithdrawn,
    InvalidAgent,
    ModelFailed,
    SessionAwaitingApproval,
    SystemClosed,
    ToolCall,
    ToolResultRecorded,
    TurnAborted,
    UserMessage,
)
from turnstream.stores import EventStore

WAIT = 20
FIRST, AGAIN = "s/turn-1.1.1", "s/turn-1.1.1.2"
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


def removing(*paths: str) -> list[ToolCall]:
    return [call("remove", each, path=each) for each in paths]


def gated(needs_approval: Any) -> Tool:
    """The same tool behind another gate."""
    return tool(name="remove", needs_approval=needs_approval)(remove.fn)


def paused(system: ActorSystem) -> Session:
    session = system.session("s")
    assert session.send("go").result(WAIT).finish_reason == "awaiting-approval"
    return session


def facts(session: Session, kind: type[Any]) -> list[Any]:
    return [each.event for each in session.events() if isinstance(each.event, kind)]


Way = Callable[[Session], Turn | None]
WAYS: dict[str, Way] = {
    "send to wait": lambda session: session.send("yes please", policy="wait"),
    "send to queue": lambda session: session.send("yes please", policy="queue"),
    "send to steer": lambda session: session.send("yes please", policy="steer"),
    "the key again": lambda session: session.send("go", key="k"),
    "the input again": lambda session: session.send("go"),
    "execute": lambda session: session.execute("yes please"),
    "execute the conversation": lambda session: session.execute(
        [*session.pending().messages, UserMessage("yes please")]  # type: ignore[union-attr]
    ),
    "resume": lambda session: session.resume(),
}


@pytest.mark.parametrize("restarted", [False, True], ids=["live", "restarted"])
@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_while_a_decision_is_missing_nothing_is_accepted_and_nothing_is_touched(
    run: Run, place: EventStore | str, way: Way, restarted: bool
) -> None:
    model = ScriptedModel([removing("a"), "never"])
    system = run([], model=model, tools=[remove], on=place)
    system.session("s").send("go", key="k").result(WAIT)
    if restarted:
        system.close()
        system = run([], model=model, tools=[remove], on=place)
    session = system.session("s")
    before = session.version
    for _ in range(3):
        refused = way(session)
        assert refused is not None
        for outcome in (refused.accepted().result, refused.result):
            with pytest.raises(SessionAwaitingApproval) as error:
                outcome(WAIT)
            assert error.value.approval_ids == (FIRST,)
        assert [each.type for each in refused.stream()] == ["error", "turn.done"]

    assert session.version == before and session.status == "awaiting-approval"
    assert len(model.requests) == 1 and ran == []


def test_what_was_refused_is_no_part_of_the_conversation_after_the_decision(run: Run) -> None:
    session = paused(run([removing("a"), "fine", "hello"], tools=[remove]))
    with pytest.raises(SessionAwaitingApproval):
        session.send("yes please").result(WAIT)
    session.reject(FIRST).result(WAIT)

    assert session.send("hi").result(WAIT).text == "hello"
    assert "yes please" not in said(session.messages)


def test_resume_all_leaves_alone_what_waits_for_a_decision(run: Run) -> None:
    session = paused(run([removing("a")], tools=[remove]))
    before = session.version

    assert list(session._system.resume_all()) == []
    assert session.version == before


def beside(run: Run, held: Any, policy: Any) -> tuple[Session, Turn, Turn, ScriptedModel]:
    """A turn with a call that runs and one that is gated, an input accepted meanwhile, and then
    the pause."""
    model = ScriptedModel([[call("held", "1", text="x"), *removing("a")], "done", "again"])
    session = run([], model=model, tools=[*held.tools, remove]).session("s")
    turn = session.send("go")
    held.begun("x")
    other = session.send("and", policy=policy)
    other.accepted().result(WAIT)
    held.let("x")
    assert turn.result(WAIT).finish_reason == "awaiting-approval"
    return session, turn, other, model


def test_an_input_accepted_before_the_pause_joins_the_turn_after_the_decision(
    run: Run, held: Any
) -> None:
    session, _turn, joined, model = beside(run, held, "queue")
    assert not joined.done() and session.pending().queued == ("and",)  # type: ignore[union-attr]
    decided = session.approve("s/turn-1.1.2")

    assert joined.result(WAIT) is decided.result(WAIT)
    assert said(model.requests[1].messages)[-1] == "and" and ran == ["a"]


def test_an_input_that_waits_for_its_turn_runs_after_the_one_that_was_paused(
    run: Run, held: Any
) -> None:
    session, _turn, following, _model = beside(run, held, "wait")
    assert session.reject("s/turn-1.1.2").result(WAIT).text == "done"
    assert following.result(WAIT).text == "again"


def test_a_call_approved_after_a_steer_runs_all_the_same(run: Run, held: Any) -> None:
    session, _turn, _steer, _model = beside(run, held, "steer")
    session.approve("s/turn-1.1.2").result(WAIT)

    outcomes = {each.call_id: each.outcome for each in facts(session, ToolResultRecorded)}
    assert outcomes == {"1": "ok", "a": "ok"} and ran == ["a"]


STOPS = {
    "abort": lambda session, turn: turn.abort(),
    "discard": lambda session, turn: session.discard_pending(),
}


@pytest.mark.parametrize("stop", STOPS.values(), ids=list(STOPS))
def test_stopping_a_paused_turn_takes_its_questions_back(run: Run, stop: Any) -> None:
    session = run([removing("a", "b"), "hello"], tools=[remove]).session("s")
    turn = session.send("go")
    turn.result(WAIT)
    assert stop(session, turn).result(WAIT) is True

    withdrawn = facts(session, ApprovalWithdrawn)
    assert [(each.approval_id[-1], each.reason) for each in withdrawn] == [
        ("1", "aborted"),
        ("2", "aborted"),
    ]
    results = [(each.call_id, each.outcome) for each in facts(session, ToolResultRecorded)]
    assert results == [("a", "skipped"), ("b", "skipped")] and ran == []
    assert session.status == "idle" and list(session._system.approvals()) == []
    with pytest.raises(ApprovalDecided) as late:
        session.approve(FIRST).result(WAIT)
    assert late.value.decision == "aborted"
    assert session.send("hi").result(WAIT).text == "hello"


def test_a_paused_turn_that_was_stopped_and_kept_asks_anew_when_it_is_resumed(run: Run) -> None:
    model = ScriptedModel([removing("a"), "done"])
    session = run([], model=model, tools=[remove]).session("s")
    turn = session.send("go")
    turn.result(WAIT)
    assert turn.abort(keep=True).result(WAIT) is True
    assert session.status == "aborted" and list(session._system.approvals()) == []

    resumed = session.resume()
    assert resumed is not None
    assert [each.id for each in resumed.result(WAIT).approvals] == [AGAIN]
    with pytest.raises(ApprovalDecided):
        session.approve(FIRST).result(WAIT)
    assert ran == [] and len(model.requests) == 1
    assert session.approve(AGAIN).result(WAIT).text == "done" and ran == ["a"]


def test_the_handle_of_a_decision_stops_the_turn_that_goes_on(run: Run, held: Any) -> None:
    script = [removing("a"), [call("held", "1", text="x")]]
    session = paused(run(script, tools=[*held.tools, remove]))
    decided = session.approve(FIRST)
    held.begun("x")

    assert decided.abort().result(WAIT) is True
    assert decided.result(WAIT).finish_reason == "aborted"
    assert len(facts(session, TurnAborted)) == 1


def test_a_decision_outlives_the_failure_of_its_turn(run: Run) -> None:
    script = [removing("a"), ConnectionError("down"), "done"]
    session = paused(run(script, tools=[remove], on_failure="keep"))
    with pytest.raises(ModelFailed):
        session.approve(FIRST).result(WAIT)
    resumed = session.resume()

    assert resumed is not None and resumed.result(WAIT).text == "done"
    assert ran == ["a"] and len(facts(session, ApprovalRequested)) == 1


def test_a_pause_costs_no_step(run: Run) -> None:
    session = paused(run([removing("a")], tools=[remove], max_steps=1))
    result = session.approve(FIRST).result(WAIT)

    assert (result.finish_reason, result.steps, ran) == ("max-steps", 1, ["a"])


def test_a_system_with_a_paused_turn_closes_at_once_and_decides_nothing_any_more(run: Run) -> None:
    session = paused(run([removing("a")], tools=[remove]))

    assert session._system.close() is True
    with pytest.raises(SystemClosed):
        session.approve(FIRST).result(WAIT)
    assert ran == []


def test_a_gate_is_asked_about_each_call_and_holds_those_it_says(run: Run) -> None:
    seen: list[tuple[str, str, str, Any]] = []

    def gate(context: ToolContext, arguments: dict[str, Any]) -> Any:
        seen.append((context.session_id, context.turn_id, context.call_id, arguments["path"]))
        return arguments["path"] == "b"

    session = paused(run([removing("a", "b", "c"), "done"], tools=[gated(gate)]))
    assert seen[:3] == [("s", "turn-1", each, each) for each in "abc"]
    assert [each.call_id for each in session.pending().approvals] == ["b"]  # type: ignore[union-attr]
    session.approve("s/turn-1.1.2").result(WAIT)
    assert sorted(ran) == ["a", "b", "c"]


def raises(context: ToolContext, arguments: dict[str, Any]) -> bool:
    raise LookupError(arguments["path"])


def takes_too_little(context: ToolContext) -> bool:
    return False


@pytest.mark.parametrize("gate", [raises, takes_too_little, lambda *_: "a word", lambda *_: 1])
def test_a_gate_that_can_not_tell_holds_the_call(run: Run, gate: Any) -> None:
    session = paused(run([removing("a"), "done"], tools=[gated(gate)]))

    assert ran == []
    assert session.reject(FIRST).result(WAIT).text == "done" and ran == []


def test_what_a_gate_does_to_the_arguments_changes_nothing(run: Run) -> None:
    def gate(context: ToolContext, arguments: dict[str, Any]) -> bool:
        arguments["path"] = "everything"
        return True

    session = paused(run([removing("a"), "done"], tools=[gated(gate)]))
    assert session.pending().approvals[0].arguments == {"path": "a"}  # type: ignore[union-attr]
    session.approve(FIRST).result(WAIT)
    assert ran == ["a"]


def test_a_call_that_could_not_run_is_refused_and_nobody_is_asked(run: Run) -> None:
    script = [[call("remove", "a", path=7), ToolCall("b", "remove", {}, "{")], "sorry"]
    session = run(script, tools=[remove]).session("s")

    assert session.send("go").result(WAIT).text == "sorry"
    assert facts(session, ApprovalRequested) == [] and ran == []


@pytest.mark.parametrize("gate", [False, lambda *_: False], ids=["ungated", "lenient"])
def test_a_question_stands_although_the_tool_would_need_no_decision_any_more(
    run: Run, place: EventStore | str, gate: Any
) -> None:
    run([removing("a")], tools=[gated(True)], on=place).session("s").send("go").result(WAIT)
    session = run(["done"], tools=[gated(gate)], on=place).session("s")

    with pytest.raises(SessionAwaitingApproval):
        session.resume().result(WAIT)  # type: ignore[union-attr]
    assert ran == []
    assert session.approve(FIRST).result(WAIT).text == "done" and ran == ["a"]


def test_an_async_gate_is_refused_when_it_is_declared() -> None:
    async def gate(context: ToolContext, arguments: dict[str, Any]) -> bool:
        return False

    with pytest.raises(InvalidAgent, match="needs_approval"):
        gated(gate)
