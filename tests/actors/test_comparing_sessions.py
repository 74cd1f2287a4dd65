"""Sessions, views, checkpoints and transcripts, compared with each other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from turnstream.actors import ActorSystem, Agent, Session, compare, import_transcript, tool
from turnstream.actors.recording import Known, append_after
from turnstream.actors.testing import ScriptedModel, call
from turnstream.events import (
    CODEC,
    ForkOrigin,
    InvalidTranscript,
    ModelFailed,
    ModelTurn,
    SessionStarted,
    ToolMessage,
    Usage,
    UserMessage,
)
from turnstream.projections import (
    ArgumentDrift,
    FinishReasonDrift,
    StepCountDrift,
    fold,
)
from turnstream.stores import EventStore
from turnstream.stores.port import Append

WAIT = 20
USED = Usage(10, 3)


def turn(*calls: Any, text: str = "") -> ModelTurn:
    return ModelTurn(text, calls, USED)


SCRIPT = [turn(call("add", a=1, b=2)), turn(text="3"), turn(call("add", a=3, b=4)), turn(text="7")]


def held(system: ActorSystem, session_id: str, turns: int = 2) -> Session:
    session = system.session(session_id)
    for number in range(turns):
        session.send(f"sum {number}").result(WAIT)
    return session


def fork(store: EventStore, source: str, version: int, session_id: str) -> None:
    """Begin a stream as another one does."""
    records = store.read(source, upto=version)
    state = fold(CODEC.decode(each.topic, each.payload) for each in records)
    origin = ForkOrigin(source, version)
    marker = SessionStarted(at=datetime.now(UTC), agent=state.agent, forked_from=origin)
    known = Known(state, version, "")
    append, _ = append_after(known, session_id, [marker], fold([marker], state))
    store.append(Append(session_id, version, append.events, append.row, origin))


def test_the_same_conversation_held_twice_differs_in_nothing(
    run: Callable[..., ActorSystem],
) -> None:
    system = run(SCRIPT + SCRIPT)
    one, other = held(system, "one"), held(system, "other")
    found = compare(one, other)
    assert (found.equal, len(found.a), found.shared) == (True, 4, 0)
    assert (found.usage_a, found.usage_b) == (Usage(40, 12),) * 2
    assert [each.ended for each in found.a] == ["", "stop", "", "stop"]


def test_a_session_a_view_a_checkpoint_and_its_transcript_are_the_same_run(
    run: Callable[..., ActorSystem],
) -> None:
    session = held(run(SCRIPT), "s")
    view, checkpoint = session.at(version=session.version), session.history(limit=1)[0]
    forms: list[Any] = [session, view, checkpoint, session.messages, list(session.messages)]
    for a in forms:
        for b in forms:
            found = compare(a, b)
            assert found.equal and len(found.a) == 4
            assert found.shared == (session.version if a is b is session else None)
    assert compare(view, checkpoint).usage_a == compare(view, checkpoint).usage_b == Usage(40, 12)
    assert compare(session.messages, view).usage_a is None


def test_a_fork_shares_with_its_source_what_came_before_it(
    opened: EventStore, run: Callable[..., ActorSystem]
) -> None:
    system = run([*SCRIPT[:2], turn(text="no"), *SCRIPT[2:]], on=opened)
    source = held(system, "source", turns=1)
    at = source.version
    fork(opened, "source", at, "branch")
    fork(opened, "branch", at + 1, "twig")
    branch = system.session("branch")
    branch.send("sum 1").result(WAIT)
    source.send("sum 1").result(WAIT)
    found = compare(source, branch)
    assert (found.shared, found.diverged_at) == (at, 2)
    assert [type(each) for each in found.drift][-1] is StepCountDrift
    assert compare(branch, source).shared == at
    assert compare(source, system.session("twig")).shared == at
    assert compare(branch, system.session("twig")).shared == at + 1
    assert compare(source, source).shared == source.version


def test_how_turns_ended_is_compared_turn_by_turn(run: Callable[..., ActorSystem]) -> None:
    script = [turn(call("add", a=1, b=2)), turn(text="3")]
    whole = held(run(script * 2), "s")
    limited = held(run([script[0]] * 2, max_steps=1), "limited")
    found = compare(whole, limited)
    assert [each.ended for each in found.b] == ["max-steps", "max-steps"]
    assert found.drift[0] == FinishReasonDrift(0, "", "max-steps")


def test_a_turn_that_waits_and_one_that_failed_are_told_apart(
    run: Callable[..., ActorSystem],
) -> None:
    @tool(needs_approval=True)
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    waiting = run([SCRIPT[0]], tools=[add]).session("s")
    waiting.send("go").result(WAIT)
    failed = run([SCRIPT[0], RuntimeError()], on_failure="keep").session("failed")
    with pytest.raises(ModelFailed):
        failed.send("go").result(WAIT)
    found = compare(waiting, failed)
    assert (found.a[0].ended, found.b[0].ended) == ("awaiting-approval", "failed")
    assert found.a[0].calls[0].outcome is None and found.b[0].calls[0].outcome == "ok"
    assert found.diverged_at == 0


def test_a_dropped_turn_is_no_part_of_the_run(run: Callable[..., ActorSystem]) -> None:
    script = [*SCRIPT[:2], SCRIPT[2], RuntimeError(), *SCRIPT[2:]]
    session = held(run(script, on_failure="drop"), "s", turns=1)
    with pytest.raises(ModelFailed):
        session.send("lost").result(WAIT)
    session.send("sum 1").result(WAIT)
    found = compare(session, held(run(SCRIPT), "other"))
    assert found.equal
    assert found.usage_a == Usage(50, 15)


def test_arguments_and_texts_are_ignored_on_request(run: Callable[..., ActorSystem]) -> None:
    one = held(run([turn(call("add", a=1, b=2)), turn(text="3")]), "s", turns=1)
    other = held(run([turn(call("add", a=2, b=1)), turn(text="three")]), "other", turns=1)
    assert [each for each in compare(one, other).drift if isinstance(each, ArgumentDrift)]
    assert compare(one, other, ignore={"add": ["a", "b"]}).diverged_at == 1
    assert compare(one, other, ignore={"add": ["a", "b"]}, ignore_text=True).equal


def test_what_is_no_run_is_refused(run: Callable[..., ActorSystem]) -> None:
    for wrong in ("text", None, ["text"], 3):
        with pytest.raises(TypeError):
            compare([], wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidTranscript):
        compare([], [UserMessage("go"), ToolMessage("c", "add", "stray")])


def test_an_imported_conversation_can_be_compared_with_one_that_was_held(
    opened: EventStore, run: Callable[..., ActorSystem]
) -> None:
    chat = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello."},
    ]
    import_transcript(chat, opened, "imported", agent="agent")
    with ActorSystem(Agent("agent", model=ScriptedModel(["Hello."])), store=opened) as system:
        system.session("held").send("hi").result(WAIT)
        found = compare(system.session("imported"), system.session("held"))
    assert (found.equal, found.shared) == (True, 0)
